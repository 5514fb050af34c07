"""Staged channels of both kinds: real gRPC and shared memory behind one, and a router that decides for each call.

A channel with one of them alone is recorded.

`StagedConnection` stands where `lucky_transport_stubs.aio.connection` stands: below the Python half of grpc.aio, so
that interceptors, serializers and call objects are grpc's own, and messages are bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lucky_transport.routing import Count, RoutedTarget
from lucky_transport_stubs.aio.channel import Channel
from lucky_transport_stubs.grpc_inside import ChannelBase, appears_as, compiled_half, working_loop
from lucky_transport_stubs.staged.call import StagedCall
from lucky_transport_stubs.staged.multicallable import BY_ARITY, front_of
from lucky_transport_stubs.staged.router import open_recording_router, open_router
from lucky_transport_stubs.staged.shadows import ChannelShadows
from lucky_transport_stubs.words.arities import ArityChannel
from lucky_transport_stubs.words.options import Options, deciding


def open_channel(
    target: str,
    sides: Mapping[str, Any],
    shadows: Mapping[str, Callable[[], Any]],
    count: Count | None,
    options: Options = None,
) -> StagedChannel:
    """Return a `grpc.Channel` that stands for `sides` ("grpc", "shm"), or for one of them, whose calls are recorded.

    shadows: make the channels for shadows. options: those of the sides. Raises what `open_router` raises.
    """
    return StagedChannel(sides, _routed(target, sides, shadows, count, options))


def open_aio_channel(
    target: str,
    sides: Mapping[str, Any],
    shadows: Mapping[str, Callable[[], Any]],
    count: Count | None,
    interceptors: Sequence[Any] = (),
    options: Options = None,
) -> Any:
    """Return a `grpc.aio.Channel` with these interceptors."""
    connection: Any = StagedConnection(working_loop(), sides, _routed(target, sides, shadows, count, options))
    return Channel(connection, interceptors)


def _routed(
    target: str,
    sides: Mapping[str, Any],
    shadows: Mapping[str, Callable[[], Any]],
    count: Count | None,
    options: Options,
) -> RoutedTarget:
    router = open_router() if len(sides) > 1 else open_recording_router(next(iter(sides)))
    return router.target(target, ChannelShadows(shadows), count, deciding(options))


@appears_as(ChannelBase)
class StagedChannel(ArityChannel):
    """sides: the channels that answer, "grpc" and "shm". How it stands is how the one for unnamed methods stands."""

    def __init__(self, sides: Mapping[str, Any], target: RoutedTarget) -> None:
        self._sides = sides
        self._routed = target
        # The names by which programs know where a channel of grpc leads.
        front = front_of(sides)
        self._channel, self._target = (getattr(front, name, None) for name in ("_channel", "_target"))

    @property
    def _connectivity_state(self) -> Any:
        return self._sides[self._routed.default]._connectivity_state

    def subscribe(self, callback: Callable[[Any], Any], try_to_connect: bool | None = False) -> None:
        self._sides[self._routed.default].subscribe(callback, try_to_connect=try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], Any]) -> None:
        for side in self._sides.values():
            side.unsubscribe(callback)

    def _make(self, arity: str, method: str, serialize: Any, deserialize: Any) -> Any:
        return BY_ARITY[arity](self._sides, self._routed, method, serialize, deserialize)

    def close(self) -> None:
        """End every call under way as CANCELLED; shadows under way have a moment. Idempotent."""
        for side in self._sides.values():
            side.close()
        self._routed.close()


class StagedConnection:
    """sides: the grpc.aio channels that answer, "grpc" and "shm". How it stands: see `StagedChannel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sides: Mapping[str, Any], target: RoutedTarget) -> None:
        self.loop = loop
        self._channels = sides  # their Python halves close the compiled ones when they are dropped
        self._sides = {transport: compiled_half(channel) for transport, channel in sides.items()}
        self._target = target
        self._front = front_of(self._sides)
        self.target = getattr(self._front, "target", None)  # grpcio has it since after 1.60

    def call(
        self, method: bytes, deadline: float | None, credentials: Any, wait_for_ready: bool | None, *rest: Any
    ) -> StagedCall:
        """Return a call that is not started. Raises what the primary's channel raises."""
        timeout = None if deadline is None else deadline - time.time()
        routed = self._target.call(method.decode(), timeout)
        sides = self._sides

        def make(transport: str, may_wait: bool) -> Any:
            return sides[transport].call(method, deadline, credentials, wait_for_ready if may_wait else False, *rest)

        return StagedCall(self, routed, make)

    def get_registered_call_handle(self, method: bytes) -> Any:
        """Return real gRPC's handle of a method; shared memory needs none."""
        return self._front.get_registered_call_handle(method)

    def check_connectivity_state(self, try_to_connect: bool) -> Any:
        """Return how the channel stands; begins to connect when asked to."""
        return self._sides[self._target.default].check_connectivity_state(try_to_connect)

    async def watch_connectivity_state(self, last_observed_state: Any, deadline: float | None) -> bool:
        """Return True once the channel stands otherwise."""
        return await self._sides[self._target.default].watch_connectivity_state(last_observed_state, deadline)

    def closing(self) -> None:
        """Take no new calls; those that are open go on."""
        for side in self._sides.values():
            side.closing()

    def closed(self) -> bool:
        """True after `closing`."""
        return all(side.closed() for side in self._sides.values())

    def close(self) -> None:
        """Let go of both channels; shadows under way have a moment."""
        for side in self._sides.values():
            side.close()
        self._target.close()
