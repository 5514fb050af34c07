"""The clients of openenv-core 0.3.0, in an interpreter of their own, play on our server; so do this interpreter's.

Set LUCKY_PEER_OPENENV_CORE to a Python that has it: python -m venv peer && peer/bin/pip install openenv-core==0.3.0
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="OpenEnv is not installed: pip install 'lucky-transport[openenv]'")

from tests.plugins.openenv.conftest import url

PEER = os.environ.get("LUCKY_PEER_OPENENV_CORE", "")
PROGRAM = Path(__file__).parents[3] / "plugins" / "openenv" / "openenv_program.py"
#: A distribution that claims to have installed the module `openenv`.
OTHER = {"METADATA": "Metadata-Version: 2.1\nName: openenv-other\nVersion: 0.3.0\n", "top_level.txt": "openenv\n"}


@pytest.mark.parametrize("python", [sys.executable, PEER], ids=["own", "openenv-core"])
def test_its_clients_play_an_episode_and_call_tools(serve: Callable[..., Any], python: str) -> None:
    if not python:
        pytest.skip("LUCKY_PEER_OPENENV_CORE names no Python with openenv-core; see the top of this file")
    serving = serve("cartpole")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("LUCKY_", "PYTHON"))}
    command = [python, "-W", "ignore", str(PROGRAM), url(serving)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["package"].startswith("openenv-core 0.3" if python == PEER else "openenv")
    assert said["details"] == {"result": "fell", "score": said["gained"]}
    assert {"start_episode", "act"} <= set(said["names"])
    assert "'ticks': 5" in said["seen"]


def test_two_packages_of_one_module_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "openenv_other-0.3.0.dist-info").mkdir()
    for name, text in OTHER.items():
        (tmp_path / "openenv_other-0.3.0.dist-info" / name).write_text(text)
    command = [sys.executable, "-m", "lucky_transport", "serve", "cartpole", "--endpoint", "openenv://127.0.0.1:0"]
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0
    assert "openenv-other both install the module openenv" in ended.stderr
    assert "pip uninstall openenv" in ended.stderr
