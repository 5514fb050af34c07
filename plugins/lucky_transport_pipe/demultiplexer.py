"""Where the lines of one run wait for the sessions they are about.

Rule 1: each session has a queue of its own, without a limit: what comes for one never holds up another.
Rule 2: nothing is lost or overtaken within a session; between sessions the one whose line came first is served first.
Rule 3: no I/O and no lock; whoever shares one holds a lock.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from lucky_transport_pipe.lines import Said

__all__ = ["Demultiplexer"]


class Demultiplexer:
    """Queues of lines by session."""

    def __init__(self) -> None:
        self._boxes: dict[int, deque[Said]] = {}
        self._filled: OrderedDict[int, deque[Said]] = OrderedDict()

    def put(self, said: Said) -> None:
        """Add a line to its session's queue."""
        box = self._boxes.get(said.session)
        if box is None:
            box = self._boxes[said.session] = deque()
        box.append(said)
        self._filled[said.session] = box  # keeps its place where it has one

    def take(self, session: int) -> Said | None:
        """Return the oldest line of one session, None when there is none."""
        box = self._filled.get(session)
        if box is None:
            return None
        if len(box) == 1:
            del self._filled[session]
        return box.popleft()

    def take_any(self) -> Said | None:
        """Return the oldest line of the session that waits longest, None when there is none."""
        for session in self._filled:
            return self.take(session)
        return None

    def __len__(self) -> int:
        """Lines that wait."""
        return sum(len(box) for box in self._filled.values())
