"""Advances several sessions together: their calls are in flight at the same time, and all have ended at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from lucky_transport.errors import Busy
from lucky_transport.futures import CallFuture
from lucky_transport.sessions.api import AdvanceResult

#: How many calls are in flight at once at most, so that a batch does not fill up the engine's queue.
MAX_IN_FLIGHT = 256


class BatchAdvance:
    """begins: starts each request's call, again after Busy. read: makes a result of a call's response."""

    def __init__(self, begins: Sequence[Callable[[], Future[Any]]], read: Callable[[Any], AdvanceResult]) -> None:
        self._begins = begins
        self._read = read
        self._due = list(range(len(begins)))
        self._done: dict[int, AdvanceResult] = {}
        self._errors: dict[int, Exception] = {}

    def run(self) -> list[AdvanceResult]:
        """Return the results in the order of the requests. After Busy, call it again for the refused ones.

        A request that was refused for want of a worker slot starts again when others are done, so that a batch is not
        refused for its own load; Busy is raised when a whole round was refused. Any other error does not stop the
        other requests: the first one, in the order of the requests, is raised at the end.
        """
        while self._due:
            tried = len(self._due)
            self._run_round()
            if len(self._due) == tried:
                break
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._done[at] for at in range(len(self._begins))]

    def _run_round(self) -> None:
        """Start every request that is due and wait for all of them; refused ones are due again."""
        due, self._due = self._due, []
        in_flight: deque[tuple[int, Future[Any]]] = deque()
        try:
            for at in due:
                if len(in_flight) == MAX_IN_FLIGHT:
                    self._await_oldest(in_flight)
                in_flight.append((at, _started(self._begins[at])))
            while in_flight:
                self._await_oldest(in_flight)
        except BaseException:  # Ctrl-C
            for _, future in in_flight:
                future.cancel()
            raise

    def _await_oldest(self, in_flight: deque[tuple[int, Future[Any]]]) -> None:
        at, future = in_flight[0]
        self._errors.pop(at, None)
        try:
            self._done[at] = self._read(future.result())
        except Exception as error:  # a transport is foreign code; the error is raised when all calls have ended
            self._errors[at] = error
            if isinstance(error, Busy):
                self._due.append(at)
        in_flight.popleft()


def _started(begin: Callable[[], Future[Any]]) -> Future[Any]:
    """Return the call under way; one that could not be started has failed like any other."""
    try:
        return begin()
    except Exception as error:
        future: Future[Any] = CallFuture()
        future.set_exception(error)
        return future
