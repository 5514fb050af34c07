"""The segment's own two rings as a pipe: the client's end and the engine's end.

The client waits at `park_command`. The engine waits at `park_engine` in its channel, for actions and records together,
so its end has no `wait`.
"""

from __future__ import annotations

import os

from lucky_transport.errors import LocalProtocolError, PeerDied
from lucky_transport.fork import on_child
from lucky_transport.shm.atomics import Words
from lucky_transport.shm.channel import PEER_PARKS, PEER_WAKES, Result
from lucky_transport.shm.ends import ReadingEnd, WritingEnd, open_reader, open_writer
from lucky_transport.shm.layout import FIELDS, RING_HEAD_BYTES
from lucky_transport.shm.mapping import Mapping
from lucky_transport.shm.ring import largest_record, reset_ring
from lucky_transport.shm.ring_pipe import RingPipe
from lucky_transport.shm.segment import Segment
from lucky_transport.shm.timing import TRUNCATION_POLL_NS
from lucky_transport.shm.usage_guard import UsageGuard

__all__ = ["SegmentPipe"]

_CLIENT, _ENGINE = "park_command", "park_engine"


class SegmentPipe(RingPipe):
    """One end of a segment's rings; a `calls.pipe.Pipe`. Made by `client_end` and `engine_end`."""

    def __init__(
        self, segment: Segment, peer: str, writer: WritingEnd, reader: ReadingEnd, pidfd: int, native: bool
    ) -> None:
        super().__init__(UsageGuard(f"the pipe to {peer} at {segment.path}"), writer, reader)
        self.peer = peer
        self._mapping: Mapping | None = segment.mapping
        self.largest_record = largest_record(writer.size)
        self._pidfd = os.dup(pidfd) if pidfd >= 0 else -1
        self._native = native
        self._waits = True
        on_child(self.close_after_fork)

    @classmethod
    def client_end(
        cls, segment: Segment, *, strategy: int, peer_bits: int, pidfd: int, engine: str = "", native: bool = True
    ) -> SegmentPipe:
        """Return the client's end. `peer_bits`: PEER_* of the engine, `pidfd` its process, `engine` its name.

        Raises RemoteProtocolError when the rings hold what no peer may have left there.
        """
        return cls(
            segment,
            engine or f"the engine of {segment.path}",
            _writer(segment, "ring_c2s", _ENGINE, strategy, peer_bits, native),
            _reader(segment, "ring_s2c", _CLIENT, strategy, peer_bits, native),
            pidfd,
            native,
        )

    @classmethod
    def engine_end(
        cls,
        segment: Segment,
        *,
        strategy: int,
        peer_bits: int = PEER_WAKES | PEER_PARKS,
        pidfd: int = -1,
        client: str = "",
        native: bool = True,
    ) -> SegmentPipe:
        """Return the engine's end, with both rings emptied; no client may be using them."""
        words = Words(segment.mapping, native)
        for name in ("ring_c2s", "ring_s2c"):
            reset_ring(words, segment.layout[name].offset, segment.layout[name].size - RING_HEAD_BYTES)
        pipe = cls(
            segment,
            client or f"the client of {segment.path}",
            _writer(segment, "ring_s2c", _CLIENT, strategy, peer_bits, native),
            _reader(segment, "ring_c2s", _ENGINE, strategy, peer_bits, native),
            pidfd,
            native,
        )
        pipe._waits = False
        return pipe

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        """Wait for a record; see `Pipe.wait`. Raises LocalProtocolError at the engine's end."""
        if not self._waits:
            raise LocalProtocolError("the engine's end of a segment waits in its channel, not in its pipe")
        if self.reader.ready() and not self._guard.closed:
            return True
        skip_spin = self._writer.woke_reader()
        while True:
            with self._guard:
                result = self.reader.wait(self._pidfd, min(timeout_ns, TRUNCATION_POLL_NS), oversubscribed, skip_spin)
            timeout_ns -= TRUNCATION_POLL_NS
            if result == 1 or self._outcome(result) or result == 0 or timeout_ns <= 0:
                return result == 1
            skip_spin = True

    def wait_writable(self, length: int, timeout_ns: int) -> bool:
        """Wait until a record of `length` bytes can be pushed; see `Pipe.wait_writable`."""
        while True:
            with self._guard:
                result = self._writer.wait_writable(length, self._pidfd, min(timeout_ns, TRUNCATION_POLL_NS))
            timeout_ns -= TRUNCATION_POLL_NS
            if self._outcome(result) or timeout_ns <= 0:
                return result == 1

    def _outcome(self, result: int) -> bool:
        if result == Result.PEER_GONE:
            raise PeerDied(
                f"the process of {self.peer} ended", backend="shm", hint="start the engine and connect again"
            )
        if result != 1 and self._guard.closed:
            raise self._guard.error()
        mapping = self._mapping
        if result != 1 and mapping is not None:
            mapping.check()
        return result == 1

    def interrupt(self) -> None:
        """Make the present `wait` of another thread, or the next one, return."""
        self.reader.interrupt()

    def fileno(self) -> int:
        """Return -1: a segment is waited for at a word of its memory, not at a descriptor."""
        return -1

    def arm(self) -> bool:
        """Raise LocalProtocolError: there is no descriptor to watch."""
        raise LocalProtocolError("a segment's pipe has no descriptor to watch; connect one at the listener")

    def close(self) -> None:
        """Refuse everything from now on, and end every wait; the segment is not touched. Idempotent."""
        self._shut()
        if self._guard.close(self._let_go):
            self._writer.stop()
            if self._waits:
                self.reader.interrupt()

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything; the rings are the parent's."""
        self._shut()
        if self._guard.close_after_fork():
            self._let_go()

    def _let_go(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._let_go_of_rings(self._native)
        self._mapping = None


def _writer(segment: Segment, ring: str, park: str, strategy: int, peer: int, native: bool) -> WritingEnd:
    region = segment.layout[ring]
    size = region.size - RING_HEAD_BYTES
    word = FIELDS[park].offset
    return open_writer(segment.mapping, region.offset, size, park=word, strategy=strategy, peer=peer, native=native)


def _reader(segment: Segment, ring: str, park: str, strategy: int, peer: int, native: bool) -> ReadingEnd:
    region = segment.layout[ring]
    size = region.size - RING_HEAD_BYTES
    word = FIELDS[park].offset
    return open_reader(segment.mapping, region.offset, size, park=word, strategy=strategy, peer=peer, native=native)
