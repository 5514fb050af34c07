"""Whether a process still lives, without being fooled by a reused pid.

Rule 1: a pidfd tells death at once and wakes any poll; the start time, read after the pidfd was opened, tells that the
        pid still belongs to the process that was meant. Memory in a segment alone never proves liveness.
"""

from __future__ import annotations

import os
import select

__all__ = ["Peer", "start_time"]

#: The kernel's own limit (PID_MAX_LIMIT). A pid may come from memory that a peer writes.
_LARGEST_PID = 1 << 22


def start_time(pid: int) -> int:
    """Return when the process started, in clock ticks since boot (`/proc/PID/stat` field 22); 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


class Peer:
    """Another process, held by a pidfd. `pidfd` becomes readable when it ends; -1 when it was dead from the start."""

    __slots__ = ("pid", "pidfd")

    def __init__(self, pid: int, started: int = 0) -> None:
        self.pid = pid
        try:
            self.pidfd = os.pidfd_open(pid) if 0 < pid <= _LARGEST_PID else -1
        except OSError:
            self.pidfd = -1
        if self.pidfd >= 0 and started and start_time(pid) != started:
            self.close()

    @classmethod
    def holding(cls, pid: int, pidfd: int) -> Peer:
        """Return the peer whose pidfd is at hand already; it is closed with the peer."""
        peer = cls(0)
        peer.pid, peer.pidfd = pid, pidfd
        return peer

    @property
    def alive(self) -> bool:
        """True while the process runs (a zombie is dead)."""
        if self.pidfd < 0:
            return False
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return not poller.poll(0)

    def close(self) -> None:
        """Release the pidfd; idempotent."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
