"""A pipe made of two rings: their ends, and what pipes in a segment and pipes of a listener have in common."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from functools import cache
from mmap import mmap
from typing import Any, TypedDict, Unpack

from lucky_transport import native
from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import ClosedError
from lucky_transport.fork import on_child
from lucky_transport.shm.ring import SMALLEST, check_place, ring_bytes
from lucky_transport.shm.timing import WRITABLE_SLICE_NS
from lucky_transport.shm.usage_guard import UsageGuard


class EndOptions(TypedDict, total=False):
    """park, socket, strategy, peer, empty, arena, arena_bytes, backed: as the ends in `native.pyi` say."""

    park: int
    socket: int
    strategy: int
    peer: int
    empty: bool
    arena: int
    arena_bytes: int
    backed: int


def open_writer(memory: Any, offset: int, size: int, **options: Unpack[EndOptions]) -> native.RingWriter:
    """Return the writing end of the ring at `offset` of `memory`, going on where the shared position stands.

    With `empty` the ring is made empty, which nothing else may be using, and what stood in it is not read.

    Raises SegmentError when the ring does not fit into the memory, RemoteProtocolError for impossible positions.
    """
    check_place(memoryview(memory).nbytes, offset, size)
    return native.RingWriter(memory, offset, size, **options)


def open_reader(memory: Any, offset: int, size: int, **options: Unpack[EndOptions]) -> native.RingReader:
    """Return the reading end of the ring at `offset` of `memory`.

    Raises SegmentError when the ring does not fit into the memory, RemoteProtocolError for impossible positions.
    """
    check_place(memoryview(memory).nbytes, offset, size)
    return native.RingReader(memory, offset, size, **options)


@cache
def _no_rings() -> mmap:
    """Return the memory that all closed pipes share: nothing is read or written there."""
    return mmap(-1, 2 * ring_bytes(SMALLEST))


class RingPipe(ABC):
    """What the pipes have in common; each adds its own waits. See `lucky_transport.rpc.pipe.Pipe`.

    peer: the other end's name. reader: the reading end, for a poller. `try_push`, `push`, `ready`, `try_pop` and
    `pop_batch` are those of the ends, without a function in between.
    """

    def __init__(self, what: str, peer: str, writer: native.RingWriter, reader: native.RingReader) -> None:
        self.peer = peer
        self._guard = UsageGuard(what)
        self.use(writer, reader)
        on_child(self.close_after_fork)

    def use(self, writer: native.RingWriter, reader: native.RingReader) -> None:
        """Have these ends from now on; shut ones, if the pipe is closed."""
        self._writer, self.reader = writer, reader
        if self._guard.closed:
            self._shut()
        self.try_push, self.push = writer.try_push, writer.push
        self.ready, self.try_pop, self.pop_batch = reader.ready, reader.try_pop, reader.pop_batch

    @property
    def largest_record(self) -> int:
        """Bytes of the longest record that can be pushed: in the arena, as far as there is memory, else in the ring."""
        return self._writer.largest

    def limit(self, message_bytes: int) -> None:
        """Leave longer messages in the arena; see `Pipe.limit`."""
        self.reader.limit(min(message_bytes, 2**64 - 1))

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._guard.closed

    def wait_writable(self, length: int, timeout_ns: int) -> bool:
        """Wait until a record of `length` bytes can be pushed; see `Pipe.wait_writable`."""
        until_ns = monotonic_ns() + timeout_ns
        with self._guard:
            while True:
                left_ns = max(0, until_ns - monotonic_ns())
                result = self._writer.wait_writable(length, min(left_ns, WRITABLE_SLICE_NS))
                if result == 1:
                    return True
                self.check_peer()
                if not left_ns:
                    return False

    @abstractmethod
    def check_peer(self) -> None:
        """Raise ClosedError when the pipe is closed, PeerDied when the peer is gone, what else ends a wait."""

    def close(self) -> None:
        """Refuse everything from now on, and end every wait. Idempotent."""
        self._shut()
        with contextlib.suppress(ClosedError), self._guard:
            if self._guard.close(self._let_go):
                self._writer.stop()
                self._end_wait()

    @abstractmethod
    def _end_wait(self) -> None:
        """Make the present `wait` of another thread return, once the pipe is closed."""

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything; the rings are the parent's and stay as they are."""
        self._shut()
        if self._guard.close_after_fork():
            self._writer.stop()
            self._let_go()

    def _shut(self) -> None:
        """Refuse every record from now on, with the guard's error; idempotent."""
        self._writer.shut(self._guard.error)
        self.reader.shut(self._guard.error)

    def _let_go(self) -> None:
        """Have shut ends of an empty ring; no thread is inside the guard.

        A closed pipe that is still referenced then holds no memory of its rings.
        """
        memory = _no_rings()
        writer = open_writer(memory, 0, SMALLEST)
        writer.stop()
        park = SMALLEST  # any word will do
        self.use(writer, open_reader(memory, ring_bytes(SMALLEST), SMALLEST, park=park))
