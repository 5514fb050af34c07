"""What every pipe made of two rings does alike: `RingPipe`, the records of a `calls.pipe.Pipe` behind a gate.

Rule 1: the writing end is fetched before the gate is looked at: who lets go closes the gate first, so that nothing is
        written to rings that are nobody's any more.
"""

from __future__ import annotations

from lucky_transport.codec.popped import Items, Popped
from lucky_transport.shm.ends import ReadingEnd, WritingEnd
from lucky_transport.shm.gate import Gate

__all__ = ["RingPipe"]


class RingPipe:
    """Pushes and pops. `reader`: the reading end; whoever waits for several pipes looks at it."""

    _gate: Gate
    _writer: WritingEnd
    reader: ReadingEnd

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._gate.closed

    def try_push(self, record: bytes | bytearray | memoryview) -> bool:
        """Append the record and wake the peer; False when there is no room now. See `Pipe.try_push`."""
        writer = self._writer
        if self._gate.closed:
            raise self._gate.error()
        return writer.try_push(record)

    def push_plain(self, method: int, correlation_id: int, kind: int, deadline_ns: int, payload: bytes) -> bool:
        """Append a plain envelope; see `Pipe.push_plain`."""
        writer = self._writer
        if self._gate.closed:
            raise self._gate.error()
        return writer.push_plain(method, correlation_id, kind, deadline_ns, payload)

    def push_pictured(self, correlation_id: int, kind: int, dropped: int, payload: bytes, *place: int) -> bool:
        """Append an envelope with one picture; see `Pipe.push_pictured`."""
        writer = self._writer
        if self._gate.closed:
            raise self._gate.error()
        return writer.push_pictured(correlation_id, kind, dropped, payload, *place)

    def try_pop(self) -> bytes | None:
        """Return the oldest record, None when there is none. See `Pipe.try_pop`."""
        if self._gate.closed:
            raise self._gate.error()
        return self.reader.try_pop()

    def pop_plain(self) -> Popped | None:
        """Return the oldest record, taken apart if it is of the usual kinds; see `Pipe.pop_plain`."""
        if self._gate.closed:
            raise self._gate.error()
        return self.reader.pop_plain()

    def pop_run(self, limit: int) -> Popped | Items | None:
        """Return the oldest record, or some stream items; see `Pipe.pop_run`."""
        if self._gate.closed:
            raise self._gate.error()
        return self.reader.pop_run(limit)
