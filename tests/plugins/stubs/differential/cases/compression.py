"""Compression that is unknown, enabled or disabled, by option, argument and call."""

from __future__ import annotations

from typing import Any

from lucky_transport_grpc.runtime import grpc

from ..ends import ARITIES, Ends, method_handler, path
from ..invoking import WAYS, Way, answering, argument, invoke
from ..records import PATIENCE_S, Record, attempt, entries
from ..registry import case, each

ENABLED = "grpc.compression_enabled_algorithms_bitset"
DEFAULT = "grpc.default_compression_algorithm"
GZIP, DEFLATE, NONE = grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression


def _method(ends: Ends, arity: str = "unary_unary", *, server: Any = (), channel: Any = (), **arguments: Any) -> Any:
    handlers = {"Method": method_handler(arity, answering(arity, lambda requests, context: b"answer"))}
    served = ends.serve(handlers, options=server)
    return getattr(ends.connect(served.target, channel, **arguments), arity)(path())


#: Those that say what they would be compressed with: see `future_of_a_stream_of_requests`.
SAYING = tuple(way for way in WAYS if (way.arity, way.style) != ("stream_unary", "future"))


@each(way=SAYING, compression=(GZIP, DEFLATE, NONE, None, True), enabled=(0, 1, 2, 3, 5, 7, 255))
def server_has_some_disabled(ends: Ends, way: Way, compression: Any, enabled: int) -> Record:
    method = _method(ends, way.arity, server=[(ENABLED, enabled)])
    return invoke(way.style, method, argument(way.arity), compression=compression, timeout=PATIENCE_S)


@each(way=WAYS, compression=(99, -1, "gzip", 3, 1.5))
def call_asks_for_what_is_none(ends: Ends, way: Way, compression: Any) -> Record:
    method = _method(ends, way.arity)
    function = {"with_call": "with_call", "future": "future"}.get(way.style)
    make = getattr(method, function) if function else method
    return attempt(lambda: make(argument(way.arity), compression=compression, timeout=PATIENCE_S) and None)


@each(compression=(99, -1, "gzip", 3, 1.5, None, GZIP, "7"), end=("channel", "server"))
def default_is_what_is_none(ends: Ends, compression: Any, end: str) -> Record:
    if end == "server":
        return attempt(lambda: ends.server(compression=compression) and None)
    return attempt(lambda: ends.connect(ends.address(), compression=compression) and None)


@each(
    arity=ARITIES, of_call=(None, NONE, DEFLATE), of_channel=(None, GZIP), by_option=(0, 1, 2, 99, -1, "gzip", "none")
)
def call_goes_before_the_channel(ends: Ends, arity: str, of_call: Any, of_channel: Any, by_option: Any) -> Record:
    options = [(DEFAULT, by_option)]
    method = _method(ends, arity, server=[(ENABLED, 1)], channel=options, compression=of_channel)
    style = "iterator" if arity.endswith("stream") else "blocking"
    return invoke(style, method, argument(arity), compression=of_call, timeout=PATIENCE_S)


@each(enabled=(0, 1, 3, 5, 7, "all"), compression=(GZIP, DEFLATE))
def channel_has_some_disabled(ends: Ends, enabled: Any, compression: Any) -> Record:
    method = _method(ends, server=[(ENABLED, 1)], channel=[(ENABLED, enabled)])
    return attempt(method, b"request", compression=compression, timeout=PATIENCE_S)


@each(enabled=(1, 3, 5, 7), by=("option", "argument"))
def channel_has_its_default_disabled(ends: Ends, enabled: int, by: str) -> Record:
    options = [(ENABLED, enabled), *([(DEFAULT, 2)] if by == "option" else [])]
    method = _method(ends, server=[(ENABLED, 1)], channel=options, compression=GZIP if by == "argument" else None)
    return attempt(method, b"request", timeout=PATIENCE_S)


@case
def future_of_a_stream_of_requests(ends: Ends) -> Record:
    method = _method(ends, "stream_unary", server=[(ENABLED, 1)])
    call = method.future(argument("stream_unary"), compression=GZIP, timeout=PATIENCE_S)
    return {"code": call.code().name}


@case
def unknown_method_of_a_server_with_some_disabled(ends: Ends) -> Record:
    served = ends.serve({}, options=[(ENABLED, 1)])
    return attempt(ends.connect(served.target).unary_unary(path()), b"", compression=GZIP, timeout=PATIENCE_S)


@each(key=("grpc-encoding", "grpc-internal-encoding-request"), compression=(None, GZIP))
def handler_does_not_see_it(ends: Ends, key: str, compression: Any) -> Record:
    def behaviour(request: bytes, context: Any) -> bytes:
        return repr(entries(context.invocation_metadata())).encode()

    method = ends.unary_unary(behaviour, channel_options=[("grpc.primary_user_agent", "me")])
    sent = ((key, "gzip"), ("mine", "1"))
    return attempt(method, b"", metadata=sent, compression=compression, timeout=PATIENCE_S)
