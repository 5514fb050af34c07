"""The two processes of a pair: a server that says when it is ready, and a client that is run to its end."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lucky_transport.deadline import Deadline
from lucky_transport.errors import NotReachable, PeerTimeout

_LAST_LINES = 12
_READY_S = 60.0  # a server imports grpc or luckyrobots first, perhaps on a busy machine
_GRACE_S, _GRACE_AFTER_ERROR_S = 10.0, 0.5


@dataclass(frozen=True, slots=True)
class Server:
    """A running server program; `ready` is what it said behind that word."""

    pid: int
    ready: str


@contextmanager
def serving(what: str, command: Sequence[str]) -> Generator[Server]:
    """Run a server program that prints a line with the word "ready" when it serves, and ends with its stdin.

    It has ended after the block, by force where it does not end by itself; its stdin ends with this process too. Raises
    NotReachable when it ends before it is ready, PeerTimeout when it is not after a minute; what it wrote is on our
    stderr then.
    """
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        grace_s = _GRACE_AFTER_ERROR_S
        try:
            yield Server(process.pid, _ready(process, what))
            grace_s = _GRACE_S
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=grace_s)
            process.kill()


def _ready(process: subprocess.Popen[bytes], what: str) -> str:
    assert process.stdout is not None
    descriptor, deadline, said = process.stdout.fileno(), Deadline(_READY_S), b""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while not said.endswith(b"\n"):
        if not poller.poll(deadline.remaining_s * 1000):
            raise PeerTimeout(f"the server {what} was not ready within {_READY_S:g} s", backend="bench")
        if not (more := os.read(descriptor, 1)):
            break
        said += more
    word, _, ready = said.decode(errors="replace").strip().partition(" ")
    if word != "ready":
        raise NotReachable(f"the server {what} ended before it was ready", backend="bench")
    return ready


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
