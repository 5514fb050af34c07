"""A `grpc.Channel` in front of two: real gRPC, and shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.routing import RoutedTarget
from lucky_transport_stubs.staged.multicallable import BY_ARITY
from lucky_transport_stubs.words.arities import ArityChannel

__all__ = ["StagedChannel"]


class StagedChannel(ArityChannel):
    """sides: the channels that answer, "grpc" and "shm". How it stands is how the one for unnamed methods stands."""

    def __init__(self, sides: Mapping[str, Any], target: RoutedTarget) -> None:
        self._sides = sides
        self._routed = target
        # The names by which programs know where a channel of grpc leads.
        self._channel, self._target = (getattr(sides["grpc"], name, None) for name in ("_channel", "_target"))

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
