"""One run of an experiment on the client's side: the lines of its sessions that wait, and how it ended."""

from __future__ import annotations

from collections import OrderedDict, deque

from lucky_transport.errors import TransportError
from lucky_transport_pipe.lines import ParsedLine

__all__ = ["ClientRun"]


class ClientRun:
    """sessions: how many have init data so far. error: why it ended before its time.

    Each session has a queue of lines, without a limit: `take` of a session and `take_any` return lines in the order of
    the wire. No lock: the conversation holds its own.
    """

    def __init__(self, experiment: str) -> None:
        self.experiment = experiment
        self.sessions = 0
        self.is_over = False
        self.error: TransportError | None = None
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
