"""Finds the routers of this process: what decides for each call of a staged channel, and what records plain channels.

Imports nothing heavy: the launcher asks whether there is a router before it runs a program.
"""

from __future__ import annotations

from lucky_transport.errors import ConfigError
from lucky_transport.hookspecs import RouterPlugin
from lucky_transport.registry import load, registry
from lucky_transport.routing import Router


def find_router(wanted: str = "transport = 'staged'") -> RouterPlugin:
    """Return the router that would decide, or record. Raises ConfigError when there is none, which names what is
    wanted.
    """
    info = next(iter(registry().routers.values()), None)
    if info is None:
        raise ConfigError(
            f"{wanted}, and no plugin offers a router",
            hint="install lucky-transport with its migration kit, or take one of the transports shm, auto, grpc"
            " without a recording",
        )
    return info


def open_router() -> Router:
    """Return the router of this process. Raises the errors of `find_router`, MissingExtra, BrokenPlugin, and what its
    opening raises.
    """
    info = find_router()
    return load(info.open, owner=f"router {info.name!r}", extra=info.extra)()


def open_recording_router(transport: str) -> Router:
    """Return the router of this process that records calls over one transport. Raises the errors of `open_router`."""
    info = find_router("a recording is asked for")
    return load(info.record, owner=f"router {info.name!r}", extra=info.extra)(transport)
