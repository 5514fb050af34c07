"""Where the lines of one run wait for the sessions they are about, without I/O and without a lock."""

from __future__ import annotations

from collections import OrderedDict, deque

from lucky_transport_pipe.lines import ParsedLine

__all__ = ["Demultiplexer"]


class Demultiplexer:
    """A queue of lines for each session, without a limit.

    Nothing is lost or overtaken: `take` of a session and `take_any` return lines in the order of the wire.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, ParsedLine] = OrderedDict()  # by the number of their arrival
        self._numbers: dict[int, deque[int]] = {}  # of the lines of each session
        self._arrived = 0

    def put(self, line: ParsedLine) -> None:
        """Add a line to its session's queue."""
        self._numbers.setdefault(line.session, deque()).append(self._arrived)
        self._lines[self._arrived] = line
        self._arrived += 1

    def take(self, session: int) -> ParsedLine | None:
        """Return the oldest line of one session, None when there is none."""
        numbers = self._numbers.get(session)
        return self._lines.pop(numbers.popleft()) if numbers else None

    def take_any(self) -> ParsedLine | None:
        """Return the oldest line of all, None when there is none."""
        for line in self._lines.values():
            return self.take(line.session)
        return None

    def __len__(self) -> int:
        """Lines that wait."""
        return len(self._lines)
