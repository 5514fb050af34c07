"""Makes staged channels of the four channels that each is made of.

Shadows are asked through blocking channels, also in programs of asyncio: they are no business of its loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lucky_transport_stubs.staged.channel import StagedChannel
from lucky_transport_stubs.staged.shadows import ChannelShadows, Opener
from lucky_transport_stubs.staged.staging import CounterSource, Staging
from lucky_transport_stubs.staged.staging_runtime import staging_runtime

__all__ = ["open_aio_channel", "open_channel"]


def open_channel(
    target: str, sides: Mapping[str, Any], shadows: Mapping[str, Opener], counter_of: CounterSource | None
) -> StagedChannel:
    """Return a `grpc.Channel` that stands for `sides` ("grpc", "shm"). Raises what `staging_runtime` raises."""
    return StagedChannel(sides, _staging(target, shadows, counter_of))


def open_aio_channel(
    target: str,
    sides: Mapping[str, Any],
    shadows: Mapping[str, Opener],
    counter_of: CounterSource | None,
    interceptors: Sequence[Any] = (),
) -> Any:
    """Return a `grpc.aio.Channel` with these interceptors."""
    from lucky_transport_stubs.aio.channel import Channel
    from lucky_transport_stubs.aio.inner import working_loop
    from lucky_transport_stubs.staged.connection import StagedConnection

    connection: Any = StagedConnection(working_loop(), sides, _staging(target, shadows, counter_of))
    return Channel(connection, interceptors)


def _staging(target: str, shadows: Mapping[str, Opener], counter_of: CounterSource | None) -> Staging:
    behind = staging_runtime()
    return Staging(
        behind.board, ChannelShadows(behind.workers, shadows), behind.world(target), behind.endings, counter_of
    )
