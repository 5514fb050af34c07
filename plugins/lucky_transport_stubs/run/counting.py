"""Channels whose calls are counted. Everything else about them is the channel's that they stand for.

A call is counted when it is started, then made as without counting: same arguments, same answer object. Imported only
where grpc has been imported already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import grpc

from lucky_transport_stubs.run.call_counters import CallCounter

__all__ = ["counted"]

#: Gives the counter of a method by its path.
CounterSource = Callable[[str], CallCounter]

#: Attributes of a callable that start a call, beside calling it.
_STARTING = ("future", "with_call")


def counted(channel: Any, counter_of: CounterSource) -> Any:
    """Return a channel like `channel` (of grpc or grpc.aio) whose calls are counted."""
    kind = _CountedAioChannel if isinstance(channel, grpc.aio.Channel) else _CountedChannel
    return kind(channel, counter_of)


class _CountedMethod:
    """A callable of a stub, of any arity, sync or asyncio."""

    def __init__(self, method: Any, counter: CallCounter) -> None:
        self._method = method
        self._counter = counter

    def __call__(self, *args: Any, **named: Any) -> Any:
        self._counter.add()
        return self._method(*args, **named)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._method, name)
        return self._counted(value) if name in _STARTING else value

    def _counted(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def count_and_start(*args: Any, **named: Any) -> Any:
            self._counter.add()
            return start(*args, **named)

        return count_and_start


class _Counting:
    """What the two kinds of channels share."""

    def __init__(self, channel: Any, counter_of: CounterSource) -> None:
        self._counted_channel = channel
        self._tally_of = counter_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._counted_channel, name)

    def unary_unary(self, method: str, *args: Any, **named: Any) -> Any:
        return self._count(self._counted_channel.unary_unary, method, *args, **named)

    def unary_stream(self, method: str, *args: Any, **named: Any) -> Any:
        return self._count(self._counted_channel.unary_stream, method, *args, **named)

    def stream_unary(self, method: str, *args: Any, **named: Any) -> Any:
        return self._count(self._counted_channel.stream_unary, method, *args, **named)

    def stream_stream(self, method: str, *args: Any, **named: Any) -> Any:
        return self._count(self._counted_channel.stream_stream, method, *args, **named)

    def _count(self, make: Callable[..., Any], method: str, *args: Any, **named: Any) -> _CountedMethod:
        return _CountedMethod(make(method, *args, **named), self._tally_of(method))

    def close(self, *args: Any, **named: Any) -> Any:
        return self._counted_channel.close(*args, **named)


class _CountedChannel(_Counting, grpc.Channel):
    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        self._counted_channel.subscribe(callback, try_to_connect=try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._counted_channel.unsubscribe(callback)

    def __enter__(self) -> _CountedChannel:
        self._counted_channel.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._counted_channel.__exit__(*error)


class _CountedAioChannel(_Counting, grpc.aio.Channel):
    async def __aenter__(self) -> _CountedAioChannel:
        await self._counted_channel.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._counted_channel.__aexit__(*error)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._counted_channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._counted_channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._counted_channel.channel_ready()
