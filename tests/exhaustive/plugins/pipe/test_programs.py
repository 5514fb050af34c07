"""Programs at a pipe: a real .NET one in the place of a Unity build, our examples, and the commands that serve."""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport.errors import UnknownName
from lucky_transport_pipe import __main__ as program
from lucky_transport_pipe.instance import Instance
from tests.support.pages import DOCS
from tests.support.waiting import PATIENCE_S

SOURCE = Path(__file__).parents[3] / "plugins" / "pipe" / "peer.cs"
PUSH = '{"MoveRight":true}'
_OWN = (sys.executable, "-m", "lucky_transport_pipe", "cartpole", "-batchmode", "-nographics")
_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def dotnet(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the compiled peer; skips where there is no Mono."""
    if not shutil.which("mcs") or not shutil.which("mono"):
        pytest.skip("no C# compiler: apt-get install mono-mcs mono-runtime")
    binary = tmp_path_factory.mktemp("peer") / "peer.exe"
    subprocess.run(["mcs", "-r:System.Core.dll", f"-out:{binary}", str(SOURCE)], check=True, timeout=PATIENCE_S)
    return ["mono", str(binary)]


def test_a_dotnet_engine_is_started_played_and_told_to_quit(name: str, dotnet: list[str]) -> None:
    with Instance(name, dotnet, timeout_s=PATIENCE_S) as unity:
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


def _example(monkeypatch: pytest.MonkeyPatch, name: str, arguments: str) -> list[float]:
    """Run an example of the page and return the mean score of each epoch."""
    monkeypatch.syspath_prepend(DOCS / "examples" / "unity")
    monkeypatch.setattr(sys, "argv", ["example", *arguments.split()])
    return importlib.import_module(name).main()


@pytest.mark.parametrize("example", ["genetic", "gradient"])
def test_an_example_improves_its_score(
    example: str, name: str, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving():
        means = _example(monkeypatch, example, f"--pipe {name} --epochs 5 --sessions 16")
    assert means[-1] > 1.5 * means[0]


def test_an_example_starts_an_engine_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(_example(monkeypatch, "genetic", "--epochs 1 --sessions 2")) == 1
    assert capsys.readouterr().out.startswith("epoch 0: mean ")


# commands that serve


def _own(name: str, *more: str) -> list[str]:
    return [*_OWN, "-p", name, *more]


def _serve(name: str, query: str) -> list[str]:
    return [sys.executable, "-m", "lucky_transport", "serve", "cartpole", "--endpoint", f"pipe://{name}{query}"]


@contextmanager
def _running(command: list[str]) -> Generator[None]:
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(_TIMEOUT_S)


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
    with _running(command(name)), offering() as client:
        client.send("run cart_pole", "{}", "{}", "{}", "END")
        assert [client.read() for _ in range(3)] == ["SUCCESS", "0", "1"]
        assert [client.read()[:3] for _ in range(2)] == ["0 {", "1 {"]
        client.send(f"0 {PUSH}", "nonsense")
        assert client.read().startswith("Warning: 'nonsense'")  # session 0 waits for session 1's command
        client.send(f"1 {PUSH}")
        assert [client.read()[:3] for _ in range(2)] == ["0 {", "1 {"]
        client.send("quit")
        assert client.read() == "QUIT"


def test_a_session_without_a_command_ends_after_the_time_that_the_command_line_says(
    name: str, offering: Callable[[], Any]
) -> None:
    with _running(_own(name, "--timeout-s", "0.2")), offering() as client:
        client.send("run cart_pole", "{}", "END")
        assert [client.read()[:3] for _ in range(3)] == ["SUC", "0", "0 {"]
        assert client.read() == "Warning: session 0 got no command within 0.2 s and ends"


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
