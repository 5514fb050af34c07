"""The two processes of a pair: a server that says when it is ready, and a client that is run to its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lucky_transport.errors import NotReachable, PeerTimeout

__all__ = ["ServerProcess", "run_client"]

_LAST_LINES = 12
_GRACE_S = 10.0
_GRACE_AFTER_ERROR_S = 0.5


class ServerProcess:
    """A running server program, that prints a line with the word "ready" when it serves; `ready` is the rest of it.

    The program is told to end by the end of its stdin, which comes with the end of this process too. `descriptors` are
    handed over to it. Raises NotReachable when it ends before it is ready; what it wrote is on our stderr then.
    """

    def __init__(self, what: str, command: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=tuple(descriptors)
        )
        for descriptor in descriptors:
            os.close(descriptor)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        word, _, self.ready = self._process.stdout.readline().decode().strip().partition(" ")
        if word != "ready":
            self.stop()
            raise NotReachable(f"the server {what} ended before it was ready", backend="bench")

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """End the process, by force when it has not ended by itself after `grace_s`; idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(_GRACE_S if error is None else _GRACE_AFTER_ERROR_S)


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
