"""The second answers, on threads of their own: the caller never waits for one, nor sees what becomes of it.

Shadows have connections of their own: whatever one does to its connection, callers have theirs. A shadow has as long as
its caller gave the authority, from its own begin on; a stream without a deadline is followed for 10 seconds at most.
When too many are under way none is asked, and the evidence says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, PeerTimeout, TransportError
from lucky_transport.rpc.worker_pool import WorkerPool
from lucky_transport_migration.routing.exchange import RoutedCall
from lucky_transport_migration.routing.follower import Follower
from lucky_transport_migration.routing.outcomes import answer, failure
from lucky_transport_migration.routing.side import RoutedConnection

__all__ = ["TransportShadows"]

_log = logging.getLogger("lucky_transport")

_CALLS, _WAITING_CALLS = 2, 64
_STREAMS = 4
_LONGEST_S = 10.0
_GRACE_S, _MOMENT_S = 1.0, 0.4
_CLOSED = "the transport was closed before the shadow had answered"


class TransportShadows:
    """Asks the shadows of one staged transport, over twins of its `sides`."""

    def __init__(self, sides: Mapping[str, RoutedConnection]) -> None:
        self._sides = {name: side.twin() for name, side in sides.items()}
        self._calls = WorkerPool("shadow calls", _CALLS, _WAITING_CALLS)
        self._streams = WorkerPool("shadow streams", _STREAMS)
        self._pending: set[RoutedCall] = set()
        self._closing = False

    def call(self, exchange: RoutedCall, deadline: Deadline | None) -> None:
        """Have the shadow of a unary call asked, soon."""
        self._run(self._calls, exchange, partial(self._ask, exchange, exchange.decision.shadow, _left_s(deadline)))

    def follow(self, exchange: RoutedCall, follower: Follower, deadline: Deadline | None) -> None:
        """Have the shadow of a stream asked, soon, for the items that `follower` wants."""
        name = exchange.decision.shadow
        self._run(self._streams, exchange, partial(self._read, exchange, name, follower, _left_s(deadline)))

    def reconnect(self, side: RoutedConnection) -> None:
        """Try again, soon, to connect a side that failed before."""

        def connect() -> None:
            if side.retry_is_due:
                with suppress(TransportError):
                    side.open()

        with suppress(Busy):  # then who asks next tries again
            self._calls.run(connect)

    def close(self) -> None:
        """Ask none any more, give those under way a moment and leave those behind that hang; idempotent."""
        self._calls.close(_GRACE_S)
        self._closing = True
        for side in self._sides.values():
            side.close()
        self._calls.close(_MOMENT_S)
        self._streams.close(_MOMENT_S)
        for exchange in list(self._pending):
            exchange.unshadowed(_CLOSED)

    def _run(self, workers: WorkerPool, exchange: RoutedCall, ask: Callable[[], None]) -> None:
        def task() -> None:
            try:
                if exchange.waits:
                    ask()
            except Exception as error:  # a fault of ours: the call keeps its evidence, the thread goes on
                _log.exception("the shadow of a call of %s broke", exchange.method.name)
                exchange.unshadowed(f"the shadow broke: {type(error).__name__}: {error}")
            finally:
                self._pending.discard(exchange)

        self._pending.add(exchange)
        try:
            workers.run(task)
        except Busy:
            self._pending.discard(exchange)
            exchange.unshadowed(_CLOSED if self._closing else "too many shadows are under way")

    def _ask(self, exchange: RoutedCall, name: str, timeout_s: float | None) -> None:
        began_ns = time.perf_counter_ns()
        try:
            transport = self._sides[name].open()
            response = transport.call(exchange.method, exchange.request, _deadline(timeout_s))
        except Exception as error:  # a candidate may raise anything: that is what shadows are for
            self._failed(exchange, name, error, began_ns)
        else:
            exchange.shadowed(answer(name, (response,), began_ns))

    def _read(self, exchange: RoutedCall, name: str, follower: Follower, timeout_s: float | None) -> None:
        began_ns = time.perf_counter_ns()
        try:
            transport = self._sides[name].open()
            stream = transport.stream(exchange.method, exchange.request, _deadline(timeout_s) or Deadline(_LONGEST_S))
            ended = follower.read(stream)
        except PeerTimeout as error:
            if timeout_s is None:  # it goes on for longer than it is followed
                exchange.shadowed(answer(name, follower.items, began_ns), ended_early=True)
            else:
                self._failed(exchange, name, error, began_ns, follower)
        except Exception as error:  # as above
            self._failed(exchange, name, error, began_ns, follower)
        else:
            outcome = answer(name, follower.items, began_ns, dropped=stream.dropped)
            exchange.shadowed(outcome, ended_early=not ended)

    def _failed(
        self, exchange: RoutedCall, name: str, error: Exception, began_ns: int, follower: Follower | None = None
    ) -> None:
        if self._closing:
            exchange.unshadowed(_CLOSED)
        else:
            exchange.shadowed(failure(name, error, began_ns, follower.items if follower else ()))


def _left_s(deadline: Deadline | None) -> float | None:
    return None if deadline is None else deadline.remaining_s


def _deadline(timeout_s: float | None) -> Deadline | None:
    return None if timeout_s is None else Deadline(timeout_s)
