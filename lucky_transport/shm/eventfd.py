"""An eventfd that one process notifies and another one waits on, among other descriptors.

O_NONBLOCK belongs to the open file, which the peer shares and may change, so nothing relies on it: a read says per call
that it must not block, and a write is made only where there is room. Neither ever blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select

from lucky_transport.closing import Closing
from lucky_transport.errors import RemoteProtocolError

_HERE = -1  # an eventfd has no positions


def notify_eventfd(fd: int) -> None:
    """Make the eventfd readable; the native module does the same."""
    if _is_ready(fd, select.POLLOUT):
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(fd, 1)


def _is_ready(fd: int, events: int) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return any(found & events for _, found in poll.poll(0))


class EventFd(Closing):
    """Owns one eventfd; `fd` is -1 once closed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if fd is None else fd

    @classmethod
    def received(cls, fd: int) -> EventFd:
        """Take over a descriptor that a peer sent; raises RemoteProtocolError, and leaves it, when it is no eventfd."""
        what = os.readlink(f"/proc/self/fd/{fd}")
        if what != "anon_inode:[eventfd]":
            raise RemoteProtocolError(f"the peer sent {what} where an eventfd belongs", backend="shm")
        os.set_blocking(fd, False)
        return cls(fd)

    def notify(self) -> None:
        """Make the descriptor readable; no effect once closed."""
        if self.fd >= 0:
            notify_eventfd(self.fd)

    def consume(self) -> None:
        """Make the descriptor unreadable until it is notified again; no effect once closed."""
        if self.fd < 0:
            return
        try:
            os.preadv(self.fd, [bytearray(8)], _HERE, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            if _is_ready(self.fd, select.POLLIN):  # a kernel before 5.8
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.fd)

    def close(self) -> None:
        """Release the descriptor; idempotent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
