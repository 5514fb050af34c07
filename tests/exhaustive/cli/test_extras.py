"""A command whose extra is not installed names it, and everything else works without the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
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
    "scipy",
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

LOOP = f"""{WITHOUT_EXTRAS}
import lucky_transport

with lucky_transport.make(**MADE) as env:
    env.reset(seed=0)
    env.action_space.seed(0)
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
        (("gate",), "scan"),
        (("signoff",), "migration"),
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


def loop(**made: object) -> str:
    """Return a program that steps the env which `make` gives for these arguments."""
    return LOOP.replace("MADE", repr(made))


def test_an_env_needs_no_extra(tmp_path: Path) -> None:
    ended = run(loop(engine="toy", num_envs=2, transport="shm", options={"obs_size": 3}), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "stepped\n"), ended.stderr


def test_a_run_is_recorded_and_replayed_without_any_extra(tmp_path: Path) -> None:
    fresh = f"shm://{unique_name()}"
    recording = loop(endpoint=f"recorded:?to={fresh}&file=run.jsonl")
    with lucky_transport.serve("toy", fresh, num_envs=2, seed=7):
        recorded = run(recording, cwd=tmp_path)
    assert (recorded.returncode, recorded.stdout) == (0, "stepped\n"), recorded.stderr
    with lucky_transport.serve("toy", fresh, num_envs=2, seed=7):
        replayed = run(COMMAND, "replay", "run.jsonl", fresh, cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert "EQUAL" in replayed.stdout
