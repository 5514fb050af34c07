"""Message sizes: none, large, exactly at a limit and one byte beyond it, in each direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ends import ARITIES, Ends, Options
from ..invoking import WAYS, Way, answering, invoke
from ..records import Record, attempt, taken
from ..registry import case, each

DEFAULT = 4 * 1024 * 1024
RECEIVE = "grpc.max_receive_message_length"
SEND = "grpc.max_send_message_length"


def _blob(size: int) -> bytes:
    """Return bytes that show when a piece of them is lost, doubled or moved."""
    return (b"0123456789abcde" * (size // 15 + 1))[:size]


def _answer_size(request: bytes, _: Any) -> bytes:
    return _blob(int(request))


def _size(request: bytes, _: Any) -> bytes:
    return f"{len(request)} {request == _blob(len(request))}".encode()


def _sized(seen: Record) -> Record:
    """Put the size of a large response in the place of it."""
    if isinstance(seen.get("value"), bytes) and len(seen["value"]) > 100:
        seen["value"] = _size(seen["value"], None)
    return seen


def _ask(arity: str, *sizes: int) -> Any:
    requests = [_blob(size) for size in sizes]
    return iter(requests) if arity.startswith("stream") else requests[0]


@each(way=WAYS)
def nothing_at_all(ends: Ends, way: Way) -> Record:
    method = ends.method(way.arity, answering(way.arity, lambda request, _: request))
    return invoke(way.style, method, iter((b"", b"")) if way.arity.startswith("stream") else b"")


@each(size=(1, 65_535, 65_536, 65_537, 271_828, 1_000_000, DEFAULT))
def a_request_of(ends: Ends, size: int) -> Record:
    return attempt(ends.unary_unary(_size), _blob(size))


@each(size=(1, 65_535, 65_536, 65_537, 314_159, 1_000_000, DEFAULT))
def a_response_of(ends: Ends, size: int) -> Record:
    return _sized(attempt(ends.unary_unary(_answer_size), str(size).encode()))


@each(arity=ARITIES)
def a_request_beyond_the_default(ends: Ends, arity: str) -> Record:
    method = ends.method(arity, answering(arity, _size))
    style = "iterator" if arity.endswith("stream") else "blocking"
    return invoke(style, method, _ask(arity, DEFAULT + 1))


@each(arity=ARITIES)
def a_response_beyond_the_default(ends: Ends, arity: str) -> Record:
    method = ends.method(arity, answering(arity, lambda request, _: _blob(DEFAULT + 1)))
    style = "iterator" if arity.endswith("stream") else "blocking"
    return invoke(style, method, _ask(arity, 1))


def _limited(ends: Ends, *, request: int, response: int, server: Options = (), client: Options = ()) -> Record:
    method = ends.unary_unary(lambda _, context: _blob(response), options=server, channel_options=client)
    return _sized(attempt(method, _blob(request)))


@each(size=(1_000, 1_001))
def the_server_receives_at_most(ends: Ends, size: int) -> Record:
    return _limited(ends, request=size, response=1, server=((RECEIVE, 1_000),))


@each(size=(1_000, 1_001))
def the_client_receives_at_most(ends: Ends, size: int) -> Record:
    return _limited(ends, request=1, response=size, client=((RECEIVE, 1_000),))


@each(size=(1_000, 1_001))
def the_client_sends_at_most(ends: Ends, size: int) -> Record:
    return _limited(ends, request=size, response=1, client=((SEND, 1_000),))


@each(style=("future", "iterator", "requests"))
def a_call_that_goes_on_sends_at_most(ends: Ends, style: str) -> Record:
    options: Options = ((SEND, 10),)
    if style == "requests":
        return attempt(
            ends.stream_unary(lambda requests, context: b"".join(requests), channel_options=options),
            _ask("stream_unary", 10, 11),
        )
    if style == "iterator":
        method = ends.unary_stream(lambda request, context: iter((request,)), channel_options=options)
        return attempt(lambda: taken(method(_blob(11))))
    return attempt(lambda: ends.unary_unary(_size, channel_options=options).future(_blob(11)).result())


@each(size=(1_000, 1_001))
def the_server_sends_at_most(ends: Ends, size: int) -> Record:
    return _limited(ends, request=1, response=size, server=((SEND, 1_000),))


@case
def no_limit_at_all(ends: Ends) -> Record:
    unlimited = ((RECEIVE, -1),)
    size = 3 * DEFAULT + 5
    return _limited(ends, request=size, response=size, server=unlimited, client=unlimited)


@case
def an_empty_message_where_nothing_is_allowed(ends: Ends) -> Record:
    return _limited(ends, request=0, response=0, server=((RECEIVE, 0),), client=((RECEIVE, 0),))


@each(side=("server", "client"))
def a_stream_breaks_at_the_message_that_is_too_large(ends: Ends, side: str) -> Record:
    limit = ((RECEIVE, 1_000),)

    def behaviour(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield from requests

    method = ends.stream_stream(
        behaviour,
        options=limit if side == "server" else (),
        channel_options=limit if side == "client" else (),
    )
    seen = taken(method(_blob(size) for size in (10, 1_000, 1_001, 10)))
    # How many echoes got through before the end is a race.
    return {"ended": seen["ended"], "whole": [len(item) for item in seen["items"]][:1] in ([], [10])}


@case
def a_stream_goes_on_after_large_messages(ends: Ends) -> Record:
    sizes = (DEFAULT, 1, DEFAULT, 0, 100_000)
    method = ends.stream_stream(lambda requests, context: (_size(request, context) for request in requests))
    return taken(method(_blob(size) for size in sizes))


@each(limits=((10, 9000), (9000, 10), ("ten", 10)))
def the_first_of_two_limits_counts(ends: Ends, limits: tuple[Any, Any]) -> Record:
    options = [("grpc.max_receive_message_length", limit) for limit in limits]
    method = ends.unary_unary(lambda request, context: request, channel_options=options)
    seen = attempt(method, b"x" * 2000, timeout=10.0)
    return {"kind": list(seen), "code": seen.get("raised", {}).get("code")}
