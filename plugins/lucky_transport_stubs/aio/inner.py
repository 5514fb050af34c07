"""What we take from inside grpc.aio. It is in two halves: one in Python, with all of its API, and a compiled one below.

We keep the Python half, so that calls, interceptors, metadata and errors are grpc's own of whichever version is
installed, and stand in for the compiled one: `AioChannel` (`lucky_transport_stubs.aio.connection`) and `_AioCall`
(`lucky_transport_stubs.aio.call`). What the two halves say to each other is the same since 1.60. Nothing else inside
grpc.aio is used, and it is named here only; a test compares the methods.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

from lucky_transport_grpc.runtime import grpc

__all__ = ["EOF", "ChannelHalf", "RpcStatus", "ServerBase", "compiled_half", "working_loop"]

_compiled: Any = importlib.import_module(f"{grpc.__name__}._cython.cygrpc")

#: What reading gives after the last message: `grpc.aio.EOF`, which the type stubs of grpc do not know.
EOF: Any = _compiled.EOF
#: The Python half of a channel; all of it is used but its constructor.
ChannelHalf: Any = importlib.import_module(f"{grpc.__name__}.aio._channel").Channel
#: The class of a server; nothing of it is used.
ServerBase: Any = importlib.import_module(f"{grpc.__name__}.aio._server").Server
#: The compiled halves, for comparison.
CompiledChannel: Any = _compiled.AioChannel
CompiledCall: Any = _compiled._AioCall
#: (code, details, trailing metadata, debug text): how a call ended, as the Python half reads it.
RpcStatus: Any = _compiled.AioRpcStatus
#: Returns the loop that a channel or server belongs to that is made now.
working_loop: Callable[[], asyncio.AbstractEventLoop] = _compiled.get_working_loop


def compiled_half(channel: Any) -> Any:
    """Return the compiled half of a channel of grpc.aio, or what stands in for it in one of ours."""
    return channel._channel
