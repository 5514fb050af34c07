"""Shell completion: commands, engines, endpoints and methods, as a shell asks for them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from lucky_transport.cli.completion import COMPLETION_VARIABLE
from lucky_transport.cli.main import cli, main
from lucky_transport.hookspecs import CommandInfo
from lucky_transport.registry import registry
from lucky_transport.shm.segment import segment
from tests.support.waiting import PATIENCE_S

MakeSegment = Callable[..., segment.Segment]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def completed(run: Run, line: str, *, breaks: str = ":=") -> list[str]:
    """What Bash gets for a line whose end is the cursor."""
    done = run(
        _LUCKY_TRANSPORT_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD="1",
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
        COMP_WORDBREAKS=breaks,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lucky-transport ins", ["inspect"]),
        ("lucky-transport serve toy --num", ["--num-envs"]),
        ("lucky-transport serve mujoco", ["mujoco", "mujoco:quadruped", "mujoco:quadruped-walk"]),
        ("lucky-transport serve mujoco:q", ["quadruped", "quadruped-walk"]),
        ("lucky-transport bench cart", ["cartpole"]),
        ("lucky-transport stage set SceneService/L", ["SceneService/ListEntities"]),
        ("lucky-transport stage set /hazel.rpc.SceneService/L", ["/hazel.rpc.SceneService/ListEntities"]),
        ("lucky-transport gate --method=SceneService/L", ["SceneService/ListEntities"]),
        ("lucky-transport inspect hol", ["holodeck://"]),
    ],
)
def test_bash_gets_what_fits(run: Run, line: str, expected: list[str]) -> None:
    assert completed(run, line) == expected


@pytest.mark.exhaustive
def test_methods_of_services_of_ones_own_are_offered(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc_tools")
    (tmp_path / "weather.proto").write_text(
        'syntax = "proto3"; package weather.v1; message Query {}\n'
        "service Weather { rpc GetForecast(Query) returns (Query); }\n"
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["stage", "register", "weather.proto"])
    assert done.exit_code == 0, done.output
    assert completed(run, "lucky-transport stage set Wea") == ["Weather/GetForecast"]
    assert completed(run, "lucky-transport signoff --method /wea") == ["/weather.v1.Weather/GetForecast"]
    (tmp_path / "lucky_transport.toml").write_text("[stages\n")
    assert completed(run, "lucky-transport stage set SceneService/L") == ["SceneService/ListEntities"]


def test_living_engines_are_endpoints(run: Run, make_segment: MakeSegment) -> None:
    name = make_segment().name
    start = name[: len(name) - 2]
    assert completed(run, f"lucky-transport inspect shm://{start}") == [f"//{name}"]
    assert completed(run, f"lucky-transport inspect shm://{start}", breaks="=") == [f"shm://{name}"]
    assert f"shm://{name}" in completed(run, "lucky-transport run --endpoint s")


@pytest.mark.exhaustive
def test_completing_imports_no_numpy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('numpy was imported')\n")
    for line in ("lucky-transport serve to", "lucky-transport inspect s", "lucky-transport parity --method Sce"):
        done = run(
            _LUCKY_TRANSPORT_COMPLETE="bash_complete",
            COMP_LINE=line,
            COMP_POINT=str(len(line)),
            COMP_WORDBREAKS=":",
            PYTHONPATH=str(tmp_path),
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert done.stdout


def test_a_command_that_cannot_be_loaded_completes_to_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(registry().commands, "lost", CommandInfo("lost", "json:no_such_command", "cannot be loaded"))
    line = "lucky-transport lost "
    variables = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_WORDBREAKS": ":"}
    for name, value in {**variables, COMPLETION_VARIABLE: "bash_complete"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_itself_completes_by_the_script(run: Run, tmp_path: Path, make_segment: MakeSegment) -> None:
    name = make_segment().name
    script = run(_LUCKY_TRANSPORT_COMPLETE="bash_source").stdout
    command = tmp_path / "lucky-transport"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m lucky_transport "$@"\n')
    command.chmod(0o755)
    line = f"lucky-transport inspect shm://{name[:-2]}"
    program = f"""{script}
COMP_LINE={line!r} COMP_POINT={len(line)} COMP_WORDS=({line}) COMP_CWORD=2
_lucky_transport_completion {command}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.splitlines() == [f"//{name}"], done.stderr
