"""Finds the router of this process, which decides over which transport each call of a staged channel goes.

Imports nothing heavy: the launcher asks whether there is a router before it runs a program.
"""

from __future__ import annotations

from lucky_transport.errors import ConfigError
from lucky_transport.hookspecs import RouterPlugin
from lucky_transport.registry import load, registry
from lucky_transport.routing import Router

__all__ = ["find_router", "open_router"]


def find_router() -> RouterPlugin:
    """Return the router that would decide. Raises ConfigError when there is none, so that nothing could be staged."""
    info = next(iter(registry().routers.values()), None)
    if info is None:
        raise ConfigError(
            "transport = 'staged', and no plugin offers a router",
            hint="install lucky-transport with its migration kit, or take one of the transports shm, auto, grpc",
        )
    return info


def open_router() -> Router:
    """Return the router of this process. Raises the errors of `find_router`, MissingExtra, BrokenPlugin, and what its
    opening raises.
    """
    info = find_router()
    return load(info.open, owner=f"router {info.name!r}", extra=info.extra)()
