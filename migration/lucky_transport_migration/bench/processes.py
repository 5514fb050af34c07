"""The two processes of a pair: a server that says when it is ready, and a client that is run to its end."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, PeerTimeout

__all__ = ["ServerProcess", "ended", "run_client"]

_LAST_LINES = 12
_READY_S = 60.0  # a server imports grpc or luckyrobots first, perhaps on a busy machine
_GRACE_S = 10.0
_GRACE_AFTER_ERROR_S = 0.5


class ServerProcess:
    """A running server program, that prints a line with the word "ready" when it serves; `ready` is the rest of it.

    The program is told to end by the end of its stdin, which comes with the end of this process too. `descriptors` are
    handed over to it. Raises NotReachable when it ends before it is ready, PeerTimeout when it is not after a minute;
    what it wrote is on our stderr then.
    """

    def __init__(self, what: str, command: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=tuple(descriptors)
        )
        for descriptor in descriptors:
            os.close(descriptor)
        self.pid = self._process.pid
        try:
            self._what = what
            word, _, self.ready = self.line(_READY_S).strip().partition(" ")
            if word != "ready":
                raise NotReachable(f"the server {what} ended before it was ready", backend="bench")
        except BaseException:
            self.stop(_GRACE_AFTER_ERROR_S)
            raise

    def say(self, line: str) -> None:
        """Write a line to the program's stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def line(self, limit_s: float) -> str:
        """Return the next line that the program prints; PeerTimeout after `limit_s`, NotReachable without one."""
        assert self._process.stdout is not None
        descriptor, deadline, said = self._process.stdout.fileno(), Deadline(limit_s), b""
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while not said.endswith(b"\n"):
            if not poller.poll(deadline.remaining_s * 1000):
                raise PeerTimeout(f"the server {self._what} was not ready within {limit_s:g} s", backend="bench")
            if not (more := os.read(descriptor, 1)):
                raise NotReachable(f"the server {self._what} ended before it was ready", backend="bench")
            said += more
        return said.decode(errors="replace")

    def end(self) -> None:
        """Tell the program to end, without waiting for it: `stop` does that."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """End the process, by force when it has not ended by itself after `grace_s`; idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        ended(self._process, grace_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(_GRACE_S if error is None else _GRACE_AFTER_ERROR_S)


def ended(process: subprocess.Popen[Any], grace_s: float = _GRACE_S) -> None:
    """Wait for a process that was told to end; after `grace_s` it is killed."""
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_client(command: Sequence[str], what: str, limit_s: float, stdin: bytes = b"") -> bytes:
    """Run a client program to its end and return what it wrote to stdout; `what` names its work in an error.

    Raises NotReachable with its last words when it fails, PeerTimeout when it takes longer than `limit_s`.
    """
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise PeerTimeout(f"{what}: the client did not end within {limit_s:.0f} s") from error
    if done.returncode:
        words = "\n  ".join(done.stderr.decode(errors="replace").splitlines()[-_LAST_LINES:])
        raise NotReachable(f"{what}: the client failed with exit status {done.returncode}\n  {words}")
    return done.stdout
