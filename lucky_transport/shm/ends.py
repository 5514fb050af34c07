"""The two ends of a ring with their waits: the native ones where the module was built, else pure Python.

    WritingEnd   try_push(record) · push(kind, correlation_id, payload, ...) · free · shut(why) · stop() ·
                 wait_room(length, pidfd, timeout_ns)
    ReadingEnd   try_pop() · pop_batch(limit) · ready() · pending · position · wait(pidfd, timeout_ns) · interrupt() ·
                 arm() · disarm() · shut(why)

Rule 1: `park` is the byte of the reader's park word in the same memory: the reader sets it to 1 before it sleeps, the
        writer wakes it by the eventfd `bell` where there is one, else by the futex on the word.
Rule 2: what the other side wrote is believed only as far as it is possible; the errors are those of ring.py.
Rule 3: one thread at a time on each end, but `interrupt`, `stop` and `wait_room`'s own thread may be others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from lucky_transport.codec.compact import ImageFields, ItemRun, Popped
from lucky_transport.shm.atomics import implementation
from lucky_transport.shm.results import PEER_PARKS, PEER_WAKES
from lucky_transport.shm.ring import check_place
from lucky_transport.shm.wait import CROWDED, STRATEGIES

__all__ = ["ReadingEnd", "WritingEnd", "open_reader", "open_writer", "spin"]

_BOTH = PEER_WAKES | PEER_PARKS


class WritingEnd(Protocol):
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

    def woke(self) -> bool:
        """True when the reader was parked as the last record came, so that no answer can come soon; said once."""
        ...

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        """Append the record and wake the reader; False, and nothing changed, when it does not fit now.

        Raises SpecError for a record that can never fit, RemoteProtocolError for an impossible reader's position.
        """
        ...

    def push(
        self,
        kind: int,
        correlation_id: int,
        payload: bytes,
        method: int = 0,
        deadline_ns: int = 0,
        dropped: int = 0,
        image: ImageFields | None = None,
        /,
    ) -> bool:
        """See `Pipe.push`."""
        ...

    def wait_room(self, length: int, pidfd: int, timeout_ns: int) -> int:
        """Wait until a record of `length` bytes fits: 1, Result.TIMED_OUT (also after `stop`) or Result.PEER_GONE.

        Raises as `try_push`.
        """
        ...

    def shut(self, why: Callable[[], Exception]) -> None:
        """Refuse every record from now on, with the error that `why()` returns."""
        ...

    def stop(self) -> None:
        """End a wait for room, now and for ever, and ring no bell any more."""
        ...


class ReadingEnd(Protocol):
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

    def pop_batch(self, limit: int, /) -> Popped | ItemRun | None:
        """See `Pipe.pop_batch`."""
        ...

    def shut(self, why: Callable[[], Exception]) -> None:
        """Pop nothing from now on: whoever tries gets the error that `why()` returns."""
        ...

    def ready(self) -> bool:
        """True when something was written and not popped, be it whole or not."""
        ...

    def wait(self, pidfd: int, timeout_ns: int, crowded: bool = False, rested: bool = False) -> int:
        """Wait for a record, parked on the futex: 1, 0 after `interrupt`, Result.TIMED_OUT or Result.PEER_GONE.

        crowded: see `spin`. rested: park at once, for nothing can come soon.
        """
        ...

    def interrupt(self) -> None:
        """Make the present `wait`, or the next one, return."""
        ...

    def arm(self) -> bool:
        """Have the writer ring the bell with its next record; True, and no bell, when there is something to pop."""
        ...

    def disarm(self) -> None:
        """No bell any more."""
        ...


def open_writer(
    memory: Any,
    offset: int,
    size: int,
    *,
    park: int = -1,
    bell: int = -1,
    strategy: int = 1,
    peer: int = _BOTH,
    native: bool = True,
) -> WritingEnd:
    """Return the writing end of the ring at `offset` of `memory`, going on where the shared position stands.

    Raises SegmentError when the ring does not fit into the memory, RemoteProtocolError for impossible positions.
    """
    check_place(memoryview(memory).nbytes, offset, size)
    return cast(WritingEnd, implementation(native).RingWriter(memory, offset, size, park, bell, strategy, peer))


def open_reader(
    memory: Any,
    offset: int,
    size: int,
    *,
    park: int = -1,
    bell: int = -1,
    strategy: int = 1,
    peer: int = _BOTH,
    native: bool = True,
) -> ReadingEnd:
    """Return the reading end, likewise; `bell` is the eventfd that this side waits on."""
    check_place(memoryview(memory).nbytes, offset, size)
    return cast(ReadingEnd, implementation(native).RingReader(memory, offset, size, park, bell, strategy, peer))


def spin(
    readers: tuple[ReadingEnd, ...], strategy: int, longest_ns: int, *, native: bool = True, crowded: bool = False
) -> bool:
    """Look at the readers for at most so long, with `block` once; True when one has something to pop.

    crowded: threads of this process want the core too, so `adaptive` gives it away between all looks.
    """
    code = CROWDED if crowded and strategy == STRATEGIES["adaptive"] else strategy
    return bool(implementation(native).spin(readers, code, longest_ns))
