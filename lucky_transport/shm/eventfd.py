"""An eventfd by which threads of this process wake one that waits on it among other descriptors."""

from __future__ import annotations

import contextlib
import os

from lucky_transport.closing import Closing


class EventFd(Closing):
    """Owns one eventfd; `fd` is -1 once closed, which it is at the latest when nobody has it any more."""

    __slots__ = ("fd",)

    def __init__(self) -> None:
        self.fd = -1  # where there is no descriptor left
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def notify(self) -> None:
        """Make the descriptor readable; no effect once closed."""
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)

    def consume(self) -> None:
        """Make the descriptor unreadable until it is notified again; no effect once closed."""
        if self.fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.fd)

    def close(self) -> None:
        """Release the descriptor; idempotent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
