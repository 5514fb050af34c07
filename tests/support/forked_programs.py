"""Programs as forks of one Python that has imported what all of them import: a start costs a fork.

with Programs("grpc", folder=libraries) as programs:
    program = programs.start([path, "client", address])
    printed, said = program.communicate(timeout=30)

Each is a process of its own, which runs its file as `python FILE` does, and ends as that ends.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Program", "Programs"]

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
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout)
            self.returncode = os.waitstatus_to_exitcode(int(os.read(self._status, 32)))
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


class Programs:
    """Starts programs. modules: what is imported for all of them. folder: of modules that they find beside their own.

    environ: what their environment has beside that of this process.
    """

    def __init__(self, *modules: str, folder: Path, **environ: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), str(folder), *modules]
            outside = {name: value for name, value in os.environ.items() if not name.startswith("LUCKY_")}
            environ = outside | {"OPENBLAS_NUM_THREADS": "1"} | environ  # a fork has the thread that forks alone
            self._process = subprocess.Popen(command, env=environ, pass_fds=[theirs.fileno()])
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
        request = json.dumps({"argv": list(command), "first": first, "environ": environ}).encode()
        socket.send_fds(self._socket, [request], theirs)
        for fd in theirs:
            os.close(fd)
        pid = int(self._socket.recv(32))
        return Program(pid, *ours)


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


def _prepare(request: dict[str, Any], folder: str) -> ModuleType:
    """Make this process that of the program; return its main module, which has not run."""
    sys.argv[:] = request["argv"]
    sys.orig_argv[:] = [sys.executable, *request["argv"]]
    sys.path[:1] = [str(Path(sys.argv[0]).parent), folder]
    os.environ.update(request["environ"])
    if request["first"]:
        importlib.import_module(request["first"])
    main = ModuleType("__main__")
    vars(main).update(__file__=sys.argv[0], __builtins__=builtins)
    return main


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    found = _fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        us, sys.modules["__main__"] = sys.modules["__main__"], _prepare(found, sys.argv[2])  # `us` is still needed
        exec(compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec"), vars(sys.modules["__main__"]))
