"""The methods of a stub over a staged channel, one class for each arity.

The primary's own channel makes every object and error that the caller gets; serializers report the messages to the
router. A read that shared memory cannot answer is made again over gRPC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from lucky_transport.routing import LEFT, SO_FAR, RoutedCall, RoutedTarget
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import MULTI_CALLABLES, appears_as
from lucky_transport_stubs.staged.ending import ending, falls_back, is_hidden, later_ending

Transform = Callable[[Any], Any] | None


def front_of(sides: Mapping[str, Any]) -> Any:
    """Return what programs find in the place of a channel of grpc: gRPC's own, else the only one."""
    return sides["grpc"] if "grpc" in sides else next(iter(sides.values()))


class _Method:
    """What the four arities share. sides: the channels that answer, by transport. arity: as the channel's method."""

    arity = ""

    def __init__(
        self, sides: Mapping[str, Any], target: RoutedTarget, path: str, serialize: Transform, deserialize: Transform
    ) -> None:
        self._sides = sides
        self._target = target
        self._path = path
        # `_channel`, `_method`: programs know them from grpc
        self._channel = getattr(front_of(sides), "_channel", None)
        self._method = path.encode()
        self._request_serializer = serialize
        self._response_deserializer = deserialize

    def _begin(self, request: Any, timeout: float | None, metadata: Any, rest: Any, named: Any) -> _Invocation:
        """Return the call as its caller asked for it, decided and not yet made."""
        metadata = _reusable(metadata)
        routed = self._target.call(self._path, timeout)
        invocation = _Invocation(self, routed, request, timeout, metadata, rest, named)
        routed.begins(self.arity, metadata or ())
        return invocation

    def callable_for(self, routed: RoutedCall) -> Any:
        """Return the primary's callable for one call, with serializers that report to the router."""
        make = getattr(self._sides[routed.decision.primary], self.arity)
        serialize, deserialize = self._request_serializer, self._response_deserializer

        def serialized(message: Any) -> Any:
            payload = message if serialize is None else serialize(message)
            if isinstance(payload, bytes):  # gRPC refuses what is no bytes
                routed.sends(payload)
            return payload

        def deserialized(payload: bytes) -> Any:
            routed.receives(payload)
            return payload if deserialize is None else deserialize(payload)

        return make(self._path, serialized, deserialized)


class _Invocation:
    """A call as its caller asked for it: made over the primary, and again when gRPC is to answer instead."""

    def __init__(
        self, method: _Method, routed: RoutedCall, request: Any, timeout: float | None, metadata: Any, *options: Any
    ) -> None:
        self.routed = routed
        self._method = method
        self._request = _Requests(request, routed) if method.arity.startswith("stream") else request
        self._metadata = metadata
        self._rest, self._named = options
        self._until = None if timeout is None else time.monotonic() + timeout

    def make(self, how: str) -> Any:
        """Return what the callable's `how` ("with_call", "future", "__call__") does."""
        rest, named = self._rest, self._named
        if self.routed.can_fall_back:
            rest, named = _at_once(rest, named)
        left_s = None if self._until is None else self._until - time.monotonic()
        method = self._method.callable_for(self.routed)
        try:
            return getattr(method, how)(self._request, left_s, self._metadata, *rest, **named)
        except grpc.RpcError:
            raise
        except BaseException:
            self.routed.left()
            raise

    def begun(self, how: str) -> Any:
        """Return the call under way; a read is made again where its engine is not there."""
        call = self.make(how)
        if self.routed.can_fall_back and not call.is_active() and falls_back(self.routed, ending(call)):
            call = self.make(how)
        return call


class _OneResponse(_Method):
    """The caller waits for the response: a unary read is made again when the engine is unreachable or dies. A future's
    is made again when the engine is unreachable.
    """

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> Any:
        return self.with_call(request, timeout, metadata, *rest, **named)[0]

    def with_call(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> tuple[Any, Any]:
        invocation = self._begin(request, timeout, metadata, rest, named)
        routed = invocation.routed
        while True:
            try:
                response, call = invocation.make("with_call")
            except grpc.RpcError as error:
                found = ending(error)
                if not falls_back(routed, found):
                    routed.ends(found)
                    raise
            else:
                routed.ends(ending(call))
                return response, call

    def future(self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any) -> Any:
        invocation = self._begin(request, timeout, metadata, rest, named)
        return _watched(invocation.begun("future"), invocation.routed, self._target)


class _ManyResponses(_Method):
    """The call itself is the iterator over its responses. A read is made again when it cannot be opened."""

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *rest: Any, **named: Any
    ) -> Any:
        invocation = self._begin(request, timeout, metadata, rest, named)
        return _watched(invocation.begun("__call__"), invocation.routed, self._target)


@appears_as(MULTI_CALLABLES["unary_unary"])
class UnaryUnary(_OneResponse, MULTI_CALLABLES["unary_unary"]):
    """One request, one response."""

    arity = "unary_unary"


@appears_as(MULTI_CALLABLES["unary_stream"])
class UnaryStream(_ManyResponses, MULTI_CALLABLES["unary_stream"]):
    """One request, a stream of responses."""

    arity = "unary_stream"


@appears_as(MULTI_CALLABLES["stream_unary"])
class StreamUnary(_OneResponse, MULTI_CALLABLES["stream_unary"]):
    """A stream of requests, one response."""

    arity = "stream_unary"


@appears_as(MULTI_CALLABLES["stream_stream"])
class StreamStream(_ManyResponses, MULTI_CALLABLES["stream_stream"]):
    """A stream of requests, a stream of responses."""

    arity = "stream_stream"


#: Arity -> the class of its callables.
BY_ARITY = {kind.arity: kind for kind in (UnaryUnary, UnaryStream, StreamUnary, StreamStream)}


class _Requests:
    """The caller's iterator, whose end the routed learns of."""

    def __init__(self, requests: Any, routed: RoutedCall) -> None:
        self._requests = requests
        self._routed = routed

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._requests)
        except StopIteration:
            self._routed.sends_no_more()
            raise


def _watched(call: Any, routed: RoutedCall, target: RoutedTarget) -> Any:
    """Return the call, whose end will be reported to `routed`."""
    if is_hidden(call):
        return _read_through(call, routed)
    routed.ends_as(later_ending(call))
    over = partial(_end_later, routed, target)
    if not call.add_callback(over):
        over()
    return call


def _read_through(items: Iterable[Any], routed: RoutedCall) -> Iterator[Any]:
    """Yield the items of a stream whose call is hidden; of its end only the items are compared."""
    found = LEFT
    try:
        yield from items
        found = SO_FAR
    except grpc.RpcError as error:
        found = ending(error)
        raise
    finally:
        routed.ends(found)


def _end_later(routed: RoutedCall, target: RoutedTarget) -> None:
    """Report the end to `routed`, on another thread: this one may be that which brings the metadata."""
    routed.left()
    target.end_later(routed)


def _at_once(rest: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's further arguments (credentials, wait_for_ready, compression) with `wait_for_ready` off."""
    if len(rest) > 1:
        return (rest[0], False, *rest[2:]), dict(named)
    return rest, {**named, "wait_for_ready": False}


def _reusable(metadata: Iterable[Any] | None) -> Any:
    """Return metadata that can be sent twice."""
    return metadata if metadata is None else tuple(metadata)
