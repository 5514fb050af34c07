"""Compression that is unknown, enabled or disabled, by option, argument and call."""

from __future__ import annotations

from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..both import ASYNCIO, BOTH, THREADS, WAYS, Driver, OverThreads, Read
from ..ends import ARITIES, method_handler, path
from ..records import PATIENCE_S, Record, Way, argument, entries
from ..records import attempt as tried
from ..registry import each

ENABLED = "grpc.compression_enabled_algorithms_bitset"
DEFAULT = "grpc.default_compression_algorithm"
GZIP, DEFLATE, NONE = grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression


async def _metadata(read: Read, context: Any) -> bytes:
    await read()
    return repr(entries(context.invocation_metadata())).encode()


async def _method(
    ends: Driver, arity: str = "unary_unary", *, server: Any = (), channel: Any = (), **arguments: Any
) -> Any:
    handlers = {"Method": method_handler(arity, ends.behaviour(arity, _metadata, b"first"))}
    served = await ends.serve(handlers, options=server)
    return getattr(ends.connect(served.target, channel, **arguments), arity)(path())


#: Those that say what they would be compressed with: see `future_of_a_stream_of_requests`. With a stream of requests
#: grpc.aio ends at times with "Internal error from Core" when the refusal meets a write.
SAYING = {
    THREADS: [way for way in WAYS[THREADS] if (way.arity, way.style) != ("stream_unary", "future")],
    ASYNCIO: [way for way in WAYS[ASYNCIO] if way.arity.startswith("unary")],
}


@each(
    BOTH,
    way=SAYING,
    asked=((GZIP, 1), (DEFLATE, 3)),
)
async def server_has_some_disabled(ends: Driver, way: Way, asked: Any) -> Record:
    return await _asked_of_a_server(ends, way, *asked)


@each(
    BOTH,
    way={driver: ways[:1] for driver, ways in WAYS.items()},
    asked=(
        *((GZIP, 0), (GZIP, 2), (GZIP, 3), (GZIP, 5), (GZIP, 255), (DEFLATE, 1), (DEFLATE, 5)),
        *((DEFLATE, 7), (NONE, 1), (NONE, 0), (None, 1), (True, 1)),
    ),
)
async def server_has_these_disabled(ends: Driver, way: Way, asked: Any) -> Record:
    return await _asked_of_a_server(ends, way, *asked)


async def _asked_of_a_server(ends: Driver, way: Way, compression: Any, enabled: int) -> Record:
    method = await _method(ends, way.arity, server=[(ENABLED, enabled)])
    return await ends.invoke(way, method, compression=compression, metadata=(("mine", "1"),), timeout=PATIENCE_S)


@each(
    BOTH,
    way={driver: [*ways[:1], *ways[3:4]] if driver == THREADS else ways[:1] for driver, ways in WAYS.items()},
    compression={THREADS: (99, -1, "gzip", 3, 1.5), ASYNCIO: (99, "gzip")},
)
async def call_asks_for_what_is_none(ends: Driver, way: Way, compression: Any) -> Record:
    method = await _method(ends, way.arity)
    make = getattr(method, way.style, method)
    return tried(lambda: make(argument(way.arity), compression=compression, timeout=PATIENCE_S) and None)


@each(BOTH, compression=(99, -1, "gzip", 3, 1.5, None, GZIP, "7"), end=("channel", "server"))
async def default_is_what_is_none(ends: Driver, compression: Any, end: str) -> Record:
    if end == "server":
        return tried(lambda: ends.server(compression=compression) and None)
    return tried(lambda: ends.connect(ends.address(), compression=compression) and None)


@each(
    BOTH,
    arity={THREADS: ARITIES[:2], ASYNCIO: ("unary_unary",)},
    said=(
        *((None, None, 0), (None, None, 1), (None, None, 2), (None, None, 99), (None, None, "gzip")),
        *((None, GZIP, 0), (None, GZIP, 1), (NONE, GZIP, 2), (NONE, None, 2), (DEFLATE, GZIP, 0), (DEFLATE, None, -1)),
    ),
)
async def call_goes_before_the_channel(ends: Driver, arity: str, said: Any) -> Record:
    of_call, of_channel, by_option = said
    options = [(DEFAULT, by_option)]
    method = await _method(ends, arity, server=[(ENABLED, 1)], channel=options, compression=of_channel)
    way = next(way for way in WAYS[ends.driver] if way.arity == arity)
    return await ends.invoke(way, method, compression=of_call, timeout=PATIENCE_S)


@each((THREADS,), asked=((0, GZIP), (1, GZIP), (3, DEFLATE), (5, GZIP), (7, DEFLATE), ("all", GZIP)))
async def channel_has_some_disabled(ends: OverThreads, asked: Any) -> Record:
    enabled, compression = asked
    method = await _method(ends, server=[(ENABLED, 1)], channel=[(ENABLED, enabled)])
    return await ends.attempt(method, b"request", compression=compression, timeout=PATIENCE_S)


@each((THREADS,), enabled=(1, 3, 5, 7), by=("option", "argument"))
async def channel_has_its_default_disabled(ends: OverThreads, enabled: int, by: str) -> Record:
    options = [(ENABLED, enabled), *([(DEFAULT, 2)] if by == "option" else [])]
    of_channel = GZIP if by == "argument" else None
    method = await _method(ends, server=[(ENABLED, 1)], channel=options, compression=of_channel)
    return await ends.attempt(method, b"request", timeout=PATIENCE_S)


@each((THREADS,))
async def future_of_a_stream_of_requests(ends: OverThreads) -> Record:
    method = await _method(ends, "stream_unary", server=[(ENABLED, 1)])
    call = ends.start(Way("stream_unary", "future"), method, compression=GZIP, timeout=PATIENCE_S)
    return {"code": await ends.code(call)}


@each((THREADS,))
async def unknown_method_of_a_server_with_some_disabled(ends: OverThreads) -> Record:
    served = await ends.serve({}, options=[(ENABLED, 1)])
    method = ends.connect(served.target).unary_unary(path())
    return await ends.attempt(method, b"", compression=GZIP, timeout=PATIENCE_S)


@each((THREADS,), key=("grpc-encoding", "grpc-internal-encoding-request"), compression=(None, GZIP))
async def handler_does_not_see_it(ends: OverThreads, key: str, compression: Any) -> Record:
    method = await _method(ends, channel=[("grpc.primary_user_agent", "me")])
    sent = ((key, "gzip"), ("mine", "1"))
    return await ends.attempt(method, b"", metadata=sent, compression=compression, timeout=PATIENCE_S)
