"""The commands that serve an engine at a pipe: they choose stepping and slots, and say what is wrong with a value."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport_pipe import __main__ as program

PUSH = '{"MoveRight":true}'
_OWN = (sys.executable, "-m", "lucky_transport_pipe", "cartpole", "-batchmode", "-nographics")
_TIMEOUT_S = 60


def _own(name: str, *more: str) -> list[str]:
    return [*_OWN, "-p", name, *more]


def _serve(name: str, query: str) -> list[str]:
    return [sys.executable, "-m", "lucky_transport", "serve", "cartpole", "--endpoint", f"pipe://{name}{query}"]


@pytest.mark.parametrize(
    "command",
    [
        lambda name: _own(name, "--stepping", "barrier", "--slots", "2"),
        lambda name: _serve(name, "?stepping=barrier&slots=2"),
    ],
    ids=["own", "serve"],
)
def test_a_command_line_chooses_stepping_and_slots(
    name: str, offering: Callable[[], Any], command: Callable[[str], list[str]]
) -> None:
    with subprocess.Popen(command(name)) as process:
        try:
            with offering() as client:
                client.send("run cart_pole", "{}", "{}", "{}", "END")
                assert [client.read() for _ in range(3)] == ["SUCCESS", "0", "1"]
                assert [client.read()[:3] for _ in range(2)] == ["0 {", "1 {"]
                client.send(f"0 {PUSH}", "nonsense")
                assert client.read().startswith("Warning: 'nonsense'")  # session 0 waits for session 1's command
                client.send(f"1 {PUSH}")
                assert [client.read()[:3] for _ in range(2)] == ["0 {", "1 {"]
                client.send("quit")
                assert client.read() == "QUIT"
        finally:
            process.terminate()
            process.wait(_TIMEOUT_S)


def test_a_session_without_a_command_ends_after_the_time_that_the_command_line_says(
    name: str, offering: Callable[[], Any]
) -> None:
    with subprocess.Popen(_own(name, "--timeout-s", "0.2")) as process:
        try:
            with offering() as client:
                client.send("run cart_pole", "{}", "END")
                assert [client.read()[:3] for _ in range(3)] == ["SUC", "0", "0 {"]
                assert client.read() == "Warning: session 0 got no command within 0.2 s and ends"
        finally:
            process.terminate()
            process.wait(_TIMEOUT_S)


def test_help_names_the_options_and_an_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lucky_transport_pipe", "--help"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    for each in ("--stepping [barrier|independent]", "--slots", "--timeout-s", "--options", "-p NAME", "Example"):
        assert each in shown


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["cartpole", "-p", "x", "--slots", "0"], "slots=0; expected a number of sessions from 1"),
        (["cartpole", "-p", "x", "--stepping", "both"], "'both' is not one of 'barrier', 'independent'"),
        (["cartpole", "-p", "x", "--timeout-s", "-1"], "timeout_s=-1; expected a number of seconds above 0"),
        (["cartpole", "-p", "x", "--options", "{"], "no JSON"),
        (["cartpole", "-p", "x", "--options", "[1]"], "no JSON object"),
        (["cartpol", "-p", "x"], "cartpol"),
        (["cartpole", "-p", "a/b"], "'a/b' is no name of a pipe"),
        (["cartpole", "-p", "x", "--options", '{"gravty": 1}'], "gravty"),
        (["cartpole"], "-p"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said_without_a_traceback(arguments: list[str], why: str) -> None:
    ended = CliRunner().invoke(program.main, arguments)
    assert isinstance(ended.exception, SystemExit), ended.exception  # anything else would be a traceback
    assert ended.exit_code == 2
    assert why in ended.output
