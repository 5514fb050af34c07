"""A timer that wakes one thread: a timerfd, which Python offers from 3.13 on."""

from __future__ import annotations

import ctypes
import os

__all__ = ["TimerFd"]

_CLOCK_MONOTONIC = 1
_NS = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class TimerFd:
    """One timerfd. Setting it wakes no thread and costs one system call. Raises OSError when the system gives none."""

    def __init__(self) -> None:
        self._fd = -1
        self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, ns: int) -> None:
        """Go off once, in that many nanoseconds (at least one), whatever was set before."""
        once = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(ns, _NS)))
        if _libc.timerfd_settime(self._fd, 0, ctypes.byref(once), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def wait(self) -> None:
        """Sleep until it goes off; at once when it has since the last wait."""
        os.read(self._fd, 8)

    def close(self) -> None:
        """Release the descriptor; no thread may be waiting. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
