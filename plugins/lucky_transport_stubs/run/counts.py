"""Channels whose calls are counted.

A channel is counted by its class: it and its methods get classes that count a call when it is started, then make it as
without counting. Methods of ours count by themselves, without a function for that. Nothing wraps the objects, so
programs find in them all that grpc's have, and in their classes those of grpc.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lucky_transport.call_counts import CallCounter

#: Gives the counter of a method by its path.
CounterSource = Callable[[str], CallCounter]

#: What makes a method of a stub, and what starts a call of one.
_MAKING = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_STARTING = ("__call__", "future", "with_call")


def counted(channel: Any, counter_of: CounterSource) -> Any:
    """Return the channel, of grpc or grpc.aio, with its calls counted from now on."""
    channel._lucky_counter_of = counter_of
    channel.__class__ = _variant(type(channel), _MAKING, _making)
    return channel


def _making(kind: type, name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(kind, name))
    def make_counted(channel: Any, method: str, *args: Any, **named: Any) -> Any:
        made = getattr(kind, name)(channel, method, *args, **named)
        made._lucky_counter = channel._lucky_counter_of(method)
        if not hasattr(type(made), "_lucky_counter"):
            made.__class__ = _variant(type(made), _STARTING, _starting)
        return made

    return make_counted


def _starting(kind: type, name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(kind, name))
    def count_and_start(method: Any, *args: Any, **named: Any) -> Any:
        method._lucky_counter.add()
        return getattr(kind, name)(method, *args, **named)

    return count_and_start


@functools.cache
def _variant(kind: Any, names: tuple[str, ...], changed: Callable[[type, str], Callable[..., Any]]) -> type:
    """Return a class like `kind`, whose methods of these names are changed; to programs it is `kind`."""

    def reduce(thing: Any, protocol: Any) -> Any:
        _, (_, *rest), *others = kind.__reduce_ex__(thing, protocol)
        return object.__new__, (kind, *rest), *others  # pickle finds no other class under this name

    namespace = {name: changed(kind, name) for name in names if hasattr(kind, name)}
    as_kind = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind)(kind.__name__, (kind,), {**namespace, **as_kind, "__slots__": (), "__reduce_ex__": reduce})
