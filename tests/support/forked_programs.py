"""Programs as forks of one Python that has imported what all of them import: a start costs a fork.

with Programs("grpc", folder=libraries) as programs:
    program = programs.start([path, "client", address])
    printed, said = program.communicate(timeout=30)

Each is a process of its own, which runs as `python FILE`, `python -m MODULE` or `python -c CODE` does, and ends as that
ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO, Any

import pytest

from lucky_transport import process
from tests.support import fork_server
from tests.support.command import python
from tests.support.waiting import PATIENCE_S

#: What programs of gRPC import, switched or not; nothing of it makes a channel or a server.
SWITCHED = (
    "grpc",
    "lucky_transport._native",
    *(point.value for point in metadata.entry_points(group="lucky_transport")),
    "lucky_transport_stubs.aio.channel",
    "lucky_transport_stubs.aio.server",
    "lucky_transport_stubs.client.channel",
    "lucky_transport_stubs.run.here",
    "lucky_transport_stubs.run.patches",
    "lucky_transport_stubs.run.report",
    "lucky_transport_stubs.run.servers",
    "lucky_transport_stubs.server.server",
)

#: What engines import that are served, or started by `EngineProcess`.
SERVED = (
    "lucky_transport._native",
    "lucky_transport.cli.main",
    "lucky_transport.cli.serve",
    "lucky_transport.engines.cartpole",
    "lucky_transport.engines.toy",
    "lucky_transport.engines.toy_composite",
    "lucky_transport.serving",
    "lucky_transport_grpc.server",
    "lucky_transport_mujoco.engine",
    "lucky_transport_shm.server",
)

_LIBC = ctypes.CDLL(None)
_PR_SET_CHILD_SUBREAPER = 36
_LOCK = threading.Lock()  # one start at a time
#: The interpreter, with the flags of this one.
_PYTHON = process.python_command("")[:-2]


class Program:
    """A program that runs; what it has is that of a `subprocess.Popen` of text.

    What goes through pipes is no more than a pipe holds.
    """

    #: None where it has no pipe there.
    stdin: Any
    stdout: Any
    stderr: Any

    def __init__(self, args: Sequence[str], pid: int, streams: Sequence[IO[str] | None]) -> None:
        self.args, self.pid = args, pid
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._pidfd = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._pidfd)  # threads may look at it until then

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended. Raises TimeoutExpired when it has not by then."""
        found = self._look(timeout)
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return found

    def _look(self, timeout: float | None) -> int | None:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        if self.returncode is None and poller.poll(None if timeout is None else timeout * 1e3):
            with self._lock:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """End its input; return the rest of what it prints until it has ended, and close its streams.

        Raises TimeoutExpired when it has not by then.
        """
        if self.stdin is not None:
            self.stdin.close()
        self.wait(timeout)
        return _rest_of(self.stdout), _rest_of(self.stderr)

    def send_signal(self, number: int) -> None:
        """Send a signal to a program that has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _rest_of(stream: IO[str] | None) -> str:
    """Return what is left to read there, and close it; "" where that is done."""
    if stream is None or stream.closed:
        return ""
    with stream:
        return stream.read()


class Programs:
    """Starts programs. modules: what is imported for all of them, where it is installed.

    folder: of modules that they find beside their own. environ: what their environment has beside that of this process.
    """

    def __init__(self, *modules: str, folder: Path | None = None, **environ: str) -> None:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("LUCKY_")}
        # a fork has the thread that forks alone
        self._environ = outside | {"OPENBLAS_NUM_THREADS": "1"} | environ
        self._options = [str(folder or ""), *dict.fromkeys(modules)]
        self._stack = ExitStack()
        self._socket: socket.socket | None = None

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _server(self) -> socket.socket:
        """Return the socket of the Python that forks, which begins with the first program."""
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [*_PYTHON, fork_server.__file__, str(theirs.fileno()), *self._options]
                process = subprocess.Popen(command, env=self._environ, pass_fds=[theirs.fileno()])
            self._stack.callback(process.wait, 60)
            self._stack.callback(self._socket.close)
            assert self._socket.recv(32), "it ended before it was ready"
        return self._socket

    def has_what_python_reads(self, environ: Mapping[str, str]) -> bool:
        """Whether a Python with this environment begins as these do; no fork reads that again."""
        return _of_interpreter(environ) == _of_interpreter(self._environ)

    def start(self, command: Sequence[str], *, first: str = "", **environ: str) -> Program:
        """Start `python COMMAND`; first: a module that it imports before its first line."""
        pipe = subprocess.PIPE
        return self.popen(command, self._environ | environ, stdin=pipe, stdout=pipe, stderr=pipe, first=first)

    def run(
        self, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `python COMMAND` in a folder, with no input, to its end. environ: all of its environment.

        Raises TimeoutExpired, and kills it, when it has not ended by then.
        """
        with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as said:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": said}
            with self.popen(command, environ, cwd=str(cwd), **streams) as program:
                code = program.wait(timeout)
            out.seek(0)
            said.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), said.read())

    def popen(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        cwd: str | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
        first: str = "",
    ) -> Program:
        """Start `python COMMAND` with the options of a `subprocess.Popen`. environ: all of its environment."""
        with ExitStack() as stack:
            pairs = [_stream(given, stack, place) for place, given in enumerate((stdin, stdout, stderr))]
            request = {
                "argv": list(command),
                "environ": dict(environ),
                "cwd": cwd or os.getcwd(),
                "first": first,
                "session": start_new_session,
                "passed": list(pass_fds),
            }
            fds = [*(theirs for theirs, _ in pairs), *pass_fds]
            with _LOCK:
                server = self._server()
                with _taking_up_orphans():
                    socket.send_fds(server, [json.dumps(request).encode()], fds)
                    pid = int(server.recv(32))
                    assert server.recv(32)
        return Program(command, pid, [ours for _, ours in pairs])


@contextmanager
def _taking_up_orphans() -> Iterator[None]:
    """Make a process whose parent ends a child of this one."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _stream(given: int | IO[Any], theirs: ExitStack, place: int) -> tuple[int, IO[str] | None]:
    """Return the descriptor of a standard stream as a program gets it, which `theirs` closes, and our end of a pipe."""
    if given == subprocess.DEVNULL:
        return theirs.enter_context(open(os.devnull, "r+b", buffering=0)).fileno(), None
    if given != subprocess.PIPE:
        return given if isinstance(given, int) else given.fileno(), None
    reader, writer = os.pipe()
    fd, ours = (reader, writer) if place == 0 else (writer, reader)
    theirs.callback(os.close, fd)
    return fd, os.fdopen(ours, "r" if place else "w", encoding="utf-8")


@contextmanager
def forked_engines(programs: Programs) -> Iterator[None]:
    """Have every child process of this one that runs Python, as engines do, be one of these programs."""

    def popen(command: Sequence[str], *, env: Mapping[str, str] | None, **options: Any) -> Any:
        environ = os.environ if env is None else env
        interpreter, words = command[: len(_PYTHON)], command[len(_PYTHON) :]
        is_python = list(interpreter) == _PYTHON and (words[0] in ("-c", "-m") or not words[0].startswith("-"))
        if is_python and programs.has_what_python_reads(environ):
            return programs.popen(words, environ, **options)
        return subprocess.Popen(command, env=env, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen}))
        yield


def _of_interpreter(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter, or the loader, reads before its first line."""
    return {name: value for name, value in environ.items() if name.startswith(("PYTHON", "LD_"))}


class CommandLine:
    """Runs commands in a folder. variables: what a command's environment has beside `environ`.

    programs: what a command is a fork of where its Python begins as theirs; None starts each one.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path, programs: Programs | None = None) -> None:
        self._environ, self._folder, self._programs = environ, folder, programs
        self._started: list[subprocess.Popen[str] | Program] = []

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `lucky-transport ARGUMENTS...` to its end."""
        command, environ = ["-m", "lucky_transport", *arguments], {**self._environ, **variables}
        if programs := self._forks(environ):
            return programs.run(command, cwd=self._folder, environ=environ, timeout=PATIENCE_S)
        return python(*command, stdin=subprocess.DEVNULL, env=environ, cwd=self._folder)

    def start(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, **variables: str
    ) -> subprocess.Popen[str] | Program:
        """Start it in the background."""
        command, environ = ["-m", "lucky_transport", *arguments], {**self._environ, **variables}
        streams: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if programs := self._forks(environ):
            process = programs.popen(command, environ, cwd=str(self._folder), **streams)
        else:
            process = subprocess.Popen([sys.executable, *command], env=environ, cwd=self._folder, text=True, **streams)
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what was started."""
        for started in self._started:
            started.kill()
            started.communicate(timeout=PATIENCE_S)

    def _forks(self, environ: Mapping[str, str]) -> Programs | None:
        """Return what forks a command with this environment."""
        programs = self._programs
        return programs if programs is not None and programs.has_what_python_reads(environ) else None
