"""Two compiled channels of grpc.aio as one: each call goes to the one that the router decides for.

It stands where `lucky_transport_stubs.aio.connection` stands: below the Python half of grpc.aio, so that interceptors,
serializers and call objects are grpc's own, and messages are bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from lucky_transport.routing import RoutedTarget
from lucky_transport_stubs.grpc_inside import compiled_half
from lucky_transport_stubs.staged.call import StagedCall

__all__ = ["StagedConnection"]


class StagedConnection:
    """sides: the grpc.aio channels that answer, "grpc" and "shm". How it stands: see `StagedChannel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sides: Mapping[str, Any], target: RoutedTarget) -> None:
        self.loop = loop
        self._channels = sides  # their Python halves close the compiled ones when they are dropped
        self._sides = {transport: compiled_half(channel) for transport, channel in sides.items()}
        self._target = target
        self.target = getattr(self._sides["grpc"], "target", None)  # grpcio has it since after 1.60

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
        return self._sides["grpc"].get_registered_call_handle(method)

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
