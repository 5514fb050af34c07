"""What a process cannot have more of: open files, memory, threads. The system's refusal becomes an error that says
which limit was reached and how it is raised.
"""

from __future__ import annotations

import errno
import os
import resource

from lucky_transport.errors import NotReachable

_OF_PROCESSES = errno.EMFILE, errno.ENFILE, errno.ENOMEM


def limit_reached(error: BaseException | None) -> tuple[str, str]:
    """Return which limit `error` is about and the remedy, two empty texts when it is about none."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno if isinstance(error, OSError) else 0
    if isinstance(error, ImportError):  # of a library: it has the system's text alone
        number = next((one for one in _OF_PROCESSES if str(error).endswith(os.strerror(one))), 0)
    if number == errno.EMFILE:
        return f"too many open files, {_limit(resource.RLIMIT_NOFILE)}", "close some, or raise it (ulimit -n)"
    if number == errno.ENFILE:
        return "too many open files in the system", "close some, or raise fs.file-max"
    if number == errno.ENOMEM:
        return f"no memory to map, {_limit(resource.RLIMIT_AS)}", "free some, or raise it (ulimit -v)"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return f"no thread can be started, {_limit(resource.RLIMIT_NPROC)}", "end some, or raise it (ulimit -u)"
    return "", ""


def _limit(kind: int) -> str:
    soft, _ = resource.getrlimit(kind)
    return f"the limit is {'unlimited' if soft == resource.RLIM_INFINITY else soft}"


class within_limits:  # noqa: N801 - no generator: since Python 3.12 its frame and the error it got hold each other
    """Raise NotReachable when a limit of this process, or a sandbox, keeps it from doing `what`; other errors pass."""

    def __init__(self, what: str, backend: str = "") -> None:
        self._what, self._backend = what, backend

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        reached, remedy = limit_reached(error)
        if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.ENOSYS):
            reached = f"the system refuses a call of it ({error.strerror})"
            remedy = "allow it in the profile of the container or sandbox (seccomp)"
        if reached:
            raise NotReachable(f"{self._what}: {reached}", backend=self._backend, hint=remedy) from error
