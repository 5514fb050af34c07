"""Other processes: which one is at the other end of a socket, and whether a process still lives.

A pidfd tells a death at once, wakes any poll and is not fooled by a reused pid. Memory in a segment alone never proves
that a process lives.
"""

from __future__ import annotations

import os
import select
import socket
import struct

from lucky_transport.errors import RemoteProtocolError

__all__ = ["Peer", "peer_of", "start_time"]

#: The kernel's own limit (PID_MAX_LIMIT). A pid may come from memory that a peer writes.
_LARGEST_PID = 1 << 22
#: From Linux 6.5 on; the `socket` module does not name it.
_SO_PEERPIDFD = 77
_UCRED = struct.Struct("iII")


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
        # Read after the pidfd was opened: the same start time means that the pid was not reused before.
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


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that connected (or listens); the caller closes it.

    `pidfd` is -1 for a process that we cannot see (another pid namespace); then only the socket tells its end.
    Raises RemoteProtocolError for another user's process.
    """
    pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid != os.getuid():
        raise RemoteProtocolError(f"process {pid} belongs to user {uid}, not to {os.getuid()}", backend="shm")
    try:
        return Peer.holding(pid, connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
    except OSError:
        return Peer(pid)
