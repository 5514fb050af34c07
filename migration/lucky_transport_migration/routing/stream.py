"""The authority's stream, as the caller reads it, with its first items kept for the comparison."""

from __future__ import annotations

import time
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.transport import Stream
from lucky_transport_migration.routing.exchange import RoutedCall
from lucky_transport_migration.routing.follower import Follower
from lucky_transport_migration.routing.outcomes import answer, failure

__all__ = ["StagedStream"]


class StagedStream(Stream):
    """Everything the caller sees is `stream`'s own: items, errors, drops.

    most: how many items are kept; 0 where they are only valid until the next one.
    """

    def __init__(self, stream: Stream, exchange: RoutedCall, side: str, follower: Follower | None, most: int) -> None:
        self._stream = stream
        self._exchange: RoutedCall | None = exchange  # None once it is noted
        self._side = side
        self._follower = follower
        self._most = most
        self._items: list[Any] = []
        self._began_ns = time.perf_counter_ns()

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that the engine skipped so far because this side was slow."""
        return self._stream.dropped

    def __next__(self) -> Any:
        try:
            item = next(self._stream)
        except StopIteration:
            self._end()
            raise
        except TransportError as error:
            self._end(error)
            raise
        if self._exchange is not None and len(self._items) < self._most:
            self._items.append(item)
            if len(self._items) == self._most:
                self._end(early=True)
        return item

    def cancel(self) -> None:
        if "_stream" in self.__dict__:  # else the constructor never ran
            self._end(early=True)
            self._stream.cancel()

    def _end(self, error: TransportError | None = None, *, early: bool = False) -> None:
        """Have the call noted; a caller who leaves early has seen so much, and the shadow need see no more."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if error is not None:
            exchange.answered(failure(self._side, error, self._began_ns, self._items))
        else:
            outcome = answer(self._side, self._items, self._began_ns, dropped=self._stream.dropped)
            exchange.answered(outcome, ended_early=early)
        if self._follower is not None and early:
            self._follower.enough(len(self._items))
