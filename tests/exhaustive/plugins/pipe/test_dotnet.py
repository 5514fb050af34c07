"""Against a real .NET named pipe: a small C# program, compiled here, in the place of a Unity build."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import UnknownName
from lucky_transport_pipe.instance import Instance
from tests.support.waiting import PATIENCE_S

SOURCE = Path(__file__).parents[3] / "plugins" / "pipe" / "peer.cs"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the compiled peer; skips where there is no Mono."""
    if not shutil.which("mcs") or not shutil.which("mono"):
        pytest.skip("no C# compiler: apt-get install mono-mcs mono-runtime")
    binary = tmp_path_factory.mktemp("peer") / "peer.exe"
    subprocess.run(["mcs", "-r:System.Core.dll", f"-out:{binary}", str(SOURCE)], check=True, timeout=PATIENCE_S)
    return ["mono", str(binary)]


def test_a_dotnet_engine_is_started_played_and_told_to_quit(name: str, program: list[str]) -> None:
    with Instance(name, program, timeout_s=PATIENCE_S) as unity:
        with pytest.raises(UnknownName, match="not recognized"):
            unity.experiment("crawl", [])
        for _ in range(2):

            def add(session: int, state: Any) -> dict[str, bool]:
                return {"Add": state["Taken"] < session}

            experiment = unity.experiment("add", [{"Goal": 0.1}, {"Goal": -2.5e-7}, {"Goal": 1e300}, {"Goal": 0}])
            assert experiment.play(add) == [0.1, -2.5e-7 + 1, 1e300, 3.0]
        unity.set("speed", 2)
        process = unity._process  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        unity.quit()
        assert process._process.returncode == 0  # pyright: ignore[reportPrivateUsage]
        assert unity.warnings == ("set speed 2",)
