"""The second answer: a call's requests, sent again over the other transport.

Shadows have channels and threads of their own: they share nothing with the calls of the program. A shadow has as much
time as its caller gave the authority, and 10 seconds at most. When there are too many already, or the channel is
closed, none is asked, and the evidence says so. An absent candidate is evidence while the authority is there: an engine
that has ended is missed by both. Whatever a shadow does, an outcome or a reason comes of it, and nothing else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lucky_transport.fork import on_child
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.staged.ending import SO_FAR, Ending, ending, is_hidden
from lucky_transport_stubs.staged.items import RecordedMessages
from lucky_transport_stubs.staged.workers import Workers

if TYPE_CHECKING:
    from lucky_transport_stubs.staged.exchange import RoutedRpc

__all__ = ["ChannelShadows", "Opener"]

#: Makes a channel of grpc's blocking kind.
Opener = Callable[[], Any]

_LONGEST_S = 10.0
#: What shadows under way have left once their channel is closed.
_GRACE_S = 1.0
#: Between one transport of an engine that ends and the other.
_MOMENT_S = 0.5
_CLOSED = "the channel was closed"


class ChannelShadows:
    """Asks shadows of one staged channel on `workers`; `openers` make its channels, by the transport's name."""

    def __init__(self, workers: Workers, openers: Mapping[str, Opener]) -> None:
        self._workers = workers
        self._openers = openers
        self._channels: dict[str, Any] = {}
        self._is_closing = self._is_closed = False
        self._under_way = 0
        self._none_under_way = threading.Condition()
        on_child(self.close_after_fork)

    def ask(self, exchange: RoutedRpc) -> str:
        """Have the shadow of this call asked; returns why it is not, "" when it will be. Does not wait."""
        if self._is_closing:
            return _CLOSED
        with self._none_under_way:
            self._under_way += 1
        if self._workers.submit(partial(self._run, exchange)):
            return ""
        self._done()
        return "too many shadows are under way"

    def close(self) -> None:
        """Ask no more; those under way have a moment, then they end. Does not wait, idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._under_way:
            with contextlib.suppress(RuntimeError):  # the process ends, and its shadows with it
                threading.Thread(target=self._close_later, name="shadow calls", daemon=True).start()
        else:
            self._close()

    def close_after_fork(self) -> None:
        """In a forked child: the parent's channels are left alone, new ones are made when they are needed."""
        self._channels = {}
        self._under_way = 0
        self._none_under_way = threading.Condition()

    # -- closing ------------------------------------------------------------------------------------------------------

    def _close_later(self) -> None:
        with self._none_under_way:
            self._none_under_way.wait_for(lambda: not self._under_way, _GRACE_S)
        self._close()

    def _close(self) -> None:
        with self._none_under_way:
            self._is_closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def _done(self) -> None:
        with self._none_under_way:
            self._under_way -= 1
            self._none_under_way.notify_all()

    # -- on a worker --------------------------------------------------------------------------------------------------

    def _run(self, exchange: RoutedRpc) -> None:
        try:
            self._answer(exchange)
        except Exception as error:  # a channel that was closed, or foreign code, becomes an outcome
            if self._is_closed:
                exchange.has_no_shadow(_CLOSED)
            else:
                exchange.shadow_answered(RecordedMessages(), Ending("INTERNAL", f"{type(error).__name__}: {error}"), 0)
        finally:
            self._done()

    def _answer(self, exchange: RoutedRpc) -> None:
        timeout = _LONGEST_S if exchange.timeout is None else min(exchange.timeout, _LONGEST_S)
        method = getattr(self._channel(exchange.decision.shadow), exchange.arity)(exchange.method)
        began_ns = time.perf_counter_ns()
        items, end = _asked(method, exchange, timeout)
        last_ns = items.last_ns if end.code == "OK" and items.kept else time.perf_counter_ns()
        if self._is_closed and end.code == "CANCELLED":
            exchange.has_no_shadow(_CLOSED)
        elif end.code == "UNAVAILABLE" and self._has_gone(exchange):
            exchange.has_no_shadow("the engine has gone")
        else:
            exchange.shadow_answered(items, end, last_ns - began_ns)

    def _has_gone(self, exchange: RoutedRpc) -> bool:
        """True when the authority answered, and a moment later cannot be reached either: an engine ends bit by bit."""
        if exchange.code == "UNAVAILABLE":
            return False
        time.sleep(_MOMENT_S)
        method = getattr(self._channel(exchange.decision.authority), exchange.arity)(exchange.method)
        _, end = _asked(method, exchange, _MOMENT_S)
        return end.code == "UNAVAILABLE"

    def _channel(self, transport: str) -> Any:
        with self._none_under_way:
            if self._is_closed:
                raise ValueError(_CLOSED)
            if transport not in self._channels:
                self._channels[transport] = self._openers[transport]()
            return self._channels[transport]


def _asked(method: Any, exchange: RoutedRpc, timeout: float) -> tuple[RecordedMessages, Ending]:
    """Return what came of the call, and how it ended."""
    request = iter(exchange.requests) if exchange.arity.startswith("stream") else exchange.requests[0]
    items = RecordedMessages()
    if exchange.arity.endswith("stream"):
        call = method(request, timeout=timeout, metadata=exchange.metadata)
        return items, _read(call, items, exchange)
    try:
        response, call = method.with_call(request, timeout=timeout, metadata=exchange.metadata)
        items.add(response)
    except grpc.RpcError as error:
        call = error
    return items, ending(call)


def _read(call: Any, items: RecordedMessages, exchange: RoutedRpc) -> Ending:
    """Read a stream to its end, or as far as it can be compared."""
    try:
        for item in call:
            items.add(item)
            if items.is_full or exchange.has_enough(len(items.kept)):
                if not is_hidden(call):
                    call.cancel()  # else it ends where it is dropped
                return SO_FAR
    except grpc.RpcError as error:
        found = ending(error if is_hidden(call) else call)
        if not exchange.is_over and exchange.timeout is None and found.code == "DEADLINE_EXCEEDED":
            return SO_FAR  # the authority goes on as well: neither is late
        return found
    return SO_FAR if is_hidden(call) else ending(call)
