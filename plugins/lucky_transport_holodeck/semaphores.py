"""One named POSIX semaphore whose waits end, and its name."""

from __future__ import annotations

import contextlib
import os

import posix_ipc

from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import NotReachable
from lucky_transport.shm.files.private_file import open_private, remove_private
from lucky_transport_holodeck.names import Names

#: For how long a waiting end polls before it sleeps, by wait strategy.
_POLL_NS = {"spin": 1 << 62, "adaptive": 150_000, "block": 0}
_MODE = 0o600


class Semaphore:
    """A handle of the semaphore `name`; made by `create` or `open`. strategy: how `wait` waits."""

    def __init__(self, handle: posix_ipc.Semaphore, strategy: str) -> None:
        self.name = handle.name
        self._handle = handle
        self._poll_ns = _POLL_NS[strategy]
        self._file = Names.file_of(handle.name)
        self._number = self._number_now()

    @classmethod
    def create(cls, name: str, value: int, strategy: str = "adaptive") -> Semaphore:
        """Make the semaphore anew; a process that has one of that name open keeps the old one."""
        unlink(name)
        _check_owner(name)
        return cls(posix_ipc.Semaphore(name, posix_ipc.O_CREX, mode=_MODE, initial_value=value), strategy)

    @classmethod
    def open(cls, name: str, strategy: str = "adaptive") -> Semaphore:
        """Open an existing semaphore.

        Raises NotReachable when there is none, SegmentError when it is another user's.
        """
        _check_owner(name)
        try:
            return cls(posix_ipc.Semaphore(name), strategy)
        except (posix_ipc.ExistentialError, posix_ipc.PermissionsError) as error:
            raise NotReachable(
                f"no semaphore {name}: {error}", backend="holodeck", hint="start the engine, or check the uuid"
            ) from error

    @classmethod
    def open_or_create(cls, name: str) -> Semaphore:
        """Open the semaphore, which is made with value 0 where it is not there. Raises the errors of `open`."""
        _check_owner(name)
        return cls(posix_ipc.Semaphore(name, posix_ipc.O_CREAT, mode=_MODE, initial_value=0), "block")

    @property
    def value(self) -> int:
        """The posts that no wait has taken yet."""
        return self._handle.value

    @property
    def is_current(self) -> bool:
        """True while the name leads to this semaphore."""
        return self._number == self._number_now()

    def _number_now(self) -> int:
        with contextlib.suppress(OSError):
            return os.stat(self._file).st_ino
        return 0

    def post(self) -> None:
        """Add one to the value."""
        self._handle.release()

    def wait(self, timeout_s: float) -> bool:
        """Take one from the value; False when it was 0 for `timeout_s` (or a signal came first)."""
        handle = self._handle
        if self._poll_ns and not handle.value:
            until = monotonic_ns() + min(self._poll_ns, int(timeout_s * 1e9))
            while not handle.value and monotonic_ns() < until:
                os.sched_yield()
        try:
            handle.acquire(max(timeout_s, 0))
        except (posix_ipc.BusyError, posix_ipc.SignalError):
            return False
        return True

    def close(self) -> None:
        """Close the handle; once."""
        self._handle.close()


def unlink(name: str) -> None:
    """Remove a name; a process that has the semaphore open keeps it. No effect when there is none, or another
    user's.
    """
    remove_private(Names.file_of(name))


def _check_owner(name: str) -> None:
    """Raise SegmentError when the name leads to a file of another user: the C library maps it unseen.

    The name cannot be given to another file afterwards: only its owner removes it from /dev/shm.
    """
    with contextlib.suppress(FileNotFoundError):
        os.close(open_private(Names.file_of(name), any_mode=True, backend="holodeck"))
