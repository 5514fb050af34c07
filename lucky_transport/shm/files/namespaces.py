"""The pid namespaces of containers: a pid means something only within its own.

A pid is for messages, and another namespace's is named as such; locks tell who lives (`lockfile.py`).
"""

from __future__ import annotations

from pathlib import Path

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
