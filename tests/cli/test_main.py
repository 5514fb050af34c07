"""The command line as a whole: it starts light, completes its words, and never shows a traceback."""

import json
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from lucky_transport.cli import main as main_module
from lucky_transport.cli.completion import COMPLETION_VARIABLE
from lucky_transport.cli.main import main
from lucky_transport.errors import Busy
from lucky_transport.hookspecs import CommandInfo
from lucky_transport.registry import Registry, registry
from tests.cli.conftest import MakeSegment, Run, Start
from tests.support.command import execute, invoke, python
from tests.support.waiting import PATIENCE_S, until

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


#: A program under the launcher, which does not exist long enough to reach an engine.
PROGRAM = ("run", "--endpoint", "shm://nowhere", "--", sys.executable, "-c", "pass")


def light(*arguments: str, more: tuple[str, ...] = ()) -> Any:
    return pytest.param(arguments, more, id=" ".join(arguments[:2]), marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        pytest.param(("--help",), SLOW, id="--help"),
        *(light(*arguments, more=SLOW) for arguments in (("-h",), PROGRAM)),
        *(light(*arguments) for arguments in (("--version",), ("ls",))),
        *(light(name, "--help") for name in sorted(registry().commands)),
    ],
)
def test_what_only_looks_or_launches_imports_nothing_heavy(arguments: tuple[str, ...], more: tuple[str, ...]) -> None:
    done = python("-c", LIST_IMPORTS, json.dumps([*HEAVY, *more]), *arguments, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {"code": 0, "heavy": []}


@pytest.mark.parametrize("name", sorted(registry().commands))
def test_the_help_of_a_command_has_an_example_of_itself_and_cuts_nothing(name: str) -> None:
    shown = invoke(name, "--help", prog_name="lucky-transport")
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
    done = invoke("stages_of_grief")
    assert done.exit_code == 2
    assert "plugins that failed to load: migration" in done.output


def test_a_command_whose_module_is_broken_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry(commands={"lost": CommandInfo("lost", "lucky_transport_nowhere:command", "is not there")})
    monkeypatch.setattr(main_module, "registry", lambda: found)
    done = invoke("lost")
    assert done.exit_code == 1
    assert "command 'lost' failed to load" in done.output
    assert invoke("--help").exit_code == 0  # and hides nothing else


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
    done = python("-c", LOG_SOMETHING, *flags, "speak")
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
    return invoke("ends")


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
    shown = invoke("--help").output
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
    assert "More:\n  odd  is odd" in invoke("--help").output


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_has_a_short_option(option: str) -> None:
    assert invoke(option).output.startswith("lucky-transport, version ")


def asked(line: str, breaks: str = ":=") -> dict[str, str]:
    """What Bash sets for a line whose end is the cursor."""
    words = {"COMP_WORDS": line, "COMP_CWORD": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    return {**words, "COMP_WORDBREAKS": breaks, COMPLETION_VARIABLE: "bash_complete"}


def completed(run: Run, line: str, *, breaks: str = ":=", **variables: str) -> list[str]:
    """What Bash gets for it."""
    done = run(**asked(line, breaks), **variables)
    assert (done.returncode, done.stderr) == (0, "")
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
    done = invoke("stage", "register", "weather.proto")
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
        assert completed(run, line, PYTHONPATH=str(tmp_path))


def test_a_broken_command_has_no_completion(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(registry().commands, "lost", CommandInfo("lost", "json:no_such_command", "cannot be loaded"))
    for name, value in asked("lucky-transport lost ").items():
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
    done = execute("bash", "-c", program)
    assert done.stdout.splitlines() == [f"//{name}"], done.stderr
