"""Message sizes: none, large, exactly at a limit and one byte beyond it, in each direction."""

from collections.abc import Iterator
from typing import Any

from ..both import ASYNCIO, BOTH, THREADS, Driver, Read
from ..ends import ARITIES, Ends, Options
from ..records import Record, attempt, taken
from ..registry import case, each

DEFAULT = 4 * 1024 * 1024
RECEIVE = "grpc.max_receive_message_length"
SEND = "grpc.max_send_message_length"


def _blob(size: int) -> bytes:
    """Return bytes that show when a piece of them is lost, doubled or moved."""
    return (b"0123456789abcde" * (size // 15 + 1))[:size]


def _size(request: bytes) -> bytes:
    return f"{len(request)} {request == _blob(len(request))}".encode()


async def _exchange(
    ends: Driver, arity: str, request: int, response: int, *, server: Options = (), client: Options = ()
) -> Record:
    """Return what comes of messages of these sizes, by what they say of themselves."""
    sizes: list[bytes] = []

    async def answer(read: Read, context: Any) -> bytes:
        sizes.append(_size(await read()))
        return _blob(response)

    method = await ends.method(arity, ends.behaviour(arity, answer), options=server, channel_options=client)
    sent = iter((_blob(request),)) if arity.startswith("stream") else _blob(request)
    seen = await (ends.attempt if arity.endswith("unary") else ends.taken)(method, sent)
    got = [seen.pop("value")] if "value" in seen else seen.pop("items", [])
    # What a handler reads of a call that breaks off is a race.
    return {**seen, "responses": [_size(one) for one in got], "requests": sizes if got else None}


@each(BOTH, arity=ARITIES, size=(0, 1, 65_535, 65_536, 65_537, 271_828, 1_000_000, DEFAULT))
async def a_message_of(ends: Driver, arity: str, size: int) -> Record:
    return await _exchange(ends, arity, size, size)


#: Refused in a write grpc.aio sometimes calls it an internal error of its own.
SAFE = {THREADS: ARITIES, ASYNCIO: ARITIES[:2]}


@each(BOTH, arity=SAFE, side=("request", "response"))
async def a_message_beyond_the_default(ends: Driver, arity: str, side: str) -> Record:
    sizes = (DEFAULT + 1, 1) if side == "request" else (1, DEFAULT + 1)
    return await _exchange(ends, arity, *sizes)


@each(BOTH, arity=SAFE, side=("server", "client"), limited=("receives", "sends"))
async def a_side_is_limited(ends: Driver, arity: str, side: str, limited: str) -> Record:
    """A request, or a response, just at the limit and one beyond it."""
    limits: Any = {side: ((RECEIVE if limited == "receives" else SEND, 1_000),)}
    is_request = (side == "server") == (limited == "receives")
    sizes = [(size, 1) if is_request else (1, size) for size in (1_000, 1_001)]
    at, beyond = [await _exchange(ends, arity, *pair, **limits) for pair in sizes]
    return {"at": at, "beyond": beyond}


@each(BOTH, arity=ARITIES)
async def no_limit_at_all(ends: Driver, arity: str) -> Record:
    unlimited, size = ((RECEIVE, -1),), 3 * DEFAULT + 5
    return await _exchange(ends, arity, size, size, server=unlimited, client=unlimited)


@each(BOTH)
async def an_empty_message_where_nothing_is_allowed(ends: Driver) -> Record:
    return await _exchange(ends, "unary_unary", 0, 0, server=((RECEIVE, 0),), client=((RECEIVE, 0),))


@each(BOTH)
async def a_byte_where_none_may_be_sent(ends: Driver) -> Record:
    return await _exchange(ends, "unary_unary", 1, 0, client=((SEND, 0),))


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
    method = ends.stream_stream(lambda requests, context: (_size(request) for request in requests))
    return taken(method(_blob(size) for size in sizes))


@each(limits=((10, 9000), (9000, 10), ("ten", 10)))
def the_first_of_two_limits_counts(ends: Ends, limits: tuple[Any, Any]) -> Record:
    options = [("grpc.max_receive_message_length", limit) for limit in limits]
    method = ends.unary_unary(lambda request, context: request, channel_options=options)
    seen = attempt(method, b"x" * 2000, timeout=10.0)
    return {"kind": list(seen), "code": seen.get("raised", {}).get("code")}
