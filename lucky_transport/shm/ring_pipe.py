"""What every pipe made of two rings does alike: `RingPipe`, the records of a `calls.pipe.Pipe`.

Rule 1: records are pushed and popped by the ends themselves, without a function of the pipe in between.
Rule 2: who closes shuts the ends first: from then on nothing is written to rings that are nobody's any more.
"""

from __future__ import annotations

from lucky_transport.shm.ends import ReadingEnd, WritingEnd
from lucky_transport.shm.gate import Gate

__all__ = ["RingPipe"]


class RingPipe:
    """Pushes and pops, each as in `Pipe`. `reader`: the reading end; whoever waits for several pipes looks at it."""

    def __init__(self, gate: Gate, writer: WritingEnd, reader: ReadingEnd) -> None:
        self._gate = gate
        self.use(writer, reader)

    def use(self, writer: WritingEnd, reader: ReadingEnd) -> None:
        """Have these ends from now on; shut ones, if the pipe is closed."""
        self._writer, self.reader = writer, reader
        if self._gate.closed:
            self._shut()
        self.try_push, self.push_plain, self.push_pictured = writer.try_push, writer.push_plain, writer.push_pictured
        self.try_pop, self.pop_plain, self.pop_run = reader.try_pop, reader.pop_plain, reader.pop_run

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._gate.closed

    def _shut(self) -> None:
        """Refuse every record from now on, as the gate does; idempotent."""
        self._writer.shut(self._gate.error)
        self.reader.shut(self._gate.error)
