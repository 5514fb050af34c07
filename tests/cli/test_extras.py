"""A command whose extra is not installed names it, and everything else works without the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lucky_transport.version import install_command

#: The packages of the extras `bench`, `scan`, `metrics` and `top`, by the names they are imported by.
HIDDEN = (
    "hdrh",
    "libcst",
    "jinja2",
    "matplotlib",
    "opentelemetry",
    "packaging",
    "prometheus_client",
    "rich",
    "textual",
    "tomlkit",
)

WITHOUT_EXTRAS = f"""
import sys
from importlib.abc import MetaPathFinder

class Hides(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hides())
"""

COMMAND = f"""{WITHOUT_EXTRAS}
from lucky_transport.cli.main import main

main()
"""

TOY_LOOP = f"""{WITHOUT_EXTRAS}
import lucky_transport

with lucky_transport.make("toy", num_envs=2, transport="shm", options={{"obs_size": 3}}) as env:
    env.reset(seed=0)
    for _ in range(10):
        env.step(env.action_space.sample())
print("stepped")
"""


def run(program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=cwd, check=False)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("bench",), "bench"),
        (("demo",), "bench"),
        (("demo", "--train"), "train"),
        (("train",), "train"),
        (("parity", "toy", "--between", "inproc,shm", "--suite", "step"), "bench"),
        (("scan", "."), "scan"),
        (("stage", "set", "SceneService/*", "shadow"), "scan"),
        (("top",), "top"),
    ],
)
def test_a_command_whose_extra_is_missing_names_it(arguments: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import grpc\n")
    (tmp_path / "lucky_transport.toml").write_text("")
    ended = run(COMMAND, *arguments, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert install_command(extra) in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "arguments", [("ls",), ("doctor",), ("gate", "--help"), ("top", "--once"), ("--help",)], ids=" ".join
)
def test_the_other_commands_need_no_extra(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(COMMAND, *arguments, cwd=tmp_path)
    assert ended.returncode in ((0, 1) if arguments == ("doctor",) else (0,)), ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_env_needs_no_extra(tmp_path: Path) -> None:
    ended = run(TOY_LOOP, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "stepped\n"), ended.stderr
