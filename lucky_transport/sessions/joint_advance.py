"""Several sessions advanced together: their calls are under way at the same time, and none is left when it is over.

Rule 1: an advance that fails keeps no other from its end; the first error, in the order of the turns, is raised then.
Rule 2: a turn refused for want of a worker slot was not begun. It is begun again once others are done, so that nobody
        is refused for the load that he makes himself; Busy is raised when a whole round of turns was refused.
Rule 3: at most UNDER_WAY calls are under way: a batch does not fill up the engine's queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lucky_transport.errors import Busy
from lucky_transport.pending import Pending, Settled
from lucky_transport.sessions.news import Advanced

__all__ = ["UNDER_WAY", "JointAdvance"]

#: More calls than this are not under way at once.
UNDER_WAY = 256


class JointAdvance:
    """begins: what begins each turn's call, again after a refusal. show: makes an outcome of a call's response."""

    def __init__(self, begins: Sequence[Callable[[], Pending]], show: Callable[[Any], Advanced]) -> None:
        self._begins = begins
        self._show = show
        self._due = list(range(len(begins)))
        self._done: dict[int, Advanced] = {}
        self._errors: dict[int, Exception] = {}

    def run(self) -> list[Advanced]:
        """Return the outcomes in the order of the turns. After Busy it may be called again, for those refused so far.

        Raises what the first turn that failed raised.
        """
        while self._due:
            tried = len(self._due)
            self._exchange()
            if len(self._due) == tried:
                break
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._done[at] for at in range(len(self._begins))]

    def _exchange(self) -> None:
        """Begin every turn that is due, and await them all; those that are refused are due again."""
        due, self._due = self._due, []
        under_way: deque[tuple[int, Pending]] = deque()
        try:
            for at in due:
                if len(under_way) == UNDER_WAY:
                    self._settle(under_way)
                under_way.append((at, _begun(self._begins[at])))
            while under_way:
                self._settle(under_way)
        except BaseException:  # Ctrl-C
            for _, pending in under_way:
                pending.cancel()
            raise

    def _settle(self, under_way: deque[tuple[int, Pending]]) -> None:
        """Await the oldest of those under way."""
        at, pending = under_way[0]
        self._errors.pop(at, None)
        try:
            self._done[at] = self._show(pending.result())
        except Exception as error:  # a transport is foreign code; it is raised when all have ended
            self._errors[at] = error
            if isinstance(error, Busy):
                self._due.append(at)
        under_way.popleft()


def _begun(begin: Callable[[], Pending]) -> Pending:
    """Return the call under way; one that could not be begun has failed like any other."""
    try:
        return begin()
    except Exception as error:
        return Settled(error=error)
