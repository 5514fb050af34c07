"""The command line as a whole: it starts light, knows its commands and never shows a traceback."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lucky_transport.cli import main as main_module
from lucky_transport.cli.main import cli
from lucky_transport.errors import Busy
from lucky_transport.hookspecs import CommandInfo
from lucky_transport.registry import Registry, registry
from tests.support.forked_programs import Program
from tests.support.waiting import PATIENCE_S, until

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str] | Program"]

HEAVY = (
    "numpy",
    "gymnasium",
    "grpc",
    "mujoco",
    "flatbuffers",
    "jinja2",
    "matplotlib",
    "rich",
    "google.protobuf",
    "libcst",
    "tomlkit",
)

#: What also takes its time, and neither the overview nor the launcher needs.
SLOW = ("asyncio", "email", "importlib.metadata", "logging", "ssl")

LIST_IMPORTS = """
import json, sys
heavy = json.loads(sys.argv[1])
sys.argv = ["lucky-transport", *sys.argv[2:]]
from lucky_transport.cli.main import main
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps({"code": code, "heavy": [name for name in heavy if name in sys.modules]}))
"""


def imports_of(*arguments: str, more: tuple[str, ...] = ()) -> dict[str, object]:
    """Exit code, and heavy imports and those of `more`, of a run of the command line."""
    command = [sys.executable, "-c", LIST_IMPORTS, json.dumps([*HEAVY, *more]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return json.loads(done.stdout.splitlines()[-1])


#: A program under the launcher, which does not exist long enough to reach an engine.
PROGRAM = ("run", "--endpoint", "shm://nowhere", "--", sys.executable, "-c", "pass")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (("--help",), SLOW),
        (("-h",), SLOW),
        (PROGRAM, SLOW),
        *((arguments, ()) for arguments in (("--version",), ("ls",))),
        *(((name, "--help"), ()) for name in sorted(registry().commands)),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_what_only_looks_or_launches_imports_nothing_heavy(arguments: tuple[str, ...], more: tuple[str, ...]) -> None:
    assert imports_of(*arguments, more=more) == {"code": 0, "heavy": []}


@pytest.mark.parametrize("name", sorted(registry().commands))
def test_the_help_of_a_command_has_an_example_of_itself_and_cuts_nothing(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"], prog_name="lucky-transport")
    assert shown.exit_code == 0
    assert "xample" in shown.output
    assert f"  lucky-transport {name}" in shown.output or f": lucky-transport {name}" in shown.output
    assert "RANGE" not in shown.output
    assert "..." not in shown.output.partition("Commands:")[2].partition("Example")[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("serv", "no command 'serv'; did you mean 'serve'?"),
        ("xyzzy", f"there are: {', '.join(sorted(registry().commands))}"),
    ],
)
def test_an_unknown_command_is_answered_with_the_nearest_name_or_all(run: Run, name: str, said: str) -> None:
    done = run(name, "toy")
    assert done.returncode == 2
    assert said in done.stderr


def test_an_unknown_command_names_the_plugins_that_could_have_brought_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry(commands=registry().commands, broken={"migration": ImportError("no such module")})
    monkeypatch.setattr(main_module, "registry", lambda: found)
    done = CliRunner().invoke(cli, ["stages_of_grief"])
    assert done.exit_code == 2
    assert "plugins that failed to load: migration" in done.output


def test_a_command_whose_module_is_broken_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry(commands={"lost": CommandInfo("lost", "lucky_transport_nowhere:command", "is not there")})
    monkeypatch.setattr(main_module, "registry", lambda: found)
    done = CliRunner().invoke(cli, ["lost"])
    assert done.exit_code == 1
    assert "command 'lost' failed to load" in done.output
    assert CliRunner().invoke(cli, ["--help"]).exit_code == 0  # and hides nothing else


LOG_SOMETHING = """
import logging, sys
import click
from lucky_transport.cli import main
from lucky_transport.hookspecs import CommandInfo

@click.command()
def speak():
    logging.getLogger("lucky_transport").info("took shm")

main.registry().commands["speak"] = CommandInfo("speak", "somewhere:speak", "speaks")
main.load = lambda target, owner, extra: speak
main.main()
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("flags", "said"), [(["--verbose"], "lucky_transport: took shm\n"), ([], "")])
def test_what_is_chosen_and_why_is_said_on_stderr_when_asked_for(flags: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOG_SOMETHING, *flags, "speak"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)


def test_no_command_at_all_shows_the_overview(run: Run) -> None:
    done = run()
    assert "Run engines and programs:" in done.stdout + done.stderr


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Type a command of a plugin that raises this."""

    @click.command()
    def ends() -> None:
        raise error

    found = Registry(commands={"ends": CommandInfo("ends", "plugin:ends", "ends")})
    monkeypatch.setattr(main_module, "registry", lambda: found)
    monkeypatch.setattr(main_module, "load", lambda target, owner, extra: ends)
    return CliRunner().invoke(cli, ["ends"])


AT_A_QUESTION = click.Abort()
AT_A_QUESTION.__context__ = KeyboardInterrupt()  # what click makes of a Ctrl-C there


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (AT_A_QUESTION, 130, ""),
        (click.Abort(), 1, ""),
        (Busy("it is driven", hint="close that client"), 1, "Error: it is driven; close that client\n"),
    ],
)
def test_what_a_command_raises_is_an_exit_code_and_no_traceback(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = raising(error, monkeypatch)
    assert (done.exit_code, "Traceback" in done.output) == (code, False)
    assert said in done.output


def test_a_module_of_ours_that_is_missing_is_a_bug_and_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModuleNotFoundError("No module named 'lucky_transport.gone'", name="lucky_transport.gone")
    assert isinstance(raising(error, monkeypatch).exception, ModuleNotFoundError)


@pytest.mark.parametrize(
    "command", [["demo", "--engine", "toy", "--steps", "1000000"], ["parity", "toy"]], ids=" ".join
)
def test_a_real_command_ends_by_ctrl_c_with_130(start: Start, command: list[str]) -> None:
    pytest.importorskip("grpc")  # both compare with it
    process = start(*command)
    assert process.stderr is not None
    # Once it has started an engine it is in the middle of its work.
    until(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


def test_help_lists_every_command_under_what_it_is_for() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    sections = dict(re.findall(r"^(\w.*):\n((?:  .*\n)+)", shown, re.MULTILINE))
    del sections["Options"]
    assert "..." not in "".join(sections.values())
    listed = {name for rows in sections.values() for name in re.findall(r"^  (\S+)", rows, re.M)}
    assert set(registry().commands) <= listed
    assert all(info.summary in " ".join(shown.split()) for info in registry().commands.values())
    assert re.findall(r"^  (\S+)", sections["Migrate method by method"], re.M)[:2] == ["gate", "scan"]


def test_a_command_of_an_unknown_section_is_listed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry(commands={"odd": CommandInfo("odd", "x:y", "is odd", section="elsewhere")})
    monkeypatch.setattr(main_module, "registry", lambda: found)
    assert "More:\n  odd  is odd" in CliRunner().invoke(cli, ["--help"]).output


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_has_a_short_option(option: str) -> None:
    assert CliRunner().invoke(cli, [option]).output.startswith("lucky-transport, version ")
