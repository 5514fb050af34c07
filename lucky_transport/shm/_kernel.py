"""The few system calls that the pure-Python fallback needs and the standard library lacks. x86-64 Linux only.

Rule 1: FUTEX_WAKE is also the fallback's fence: the kernel orders what was stored before it and what is loaded after.
"""

from __future__ import annotations

import ctypes
import select
from typing import Any

import numpy as np

__all__ = ["address_of", "futex_wake", "gone"]

_SYS_FUTEX = 202  # x86-64
_FUTEX_WAKE = 1

_libc = ctypes.CDLL(None, use_errno=True)


def address_of(memory: Any, offset: int) -> int:
    """Return the address of a byte of a buffer; it is valid while the buffer lives."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data) + offset


def futex_wake(address: int) -> None:
    """Wake one thread, of any process, that is parked on the word at `address`."""
    _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(address), _FUTEX_WAKE, 1, None, None, 0)


def gone(pidfd: int) -> bool:
    """True when the process of this pidfd has ended; False for -1."""
    if pidfd < 0:
        return False
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
