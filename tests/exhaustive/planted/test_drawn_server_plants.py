"""What only certain calls show of a real server is found by `parity --server` at its defaults.

One difference of each aspect of a call: tests/planted/test_drawn_plants.py has them all, in memory.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lucky_transport.cli.main import cli

pytest.importorskip("grpc")
pytest.importorskip("grpc_tools")

_PROTO = (Path(__file__).parents[2] / "planted" / "desk.proto").read_text()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server, with its .proto and the module made of it."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.proto").write_text(_PROTO)
    shutil.copy(Path(__file__).with_name("desk_server.py"), folder)
    command = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", "--python_out=.", "desk.proto"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


#: By plant: the method that shows it, and what the report's first difference says.
PLANTS = {
    "second client": ("Echo", "of two clients at once"),
    "crossed calls": ("Echo", "at once"),
    "requests after the half-close": ("Mark", "no further item came within"),
    "each answer one late": ("Mark", "no further item came within"),
    "last request lost": ("Add", "items"),
    "binary metadata lost": ("Echo", "deadline-bin"),
    "equal keys sorted": ("Echo", "trailing"),
    "long deadlines cut": ("Echo", "a long deadline"),
    "unknown fields lost": ("Echo", "Echo"),
}


def parity(desk: Path, *plant: str, method: str = "*") -> dict[str, object]:
    command = shlex.join([sys.executable, str(desk / "desk_server.py"), "PORT", *plant]).replace("PORT", "{port}")
    described = ("--proto", str(desk / "desk.proto"), "--method", f"Desk/{method}", "--json")
    done = CliRunner().invoke(cli, ["parity", "--server", command, *described])
    return json.loads(done.stdout)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_difference_that_only_certain_calls_show_is_found(desk: Path, plant: str) -> None:
    method, words = PLANTS[plant]
    found = parity(desk, plant, method=method)
    assert found["itself"] is None
    assert words in json.dumps(found["first_difference"])


@pytest.mark.parametrize("run", range(3))
def test_without_a_plant_all_is_equal(desk: Path, run: int) -> None:
    found = parity(desk)
    assert found["equal"], found["first_difference"]
    assert found["calls"] == 301
