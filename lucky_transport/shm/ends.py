"""The two ends of a ring with their waits: the native ones where the module was built, else pure Python.

`park` is the byte of the reader's park word in the same memory: the reader sets it to 1 before it sleeps, the writer
wakes it by the eventfd where there is one, else by the futex on the word. What the other side wrote is believed only as
far as it is possible; the errors are those of ring.py. One thread at a time uses each end, but any thread may call
`interrupt` and `stop`, and one more may be in `wait_writable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from lucky_transport.rpc.pipe import RecordReader, RecordWriter
from lucky_transport.shm.atomics import implementation
from lucky_transport.shm.channel import PEER_PARKS, PEER_WAKES
from lucky_transport.shm.ring import check_place

__all__ = ["ReadingEnd", "WritingEnd", "open_reader", "open_writer"]

_BOTH = PEER_WAKES | PEER_PARKS


class WritingEnd(RecordWriter, Protocol):
    """The end that pushes."""

    @property
    def size(self) -> int:
        """Data bytes of the ring."""
        ...

    @property
    def position(self) -> int:
        """How far this side has written: bytes modulo 2**32."""
        ...

    @property
    def free(self) -> int:
        """Bytes not in use now. Raises RemoteProtocolError for an impossible reader's position."""
        ...

    def woke_reader(self) -> bool:
        """True, once, when the reader was parked as the last record came: no answer can come soon."""
        ...

    def wait_writable(self, length: int, pidfd: int, timeout_ns: int) -> int:
        """Wait until a record of `length` bytes fits: 1, Result.TIMED_OUT (also after `stop`) or Result.PEER_GONE.

        Raises as `try_push`.
        """
        ...

    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse every record from now on, with the error that `why()` returns."""
        ...

    def stop(self) -> None:
        """End `wait_writable`, now and from now on, and notify no eventfd any more."""
        ...


class ReadingEnd(RecordReader, Protocol):
    """The end that pops."""

    @property
    def size(self) -> int:
        """Data bytes of the ring."""
        ...

    @property
    def position(self) -> int:
        """How far this side has read: bytes modulo 2**32."""
        ...

    @property
    def pending(self) -> int:
        """Bytes written and not read. Raises RemoteProtocolError for an impossible writer's position."""
        ...

    def try_pop(self) -> bytes | None:
        """Return a copy of the oldest record and free its place, None when there is none.

        Raises RemoteProtocolError for what no writer may produce; the ring is then left as it is.
        """
        ...

    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse to pop from now on, with the error that `why()` returns."""
        ...

    def ready(self) -> bool:
        """True when something was written and not popped, be it whole or not."""
        ...

    def wait(self, pidfd: int, timeout_ns: int, oversubscribed: bool = False, skip_spin: bool = False) -> int:
        """Wait for a record, parked on the futex: 1, 0 after `interrupt`, Result.TIMED_OUT or Result.PEER_GONE.

        oversubscribed: threads of this process want the core too. skip_spin: park at once, for nothing can come soon.
        """
        ...

    def interrupt(self) -> None:
        """Make the present `wait`, or the next one, return."""
        ...

    def arm(self) -> bool:
        """Have the writer wake this side with its next record; True, and nothing asked, when there is one already."""
        ...

    def disarm(self) -> None:
        """Withdraw what `arm` asked for."""
        ...


def open_writer(
    memory: Any,
    offset: int,
    size: int,
    *,
    park: int = -1,
    eventfd: int = -1,
    strategy: int = 1,
    peer: int = _BOTH,
    native: bool = True,
) -> WritingEnd:
    """Return the writing end of the ring at `offset` of `memory`, going on where the shared position stands.

    Raises SegmentError when the ring does not fit into the memory, RemoteProtocolError for impossible positions.
    """
    check_place(memoryview(memory).nbytes, offset, size)
    return cast(
        WritingEnd,
        implementation(native).RingWriter(
            memory, offset, size, park=park, eventfd=eventfd, strategy=strategy, peer=peer
        ),
    )


def open_reader(
    memory: Any,
    offset: int,
    size: int,
    *,
    park: int = -1,
    eventfd: int = -1,
    strategy: int = 1,
    peer: int = _BOTH,
    native: bool = True,
) -> ReadingEnd:
    """Return the reading end of the ring at `offset` of `memory`; `eventfd` is what this side sleeps on, if anything.

    Raises SegmentError when the ring does not fit into the memory, RemoteProtocolError for impossible positions.
    """
    check_place(memoryview(memory).nbytes, offset, size)
    return cast(
        ReadingEnd,
        implementation(native).RingReader(
            memory, offset, size, park=park, eventfd=eventfd, strategy=strategy, peer=peer
        ),
    )
