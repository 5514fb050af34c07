"""gRPC programs over shared memory: a drop-in `grpc.Channel` and `grpc.Server`, for threads and for asyncio.

    channel = lucky_transport_stubs.channel("shm://name")           # where grpc.insecure_channel("host:port") was
    server = lucky_transport_stubs.server(ThreadPoolExecutor())     # where grpc.server(...) was
    server.add_insecure_port("shm://name")

Importing this package imports neither its modules nor grpc.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lucky_transport.handler_options import inline
    from lucky_transport_stubs.aio.channel import aio_channel
    from lucky_transport_stubs.aio.server import aio_server
    from lucky_transport_stubs.client.channel import channel
    from lucky_transport_stubs.server.server import server

__all__ = ["aio_channel", "aio_server", "channel", "inline", "server"]

_HOMES = {
    "aio_channel": "lucky_transport_stubs.aio.channel",
    "aio_server": "lucky_transport_stubs.aio.server",
    "channel": "lucky_transport_stubs.client.channel",
    "inline": "lucky_transport.handler_options",
    "server": "lucky_transport_stubs.server.server",
}


class _Package(ModuleType):
    """The package itself. Importing a module sets it here, unless a function of this package has its name."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        setattr(self, name, getattr(importlib.import_module(_HOMES[name]), name))
        return vars(self)[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
