"""The methods of a stub over a staged channel, one class for each arity.

Rule 1: what the caller gets, and what he sees raised, is made by the authority's own channel, and nothing is wrapped:
        each call has a callable of its own, whose serializers tell the exchange what passes through them.
Rule 2: a call's object is not kept alive: who drops it ends the call, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lucky_transport.calls.outcome import Metadata
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.staged.ending import ending, later_ending
from lucky_transport_stubs.staged.exchange import Exchange
from lucky_transport_stubs.staged.staging import Staging

__all__ = ["StreamStream", "StreamUnary", "UnaryStream", "UnaryUnary"]

Transform = Callable[[Any], Any] | None


class _Method:
    """What the four arities share. sides: the channels that answer, by transport. arity: as the channel's method."""

    arity = ""

    def __init__(
        self, sides: Mapping[str, Any], staging: Staging, path: str, serialize: Transform, deserialize: Transform
    ) -> None:
        self._sides = sides
        self._staging = staging
        self._path = path
        self._serialize = serialize
        self._deserialize = deserialize

    def _open(self, timeout: float | None, metadata: Metadata | None) -> tuple[Exchange, Any]:
        """Return a new call's exchange, and the authority's callable for this one call."""
        exchange = Exchange(self._staging, self._path, timeout)
        exchange.begins(self.arity, metadata or ())
        make = getattr(self._sides[exchange.decision.authority], self.arity)
        serialize, deserialize = self._serialize, self._deserialize

        def serialized(message: Any) -> Any:
            payload = message if serialize is None else serialize(message)
            exchange.sends(payload)
            return payload

        def deserialized(payload: bytes) -> Any:
            exchange.receives(payload)
            return payload if deserialize is None else deserialize(payload)

        return exchange, make(self._path, serialized, deserialized)

    def _argument(self, exchange: Exchange, request: Any) -> Any:
        return _Requests(request, exchange) if self.arity.startswith("stream") else request


class _OneResponse(_Method):
    """A response is waited for, or a future is had at once."""

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> Any:
        return self.with_call(request, timeout, metadata, *rest, **named)[0]

    def with_call(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> tuple[Any, Any]:
        metadata = _reusable(metadata)
        exchange, method = self._open(timeout, metadata)
        try:
            response, call = method.with_call(self._argument(exchange, request), timeout, metadata, *rest, **named)
        except grpc.RpcError as error:
            exchange.ends(ending(error))
            raise
        exchange.ends(ending(call))
        return response, call

    def future(self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any) -> Any:
        metadata = _reusable(metadata)
        exchange, method = self._open(timeout, metadata)
        call = method.future(self._argument(exchange, request), timeout, metadata, *rest, **named)
        return _watched(call, exchange, self._staging)


class _ManyResponses(_Method):
    """The call itself is the iterator over its responses."""

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> Any:
        metadata = _reusable(metadata)
        exchange, method = self._open(timeout, metadata)
        call = method(self._argument(exchange, request), timeout, metadata, *rest, **named)
        return _watched(call, exchange, self._staging)


class UnaryUnary(_OneResponse, grpc.UnaryUnaryMultiCallable):
    """One request, one response."""

    arity = "unary_unary"


class UnaryStream(_ManyResponses, grpc.UnaryStreamMultiCallable):
    """One request, a stream of responses."""

    arity = "unary_stream"


class StreamUnary(_OneResponse, grpc.StreamUnaryMultiCallable):
    """A stream of requests, one response."""

    arity = "stream_unary"


class StreamStream(_ManyResponses, grpc.StreamStreamMultiCallable):
    """A stream of requests, a stream of responses."""

    arity = "stream_stream"


class _Requests:
    """The caller's iterator, whose end the exchange learns of."""

    def __init__(self, requests: Any, exchange: Exchange) -> None:
        self._requests = requests
        self._exchange = exchange

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._requests)
        except StopIteration:
            self._exchange.sends_no_more()
            raise


def _watched(call: Any, exchange: Exchange, staging: Staging) -> Any:
    """Return the call; the exchange will learn how it ended."""
    read = later_ending(call)

    def over() -> None:  # not here: this may be the very thread that its metadata are to come from
        staging.endings.submit(lambda: exchange.ends(read()))

    if not call.add_callback(over):
        over()
    return call


def _reusable(metadata: Iterable[Any] | None) -> Any:
    """Return metadata that can be sent twice."""
    return metadata if metadata is None else tuple(metadata)
