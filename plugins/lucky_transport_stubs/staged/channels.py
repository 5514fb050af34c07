"""Staged channels of both kinds: real gRPC and shared memory behind one, and a router that decides for each call.

A channel with one of them alone is recorded.

`StagedConnection` stands where `lucky_transport_stubs.aio.connection` stands: below the Python half of grpc.aio, so
that interceptors, serializers and call objects are grpc's own, and messages are bytes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lucky_transport.fork import on_child
from lucky_transport.routing import SO_FAR, Count, Ending, Received, RoutedCall, RoutedTarget
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.channel import Channel
from lucky_transport_stubs.grpc_inside import ChannelBase, appears_as, compiled_half, working_loop
from lucky_transport_stubs.staged.call import StagedCall
from lucky_transport_stubs.staged.ending import ending, is_hidden
from lucky_transport_stubs.staged.multicallable import BY_ARITY, front_of
from lucky_transport_stubs.staged.router import open_recording_router, open_router
from lucky_transport_stubs.words.arities import ArityChannel
from lucky_transport_stubs.words.options import Options, deciding

#: Makes a channel of grpc's blocking kind.
Opener = Callable[[], Any]


class ChannelShadows:
    """A `lucky_transport.routing.ShadowCaller`; `openers` make its channels, by the transport's name."""

    def __init__(self, openers: Mapping[str, Opener]) -> None:
        self._openers = openers
        self._is_closed = False
        self._begin()
        on_child(self._begin)  # the parent's channels are left alone

    def ask(self, call: RoutedCall, transport: str, timeout_s: float, received: Received) -> Ending:
        method = getattr(self._channel(transport), call.arity)(call.method)
        request = iter(call.requests) if call.arity.startswith("stream") else call.requests[0]
        if call.arity.endswith("stream"):
            return _read(method(request, timeout=timeout_s, metadata=call.metadata), call, received)
        try:
            response, made = method.with_call(request, timeout=timeout_s, metadata=call.metadata)
            received.add(response)
        except grpc.RpcError as error:
            made = error
        return ending(made)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[str, Any] = {}

    def _channel(self, transport: str) -> Any:
        with self._lock:
            if self._is_closed:
                raise ValueError("the channel is closed")
            if transport not in self._channels:
                self._channels[transport] = self._openers[transport]()
            return self._channels[transport]


def _read(made: Any, call: RoutedCall, received: Received) -> Ending:
    """Read a stream to its end, or as far as it can be compared."""
    try:
        for item in made:
            received.add(item)
            if not received.wants_more or call.has_enough(len(received.items)):
                if not is_hidden(made):
                    made.cancel()  # else it ends where it is dropped
                return SO_FAR
    except grpc.RpcError as error:
        return ending(error if is_hidden(made) else made)
    return SO_FAR if is_hidden(made) else ending(made)


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

    def make_callable(self, arity: str, method: str, serialize: Any, deserialize: Any) -> Any:
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
