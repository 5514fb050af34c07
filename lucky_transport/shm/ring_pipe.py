"""What every pipe made of two rings does alike: `RingPipe`, the records of a `calls.pipe.Pipe`.

Rule 1: records are pushed and popped by the ends themselves, without a function of the pipe in between.
Rule 2: who closes shuts the ends first: from then on nothing is written to rings that are nobody's any more.
Rule 3: a closed pipe holds no memory of its rings, though others may still hold the pipe: its ends are then those of an
        empty ring of its own.
"""

from __future__ import annotations

from mmap import mmap

from lucky_transport.shm.ends import ReadingEnd, WritingEnd, open_reader, open_writer
from lucky_transport.shm.ring_pair import RingPair, total_bytes
from lucky_transport.shm.usage_guard import UsageGuard

__all__ = ["RingPipe"]

_NO_RING = 64


class RingPipe:
    """Pushes and pops, each as in `Pipe`. `reader`: the reading end; whoever waits for several pipes looks at it."""

    def __init__(self, gate: UsageGuard, writer: WritingEnd, reader: ReadingEnd) -> None:
        self._guard = gate
        self.use(writer, reader)

    def use(self, writer: WritingEnd, reader: ReadingEnd) -> None:
        """Have these ends from now on; shut ones, if the pipe is closed."""
        self._writer, self.reader = writer, reader
        if self._guard.closed:
            self._shut()
        self.try_push, self.push = writer.try_push, writer.push
        self.try_pop, self.pop_batch = reader.try_pop, reader.pop_batch

    def _let_go_of_rings(self, native: bool) -> RingPair:
        """Have empty ends, which are shut, and return their memory; nobody is inside the gate."""
        nothing = RingPair(mmap(-1, total_bytes(_NO_RING)), _NO_RING)
        memory = nothing.mapping
        writer = open_writer(memory, nothing.to_engine, _NO_RING, native=native)
        writer.stop()
        self.use(writer, open_reader(memory, nothing.to_client, _NO_RING, park=nothing.park_client, native=native))
        return nothing

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._guard.closed

    def _shut(self) -> None:
        """Refuse every record from now on, as the gate does; idempotent."""
        self._writer.shut(self._guard.error)
        self.reader.shut(self._guard.error)
