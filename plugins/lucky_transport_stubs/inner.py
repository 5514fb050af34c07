"""What we take from inside grpc's Python code for threads: classes without a public name.

Programs test for them, name them in `except` clauses and print them. Ours are subclasses that override all that is
public, and use nothing of what they inherit; the names have been the same since before 1.60.
"""

from __future__ import annotations

import importlib
from typing import Any

from lucky_transport_grpc.runtime import grpc

__all__ = [
    "MULTI_CALLABLES",
    "ChannelBase",
    "HandlerCallDetails",
    "InactiveRpcError",
    "Rendezvous",
    "RpcState",
    "ServerBase",
    "ServerStage",
    "ServicerContextBase",
    "shown_as_grpcs",
]

_channel: Any = importlib.import_module(f"{grpc.__name__}._channel")
_server: Any = importlib.import_module(f"{grpc.__name__}._server")

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


def shown_as_grpcs(self: object) -> str:
    """Return what an object of the class of grpc that `self` stands for shows: a `__repr__`."""
    kind = next(kind for kind in type(self).__mro__ if kind.__module__.startswith(f"{grpc.__name__}."))
    return f"<{kind.__module__}.{kind.__qualname__} object at {id(self):#x}>"
