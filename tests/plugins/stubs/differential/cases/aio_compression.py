"""Compression over asyncio that is unknown, enabled or disabled."""

from __future__ import annotations

from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..aio_ends import AioEnds
from ..aio_records import WAYS, answering, attempt, invoke
from ..ends import method_handler, path
from ..invoking import Way
from ..records import PATIENCE_S, Record, entries
from ..records import attempt as tried
from ..registry import each

ENABLED = "grpc.compression_enabled_algorithms_bitset"
GZIP, DEFLATE, NONE = grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression


async def _metadata(requests: bytes, context: Any) -> bytes:
    return repr(entries(context.invocation_metadata())).encode()


async def _method(ends: AioEnds, arity: str, enabled: int, **arguments: Any) -> Any:
    handlers = {"Method": method_handler(arity, answering(arity, _metadata))}
    served = await ends.serve(handlers, options=[(ENABLED, enabled)])
    return getattr(ends.connect(served.target, **arguments), arity)(path())


#: With a stream of requests grpc.aio ends at times with "Internal error from Core" when the refusal meets a write.
UNARY = tuple(way for way in WAYS if not way.arity.startswith("stream"))


@each(way=UNARY, compression=(GZIP, DEFLATE, NONE, None), enabled=(1, 3, 7))
async def server_has_some_disabled(ends: AioEnds, way: Way, compression: Any, enabled: int) -> Record:
    method = await _method(ends, way.arity, enabled)
    return await invoke(way, method, compression=compression, metadata=(("mine", "1"),), timeout=PATIENCE_S)


@each(of_call=(None, NONE, DEFLATE), of_channel=(None, GZIP))
async def call_goes_before_the_channel(ends: AioEnds, of_call: Any, of_channel: Any) -> Record:
    method = await _method(ends, "unary_unary", 1, compression=of_channel)
    return await attempt(method(b"request", compression=of_call, timeout=PATIENCE_S))


@each(compression=(99, "gzip"))
async def call_asks_for_what_is_none(ends: AioEnds, compression: Any) -> Record:
    method = await _method(ends, "unary_unary", 7)
    return tried(lambda: method(b"request", compression=compression, timeout=PATIENCE_S))


@each(compression=(99, -1, "gzip", 3, 1.5, None, GZIP), end=("channel", "server"))
async def default_is_what_is_none(ends: AioEnds, compression: Any, end: str) -> Record:
    if end == "server":
        return tried(lambda: ends.server(compression=compression) and None)
    return tried(lambda: ends.connect(ends.address(), compression=compression) and None)
