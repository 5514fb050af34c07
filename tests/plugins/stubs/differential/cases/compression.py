"""Compression as an argument of calls, channels and servers: what is none is refused, and nothing of it is seen."""

from typing import Any

import grpc

from ..both import ASYNCIO, BOTH, THREADS, WAYS, Driver, OverThreads, Read
from ..ends import method_handler, path
from ..records import PATIENCE_S, Record, Way, argument, entries
from ..records import attempt as tried
from ..registry import each

GZIP = grpc.Compression.Gzip


async def _metadata(read: Read, context: Any) -> bytes:
    await read()
    return repr(entries(context.invocation_metadata())).encode()


async def _method(
    ends: Driver, arity: str = "unary_unary", *, server: Any = (), channel: Any = (), **arguments: Any
) -> Any:
    handlers = {"Method": method_handler(arity, ends.behaviour(arity, _metadata, b"first"))}
    served = await ends.serve(handlers, options=server)
    return getattr(ends.connect(served.target, channel, **arguments), arity)(path())


@each((THREADS,))
async def the_server_has_it_disabled(ends: OverThreads) -> Record:
    method = await _method(ends, server=[("grpc.compression_enabled_algorithms_bitset", 1)])
    return await ends.attempt(method, b"", compression=GZIP, timeout=PATIENCE_S)


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


@each((THREADS,), key=("grpc-encoding", "grpc-internal-encoding-request"), compression=(None, GZIP))
async def handler_does_not_see_it(ends: OverThreads, key: str, compression: Any) -> Record:
    method = await _method(ends, channel=[("grpc.primary_user_agent", "me")])
    sent = ((key, "gzip"), ("mine", "1"))
    return await ends.attempt(method, b"", metadata=sent, compression=compression, timeout=PATIENCE_S)
