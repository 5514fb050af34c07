"""Makes calls of gRPC stubs a second time, over blocking channels of its own, also in programs of asyncio."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.fork import on_child
from lucky_transport.routing import SO_FAR, Ending, Received, RoutedCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.staged.ending import ending, is_hidden

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
