"""Other processes: which one is at the other end of a socket or a segment, and whether it still lives.

The two ends of a segment are known by their locks, the ends of a socket by pidfds. Both tell a death whatever namespace
the process is in and whatever its forked children keep open; a pidfd also wakes any poll. Memory in a segment alone
never proves that a process lives.

A pid is for messages. It means something only within its own pid namespace, and another one's is named as such.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from pathlib import Path

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.found_file import describe_user
from lucky_transport.limits import limit_reached
from lucky_transport.shm.files.lockfile import Watch

#: The kernel's own limit (PID_MAX_LIMIT). A pid may come from memory that a peer writes.
_LARGEST_PID = 1 << 22
#: From Linux 6.5 on; the `socket` module does not name it.
_SO_PEERPIDFD = 77
_UCRED = struct.Struct("iII")


def start_time(pid: int) -> int:
    """Return when the process started, in clock ticks since boot (`/proc/PID/stat` field 22); 0 when it is gone.

    This process is found also where /proc is of another pid namespace.
    """
    try:
        with open(f"/proc/{'self' if pid == os.getpid() else pid}/stat", "rb") as stat:
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
        except OSError as error:
            if limit_reached(error)[0]:  # that says nothing about the process
                raise
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
    def name(self) -> str:
        """What messages call it; a socket's peer in another pid namespace has pid 0."""
        return process_name(self.pid)

    @property
    def lock(self) -> tuple[int, int]:
        return -1, 0

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
        fd, self.pidfd = self.pidfd, -1
        if fd >= 0:
            os.close(fd)


class LockHolder:
    """A process known by the byte that it holds of a lock file, in whatever namespace it is."""

    __slots__ = ("_namespace", "_watch", "pid")

    def __init__(self, path: str, byte: int, pid: int, namespace: int) -> None:
        self.pid, self._namespace = pid, namespace
        self._watch = Watch(path, byte)

    @property
    def name(self) -> str:
        """What messages call it now."""
        return process_name(self.pid, self._namespace)

    @property
    def lock(self) -> tuple[int, int]:
        return self._watch.place

    @property
    def alive(self) -> bool:
        """True until the process ends, executes another program or lets go of its lock."""
        return self._watch.held

    def close(self) -> None:
        """Look no more; idempotent."""
        self._watch.close()


#: Another process. pid: as it calls itself, for messages. name: what messages call it. lock: descriptor and byte of the
#: lock that it holds while it lives, (-1, 0) where it is not known by one.
Process = Peer | LockHolder


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that connected (or listens); the caller closes it.

    From Linux 6.5 on its pidfd is there also for a process of another pid namespace; before, `pidfd` is -1 for that,
    and only the socket tells its end. Raises RemoteProtocolError for another user's process.
    """
    pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid != os.getuid():
        raise RemoteProtocolError(
            f"{process_name(pid)} belongs to {describe_user(uid)}, not to {describe_user(os.getuid())}",
            backend="shm",
            hint="run both as the same user; containers need the same user id on the host",
        )
    try:
        return Peer.holding(pid, connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
    except OSError:
        return Peer(pid)


#: Behind the name of a process that a signal has stopped.
STOPPED = ", stopped"


def pid_namespace(proc: Path = Path("/proc")) -> int:
    """Return the number of this process's pid namespace, 0 where /proc does not tell it."""
    try:
        return (proc / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def process_name(pid: int, namespace: int = 0) -> str:
    """Return what a message calls a process now: as `pid_name` does, and that it is stopped: "pid 12, stopped"."""
    if pid > 0 and (not namespace or namespace == pid_namespace()) and _is_stopped(pid):
        return f"{pid_name(pid)}{STOPPED}"
    return pid_name(pid, namespace)


def pid_name(pid: int, namespace: int = 0) -> str:
    """Return what a message calls a process, whatever it does: "pid 12", or that it is of another pid namespace.

    pid: 0 for one that the kernel shows no pid of. namespace: the one that `pid` is of; 0: ours, as far as is known.
    """
    if pid > 0 and (not namespace or namespace == pid_namespace()):
        return f"pid {pid}"
    return f"pid {pid} of another pid namespace" if pid > 0 else "a process of another pid namespace"


def _is_stopped(pid: int) -> bool:
    """True while a process waits for SIGCONT, or a debugger holds it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in b"Tt"
    except (OSError, IndexError):
        return False
