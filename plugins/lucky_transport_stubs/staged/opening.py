"""Makes staged channels: the router of this process decides over which transport each call goes.

Imports nothing heavy: the launcher asks whether there is a router before it runs a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lucky_transport.errors import ConfigError
from lucky_transport.hookspecs import RouterPlugin
from lucky_transport.registry import load, registry
from lucky_transport.routing import Count, RoutedTarget, Router

if TYPE_CHECKING:
    from lucky_transport_stubs.staged.channel import StagedChannel

__all__ = ["find_router", "open_aio_channel", "open_channel"]


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


def open_channel(
    target: str, sides: Mapping[str, Any], shadows: Mapping[str, Callable[[], Any]], count: Count | None
) -> StagedChannel:
    """Return a `grpc.Channel` that stands for `sides` ("grpc", "shm").

    shadows: make the channels for shadows. Raises what `open_router` raises.
    """
    from lucky_transport_stubs.staged.channel import StagedChannel

    return StagedChannel(sides, _routed(target, shadows, count))


def open_aio_channel(
    target: str,
    sides: Mapping[str, Any],
    shadows: Mapping[str, Callable[[], Any]],
    count: Count | None,
    interceptors: Sequence[Any] = (),
) -> Any:
    """Return a `grpc.aio.Channel` with these interceptors."""
    from lucky_transport_stubs.aio.channel import Channel
    from lucky_transport_stubs.grpc_inside import working_loop
    from lucky_transport_stubs.staged.connection import StagedConnection

    connection: Any = StagedConnection(working_loop(), sides, _routed(target, shadows, count))
    return Channel(connection, interceptors)


def _routed(target: str, shadows: Mapping[str, Callable[[], Any]], count: Count | None) -> RoutedTarget:
    from lucky_transport_stubs.staged.shadows import ChannelShadows

    return open_router().target(target, ChannelShadows(shadows), count)
