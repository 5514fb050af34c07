"""All that is taken from inside grpc: what has no public name. No other module names anything of grpc that is private.

Threads: classes that programs test for, name in `except` clauses and print. Ours are subclasses that override all that
is public, and use nothing of what they inherit; the names have been the same since before 1.60.

asyncio: grpc.aio is in two halves, one in Python, with all of its API, and a compiled one below. We keep the Python
half, so that calls, interceptors, metadata and errors are grpc's own of whichever version is installed, and stand in
for the compiled one: `AioChannel` (`lucky_transport_stubs.aio.connection`) and `_AioCall`
(`lucky_transport_stubs.aio.call`). What the halves say to each other is the same since 1.60; a test compares the
methods.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from lucky_transport_grpc.runtime import grpc

_Kind = TypeVar("_Kind")
_channel: Any = importlib.import_module(f"{grpc.__name__}._channel")
_server: Any = importlib.import_module(f"{grpc.__name__}._server")
#: The compiled module. Its classes of credentials are read where credentials are.
compiled: Any = importlib.import_module(f"{grpc.__name__}._cython.cygrpc")

#: The class of the pairs with `key` and `value` that programs get as metadata.
Metadatum: Any = compiled._Metadatum
#: The plugin that `grpc.access_token_call_credentials` makes.
AccessToken: Any = importlib.import_module(f"{grpc.__name__}._auth").AccessTokenAuthMetadataPlugin

# -- threads ----------------------------------------------------------------------------------------------------------

ChannelBase: Any = _channel.Channel
#: Arity -> the class of a stub's methods.
MULTI_CALLABLES: dict[str, Any] = {
    arity: getattr(_channel, f"_{arity.title().replace('_', '')}MultiCallable")
    for arity in ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
}
#: The class of calls under way, of futures and of iterators over responses; that of what a blocking call raises; and
#: that of the `_state` of both.
Rendezvous: Any = _channel._MultiThreadedRendezvous
InactiveRpcError: Any = _channel._InactiveRpcError
RpcState: Any = _channel._RPCState

ServerBase: Any = _server._Server
ServerStage: Any = _server._ServerStage
ServicerContextBase: Any = _server._Context
#: What generic handlers and interceptors get of a call: its path and its metadata.
HandlerCallDetails: Any = _server._HandlerCallDetails
RequestIterator: Any = _server._RequestIterator

# -- asyncio ----------------------------------------------------------------------------------------------------------

#: The Python half of a channel; all of it is used but its constructor and, for speed, what calls a unary method.
AioChannelBase: Any = importlib.import_module(f"{grpc.__name__}.aio._channel").Channel
#: A channel that closes ends the calls that it was told of; older ones look for tasks of calls.
AIO_CHANNELS_KNOW_CALLS = hasattr(AioChannelBase, "_register_call")
AioUnaryUnary: Any = importlib.import_module(f"{grpc.__name__}.aio._channel").UnaryUnaryMultiCallable
#: A unary call, and the constructor of all calls.
AioUnaryUnaryCall: Any = importlib.import_module(f"{grpc.__name__}.aio._call").UnaryUnaryCall
AioCall: Any = importlib.import_module(f"{grpc.__name__}.aio._call").Call
#: Message and serializer -> bytes, bytes and deserializer -> message; None, and a record in the log, where that fails.
serialize: Callable[[Any, Any], Any] = importlib.import_module(f"{grpc.__name__}._common").serialize
deserialize: Callable[[Any, Any], Any] = importlib.import_module(f"{grpc.__name__}._common").deserialize
#: The classes of contexts, of handlers in the loop and of those in threads; only their names are used.
AioServicerContext: Any = compiled._ServicerContext
AioSyncServicerContext: Any = compiled._SyncServicerContext
#: The class of a server; nothing of it is used.
AioServerBase: Any = importlib.import_module(f"{grpc.__name__}.aio._server").Server
#: What reading gives after the last message: `grpc.aio.EOF`, which the type stubs of grpc do not know.
EOF: Any = compiled.EOF
#: (code, details, trailing metadata, debug text): how a call ended, as the Python half reads it.
RpcStatus: Any = compiled.AioRpcStatus
#: Returns the loop that a channel or server belongs to that is made now.
working_loop: Callable[[], asyncio.AbstractEventLoop] = compiled.get_working_loop


def compiled_half(channel: Any) -> Any:
    """Return the compiled half of a channel of grpc.aio, or what stands in for it in one of ours."""
    return channel._channel


def appears_as(kind: type) -> Callable[[type[_Kind]], type[_Kind]]:
    """Return a decorator: the class has the name of `kind`, a class of grpc, in texts, tracebacks and logs."""

    def named(ours: type[_Kind]) -> type[_Kind]:
        ours.__module__, ours.__name__, ours.__qualname__ = kind.__module__, kind.__name__, kind.__name__
        return ours

    return named
