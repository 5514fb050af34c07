"""What the machine gives two native processes: the floor under every shared-memory row of a benchmark.

`spin` is two C loops that look all the time (the limit of spinning), `futex` two that sleep at once (the limit of
blocking). They copy as many bytes as a step does: actions in, observations by the engine; or none.

Rule 1: a benchmark quotes its rows against the limit measured in the same run, never against a figure from elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import MissingExtra
from lucky_transport.shm.atomics import implementation, native_error
from lucky_transport.shm.wait import STRATEGIES

__all__ = ["KINDS", "ping_pong_ns"]

#: What can be measured, and how its loops wait.
KINDS = {"spin": STRATEGIES["spin"], "futex": STRATEGIES["block"]}

_DATA = 4096
_CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER = 0, 128, 256, 384


def ping_pong_ns(kind: str, rounds: int, request_bytes: int = 0, answer_bytes: int = 0) -> NDArray[np.int64]:
    """Return the round trips between this process and a child: int64 (rounds,), nanoseconds each.

    Before each call `request_bytes` are copied into the mapping, before each answer `answer_bytes`.

    Raises MissingExtra without the native module, ValueError for an unknown kind, RuntimeError when the child died.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: expected one of {', '.join(KINDS)}")
    if native_error():
        raise MissingExtra(f"the limit needs the native module; {native_error()}", backend="shm")
    fd = os.memfd_create("lucky_limits", os.MFD_CLOEXEC)
    size = _DATA + request_bytes + answer_bytes
    os.ftruncate(fd, size)
    mapping = mmap(fd, size)
    arguments = [str(fd), kind, str(rounds), str(request_bytes), str(answer_bytes)]
    child = subprocess.Popen([sys.executable, "-m", "lucky_transport.shm.limits", *arguments], pass_fds=[fd])
    os.close(fd)
    times = np.zeros(rounds, np.int64)
    try:
        words = (_CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER)
        done = implementation().ping(mapping, *words, KINDS[kind], times, _DATA, request_bytes)
    finally:
        if child.poll() is None:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    if done != rounds:
        raise RuntimeError(f"the peer of the {kind} limit ended after {done} of {rounds} rounds")
    return times


def _echo(fd: int, kind: str, rounds: int, request_bytes: int, answer_bytes: int) -> None:
    """Answer the parent's pings; the child's whole life."""
    mapping = mmap(fd, _DATA + request_bytes + answer_bytes)
    words = (_CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER)
    implementation().echo(mapping, *words, KINDS[kind], rounds, _DATA + request_bytes, answer_bytes)


if __name__ == "__main__":
    _echo(int(sys.argv[1]), sys.argv[2], *(int(text) for text in sys.argv[3:6]))
