"""The namespaces of containers: a pid, and a user id, mean something only within their own.

A pid is for messages, and another namespace's is named as such; locks tell who lives (`lucky_transport.shm.lockfile`).
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["OVERFLOW_UID", "is_initial", "pid_namespace", "process_name", "uid_is_mapped"]

#: What the kernel shows for a user that a user namespace does not map (`/proc/sys/kernel/overflowuid`, the default).
OVERFLOW_UID = 65534
#: The inodes of the namespaces that the machine starts with (Linux, include/linux/proc_ns.h).
_INITIAL = {"ipc": 0xEFFFFFFF, "user": 0xEFFFFFFD, "pid": 0xEFFFFFFC}


def pid_namespace(proc: Path = Path("/proc")) -> int:
    """Return the number of this process's pid namespace, 0 where /proc does not tell it."""
    return _namespace("pid", proc)


def _namespace(kind: str, proc: Path) -> int:
    try:
        return (proc / "self" / "ns" / kind).stat().st_ino
    except OSError:
        return 0


def is_initial(kind: str, proc: Path = Path("/proc")) -> bool | None:
    """Return whether this process is in the machine's own namespace of `kind` (pid, user, ipc); None: not known."""
    number = _namespace(kind, proc)
    return number == _INITIAL[kind] if number else None


def uid_is_mapped(uid: int, proc: Path = Path("/proc")) -> bool:
    """Return whether the user namespace has a user of its own for `uid`; True where /proc does not tell."""
    try:
        lines = (proc / "self" / "uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    ranges = [(int(first), int(count)) for first, _, count in (line.split() for line in lines)]
    return any(first <= uid < first + count for first, count in ranges)


def process_name(pid: int, namespace: int = 0) -> str:
    """Return what a message calls a process: "pid 12", or that it belongs to another pid namespace.

    pid: 0 for one that the kernel shows no pid of. namespace: the one that `pid` is of; 0: ours, as far as is known.
    """
    if pid > 0 and (not namespace or namespace == pid_namespace()):
        return f"pid {pid}"
    return f"pid {pid} of another pid namespace" if pid > 0 else "a process of another pid namespace"
