"""The two processes of a segment, as its header names them: the engine, and the client that steps it."""

from __future__ import annotations

from mmap import mmap

from lucky_transport.shm.files.liveness import LockHolder, Peer, Process
from lucky_transport.shm.files.lockfile import ENGINE
from lucky_transport.shm.segment import header

#: A lock's byte comes from memory that a peer writes; offsets have 63 bits.
_LARGEST_BYTE = (1 << 63) - 1


def engine_of(mapping: mmap, lock_path: str) -> LockHolder:
    """Return the engine of a segment; the caller closes it. Raises SegmentError for a lock file that is not ours."""
    byte = header.get(mapping, "server_lock") & _LARGEST_BYTE
    pid, namespace = header.get(mapping, "server_pid"), header.get(mapping, "server_pid_namespace")
    return LockHolder(lock_path, byte or ENGINE, pid, namespace)


def client_of(mapping: mmap, lock_path: str) -> Process:
    """Return the client that is attached to a segment; the caller closes it.

    One that knows no locks is known by its pid and start time, which works within one pid namespace only.
    """
    byte = header.get(mapping, "client_lock") & _LARGEST_BYTE
    pid, namespace = header.get(mapping, "client_pid"), header.get(mapping, "client_pid_namespace")
    if byte:
        return LockHolder(lock_path, byte, pid, namespace)
    return Peer(pid, header.get(mapping, "client_start"))
