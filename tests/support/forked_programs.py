"""Programs as forks of one Python that has imported what all of them import: a start costs a fork.

with Programs("grpc", folder=libraries) as programs:
    program = programs.start([path, "client", address])
    printed, said = program.communicate(timeout=30)

Each is a process of its own, which runs as `python FILE`, `python -m MODULE` or `python -c CODE` does, and ends as that
ends.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any

__all__ = ["SWITCHED", "Program", "Programs"]

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

_LONGEST = 1 << 20
#: What is between a program and who started it; only `stdin` is written by the latter.
_PIPES = ("status", "stdin", "stdout", "stderr")


class Program:
    """A program that runs; what it has is that of a `subprocess.Popen`. It prints no more than a pipe holds."""

    def __init__(self, pid: int, status: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self._status = status
        self.stdin = os.fdopen(stdin, "w", encoding="utf-8")
        self.stdout = os.fdopen(stdout, encoding="utf-8")
        self.stderr = os.fdopen(stderr, encoding="utf-8")
        self.returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[str, str]:
        """End its input; return the rest of what it prints until it has ended.

        Raises TimeoutExpired when it has not by then.
        """
        self.stdin.close()
        if self.returncode is None:
            self.returncode = _status_of(self.pid, self._status, timeout)
        return self.stdout.read(), self.stderr.read()

    def send_signal(self, number: int) -> None:
        """Send a signal to a program that has not ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        os.close(self._status)


def _status_of(pid: int, status: int, timeout: float) -> int:
    """Return a program's exit status once that has been written to `status`."""
    if not select.select([status], [], [], timeout)[0]:
        raise subprocess.TimeoutExpired(f"pid {pid}", timeout)
    return os.waitstatus_to_exitcode(int(os.read(status, 32)))


class Programs:
    """Starts programs. modules: what is imported for all of them. folder: of modules that they find beside their own.

    environ: what their environment has beside that of this process.
    """

    def __init__(self, *modules: str, folder: Path | None = None, **environ: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), str(folder or ""), *modules]
            outside = {name: value for name, value in os.environ.items() if not name.startswith("LUCKY_")}
            # a fork has the thread that forks alone
            self._environ = outside | {"OPENBLAS_NUM_THREADS": "1"} | environ
            self._process = subprocess.Popen(command, env=self._environ, pass_fds=[theirs.fileno()])
        self._socket = ours

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(60)

    def start(self, command: Sequence[str], *, first: str = "", **environ: str) -> Program:
        """Start `python COMMAND`; first: a module that it imports before its first line."""
        pipes = [os.pipe() for _ in _PIPES]
        ours, theirs = (
            [pipe[end ^ (name == "stdin")] for name, pipe in zip(_PIPES, pipes, strict=True)] for end in (0, 1)
        )
        pid = self._fork(theirs, argv=command, first=first, environ=self._environ | environ, cwd=os.getcwd())
        for fd in theirs:
            os.close(fd)
        return Program(pid, *ours)

    def run(
        self, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `python COMMAND` in a folder, with no input, to its end. environ: all of its environment.

        Raises TimeoutExpired, and kills it, when it has not ended by then.
        """
        status, reports = os.pipe()
        with (
            open(status, "rb"),
            open(os.devnull, "rb") as nothing,
            TemporaryFile("w+", encoding="utf-8") as out,
            TemporaryFile("w+", encoding="utf-8") as said,
        ):
            with open(reports, "wb"):
                fds = [reports, *(stream.fileno() for stream in (nothing, out, said))]
                pid = self._fork(fds, argv=command, first="", environ=dict(environ), cwd=str(cwd))
            try:
                code = _status_of(pid, status, timeout)
            except subprocess.TimeoutExpired:
                os.kill(pid, signal.SIGKILL)
                raise
            out.seek(0)
            said.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), said.read())

    def _fork(self, fds: Sequence[int], **request: Any) -> int:
        """Have a program forked that gets these of `_PIPES`; return its pid."""
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        return int(self._socket.recv(32))


def _fork_on_request(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a program for each request; return the request in the program, and None at the end of them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing is left of a keeper that ends
    while True:
        message, fds, _, _ = socket.recv_fds(requests, _LONGEST, len(_PIPES))
        if not message:
            return None
        if os.fork():
            for fd in fds:
                os.close(fd)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status, *streams = fds
        program = os.fork()
        if program:
            requests.send(str(program).encode())
            _keep(program, status, streams)
        requests.close()
        os.close(status)
        _take_streams(*streams)
        return json.loads(message)


def _keep(program: int, status: int, streams: Sequence[int]) -> None:
    """Say how the program ends, and end."""
    for fd in streams:
        os.close(fd)
    os.write(status, str(os.waitpid(program, 0)[1]).encode())
    os._exit(0)


def _take_streams(stdin: int, stdout: int, stderr: int) -> None:
    for place, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, place)
        os.close(fd)


def _prepare(request: dict[str, Any], folder: str) -> str:
    """Make this process that of the program, up to its first line; return "-m", "-c" or, for a file, ""."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    first, *rest = argv = request["argv"]
    kind = first if first in ("-m", "-c") else ""
    sys.orig_argv[:] = [sys.executable, *argv]
    sys.argv[:] = rest if kind == "-m" else [first, *rest[1:]] if kind else argv
    beside = {"-m": os.getcwd(), "-c": "", "": str(Path(first).parent)}[kind]
    sys.path[:1] = [beside, folder] if folder else [beside]
    if request["first"]:
        importlib.import_module(request["first"])
    return kind


def _run(kind: str, text: str) -> None:
    """Run a module, code or a file as the main program."""
    if kind == "-m":
        runpy.run_module(text, run_name="__main__", alter_sys=True)
        return
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if not kind:
        vars(main)["__file__"] = text
    us, sys.modules["__main__"] = sys.modules["__main__"], main
    code = text if kind else Path(text).read_bytes()
    exec(compile(code, "<string>" if kind else text, "exec", dont_inherit=True), vars(main))
    del us  # until here it was needed


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # no program has what it shares copied
    found = _fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        kind_of_program = _prepare(found, sys.argv[2])
        _run(kind_of_program, found["argv"][1 if kind_of_program else 0])
