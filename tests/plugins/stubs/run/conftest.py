"""Programs under `lucky-transport run`, in folders of their own, and a gRPC server for those that stay on gRPC."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_stubs
from tests.support.forked_programs import CommandLine, Program, Programs
from tests.support.waiting import PATIENCE_S

#: Where every Python of a switched program finds its `sitecustomize`.
BOOTSTRAP = str(Path(lucky_transport_stubs.__file__ or "").parent / "run" / "bootstrap")

#: Runs `lucky-transport run OPTIONS... -- COMMAND...` to its end: `launch(*options, command=[...], **variables)`.
Launch = Callable[..., "subprocess.CompletedProcess[str]"]

#: The command line of a Python: `python(code, *arguments)`.
Python = Callable[..., list[str]]

#: The variables that a launcher sets for its options.
_INHERITED = {
    "--transport": "LUCKY_TRANSPORT",
    "--endpoint": "LUCKY_ENDPOINT",
    "--map": "LUCKY_GRPC_MAP",
    "--serve": "LUCKY_GRPC_SERVE",
}

#: Starts the same in the background.
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices are asked for: the streams of a test are no terminals."""
    monkeypatch.setenv("LUCKY_RUN_REPORT", "-")


@pytest.fixture
def environ(notices: None) -> Iterator[dict[str, str]]:
    """The environment of a launcher: nobody's settings, and a folder for temporary files that is empty afterwards."""
    with tempfile.TemporaryDirectory() as folder:  # a short name: sockets of multiprocessing lie in it
        yield {**os.environ, "TMPDIR": folder, "PYTHONUNBUFFERED": "1"}
        assert list(Path(folder).iterdir()) == []


@pytest.fixture
def execute(environ: dict[str, str], tmp_path: Path) -> Launch:
    """Run any command in the folder to its end: `execute(command, **variables)`."""
    streams: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "check": False}
    return lambda command, **variables: subprocess.run(command, env=environ | variables, cwd=tmp_path, **streams)


@pytest.fixture
def command_line(environ: dict[str, str], tmp_path: Path) -> Iterator[CommandLine]:
    found = CommandLine(environ, tmp_path)
    yield found
    found.close()


@pytest.fixture
def forked_line(environ: dict[str, str], tmp_path: Path, forks: Programs) -> Iterator[CommandLine]:
    """Commands that are forks; the programs that they start are none."""
    with closing(CommandLine(environ, tmp_path, forks)) as found:
        yield found


@pytest.fixture
def launch(forked_line: CommandLine) -> Launch:
    return lambda *options, command, **more: forked_line.run("run", *options, "--", *command, **more)


@pytest.fixture
def start(command_line: CommandLine) -> Start:
    def started(*options: str, command: Sequence[str], **more: Any) -> subprocess.Popen[str]:
        process = command_line.start("run", *options, "--", *command, **more)
        assert isinstance(process, subprocess.Popen)
        return process

    return started


@pytest.fixture
def start_switched(forks: Programs) -> Iterator[Callable[..., Program]]:
    """Start a program switched as `run OPTIONS...` switches it, without the launcher and as a fork."""
    with ExitStack() as stack:

        def start(*options: str, command: Sequence[str]) -> Program:
            variables = _variables(options)
            return stack.enter_context(forks.start(command, first="lucky_transport.auto", **variables))

        yield start


@pytest.fixture
def run_switched(start_switched: Callable[..., Program]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Do the same to the program's end."""

    def run(*options: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        program = start_switched(*options, command=command)
        out, said = program.communicate(timeout=PATIENCE_S)
        assert program.returncode is not None
        return subprocess.CompletedProcess(command, program.returncode, out, said)

    return run


def _variables(options: Sequence[str]) -> dict[str, str]:
    """Return what a program inherits from a launcher with these options, and that it tells what it does."""
    found = {"LUCKY_RUN_REPORT": "-"}
    rest = iter(options)
    for option in rest:
        if option == "--serve-only":
            found["LUCKY_GRPC_SERVE_ONLY"] = "1"
        else:
            found[_INHERITED[option]] = next(rest)
    return found


@pytest.fixture(scope="module")
def grpc_port() -> Iterator[int]:
    """The port of a real gRPC server with the service `t.T`: Echo, Count, Sum and Chat, one of each arity."""
    pytest.importorskip("grpc")
    from ..differential.ends import REAL, Ends, generic_handler
    from ..differential.samples import ECHOES

    with Ends(REAL) as ends:
        server = ends.server(generic_handler(ECHOES, "t.T"))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield port


@pytest.fixture
def python() -> Python:
    """The command line of a Python that runs this code with these arguments."""
    return lambda code, *arguments: [sys.executable, "-c", code, *map(str, arguments)]
