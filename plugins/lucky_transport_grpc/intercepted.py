"""Streams of a process whose channels have interceptors.

An interceptor may return any iterator for a stream: OpenTelemetry's returns a generator. It can be read, but the call
behind it is out of reach: nothing cancels it and nothing tells its trailing metadata. So such a stream has a channel of
its own, and closing that ends the call.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

__all__ = ["InterceptedStream", "has_interceptors"]


def has_interceptors(channel: Any) -> bool:
    """Return False for gRPC's own channel; whatever stands in front of it is taken for an interceptor."""
    return type(channel).__module__ != "grpc._channel"


class InterceptedStream:
    """The responses of `call`, the only call on its channel; `end` closes that channel.

    The interceptor's code runs in a copy of the caller's context: what a generator makes current there (a span) would
    otherwise stay current for the caller between two items.
    """

    def __init__(self, call: Any, end: Callable[[], object]) -> None:
        self._call = iter(call)
        self._end = end
        self._context = contextvars.copy_context()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._context.run(next, self._call)
        except BaseException:
            self._end()
            raise

    def cancel(self) -> None:
        """End the call, from any thread; idempotent."""
        self._end()
        close = getattr(self._call, "close", None)
        if close is not None:
            with suppress(ValueError, RuntimeError):  # another thread reads it: the closed channel wakes that one
                self._context.run(close)

    def trailing_metadata(self) -> Any:
        """Return the call's trailing metadata where the interceptor lets them through, else None."""
        trailing = getattr(self._call, "trailing_metadata", None)
        return None if trailing is None else trailing()
