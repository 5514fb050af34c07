"""A bell: an eventfd that one process rings and another one waits on, among other descriptors.

Rule 1: never blocking: a bell that is full rings already, one that was not rung is simply not drained.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from lucky_transport.errors import RemoteProtocolError

__all__ = ["Bell"]


class Bell:
    """Owns one eventfd; `fd` is -1 once closed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if fd is None else fd

    @classmethod
    def received(cls, fd: int) -> Bell:
        """Take over a descriptor that a peer sent; raises RemoteProtocolError, and leaves it, when it is no eventfd."""
        what = os.readlink(f"/proc/self/fd/{fd}")
        if what != "anon_inode:[eventfd]":
            raise RemoteProtocolError(f"the peer sent {what} where an eventfd belongs", backend="shm")
        os.set_blocking(fd, False)
        return cls(fd)

    def ring(self) -> None:
        """Make the descriptor readable; no effect once closed."""
        if self.fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(self.fd, 1)

    def drain(self) -> None:
        """Make the descriptor unreadable until the next ring."""
        if self.fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.fd)

    def close(self) -> None:
        """Release the descriptor; idempotent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
