"""What the machine gives two native processes: the floor under every shared-memory row of a benchmark.

`spin` is two C loops that look all the time (the limit of spinning), `futex` two that sleep at once (the limit of
blocking). Neither moves any data.

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

_BYTES = 4096
_CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER = 0, 128, 256, 384


def ping_pong_ns(kind: str, rounds: int) -> NDArray[np.int64]:
    """Return the round trips between this process and a child: int64 (rounds,), nanoseconds each.

    Raises MissingExtra without the native module, ValueError for an unknown kind, RuntimeError when the child died.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: expected one of {', '.join(KINDS)}")
    if native_error():
        raise MissingExtra(f"the limit needs the native module; {native_error()}", backend="shm")
    fd = os.memfd_create("lucky_limits", os.MFD_CLOEXEC)
    os.ftruncate(fd, _BYTES)
    mapping = mmap(fd, _BYTES)
    child = subprocess.Popen(
        [sys.executable, "-m", "lucky_transport.shm.limits", str(fd), kind, str(rounds)], pass_fds=[fd]
    )
    os.close(fd)
    times = np.zeros(rounds, np.int64)
    try:
        done = implementation().ping(mapping, _CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER, KINDS[kind], times)
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


def _echo(fd: int, kind: str, rounds: int) -> None:
    """Answer the parent's pings; the child's whole life."""
    mapping = mmap(fd, _BYTES)
    implementation().echo(mapping, _CALL, _ANSWER, _PARK_CALL, _PARK_ANSWER, KINDS[kind], rounds)


if __name__ == "__main__":
    _echo(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
