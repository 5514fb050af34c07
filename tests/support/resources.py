"""What this process, or another one, holds: descriptors, threads, mapped memory, files in shared memory.

A test that shares its process with others counts by owner: `threads_of`, `connections_of`, `descriptors_of`, `rings`.
What a process holds altogether (`measure`) counts where the test starts the process.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lucky_transport.deadline import Deadline

#: What channels and servers of stubs start for themselves, by how the names of the threads begin.
STUB_THREADS = (
    "call completion",
    "connection monitor",
    "grpc call",
    "grpc channel",
    "grpc connectivity",
    "grpc requests",
    "grpc server",
)

_SLEEP_S = 0.02


@dataclass(frozen=True, slots=True)
class Resources:
    """Counts. mappings: of shared memory. files: in /dev/shm whose name begins as asked."""

    descriptors: int
    threads: int
    mappings: int
    files: int

    def __str__(self) -> str:
        return f"{self.descriptors} descriptors, {self.threads} threads, {self.mappings} mappings, {self.files} files"

    def peak(self, other: Resources) -> Resources:
        """Return the larger of each."""
        return Resources(
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
            max(self.mappings, other.mappings),
            max(self.files, other.files),
        )

    def exceeds(self, other: Resources) -> bool:
        """True when any count is larger than the other's."""
        return self.peak(other) != other


def measure(prefix: str, pid: int | None = None) -> Resources:
    """Count what process `pid` (default: this one) holds, and the files of shared memory called `prefix...`."""
    process = Path("/proc") / ("self" if pid is None else str(pid))
    names = [_target(process / "fd" / number) for number in os.listdir(process / "fd")]
    maps = (process / "maps").read_text().splitlines()
    return Resources(
        len([name for name in names if name]),
        len(os.listdir(process / "task")),
        len([line for line in maps if " /dev/shm/" in line or " /memfd:" in line]),
        len(list(Path("/dev/shm").glob(f"{prefix}*"))),
    )


def threads_of(*names: str) -> list[threading.Thread]:
    """Return the threads of this process whose names begin with one of `names`: those that their owner called so."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


def connections_of(prefix: str) -> list[str]:
    """Return the sockets at which engines whose names begin with `prefix` listen or have a client, one a line.

    An engine's end of a connection is there until the client has closed the other one and the engine has noticed.
    """
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line for line in lines if line.endswith(".sock") and Path(line.split()[-1]).name.startswith(prefix)]


def descriptors_of(text: str) -> set[str]:
    """Return the descriptors of this process, as number and target, whose target contains `text`: a path, a kind."""
    links = [Path("/proc/self/fd") / number for number in os.listdir("/proc/self/fd")]
    return {f"{link.name} {target}" for link in links if text in (target := _target(link))}


def rings() -> int:
    """Return how often memory of a client's rings is mapped in this process, by its clients and its engines."""
    return Path("/proc/self/maps").read_text().count("/memfd:lucky_rings")


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the directory that was listed
        return ""


def released(before: Resources, prefix: str, *, pid: int | None = None, timeout_s: float = 10.0) -> Resources:
    """Return what is held once it is no more than `before`, or at the timeout: peers and threads end a moment later."""
    deadline = Deadline(timeout_s)
    while (now := measure(prefix, pid)).exceeds(before) and not deadline.expired:
        time.sleep(_SLEEP_S)
    return now


def voluntary_switches(thread: int | None) -> int:
    """Return how often the thread of this native id, of any process, has gone to sleep."""
    status = Path(f"/proc/{thread}/status").read_text()
    [count] = re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)
    return int(count)


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
