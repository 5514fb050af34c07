"""Streams that tell their end, for interceptors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from lucky_transport.aio import AsyncStream
from lucky_transport.errors import Cancelled
from lucky_transport.interceptors.interceptor import StreamEnd
from lucky_transport.transport import Stream


class _End:
    """The end of one stream, told once to each callback.

    An item is taken in its context, which counts it, or tells that taking it ended the stream.
    """

    def __init__(self, dropped: Callable[[], int]) -> None:
        self.items = 0
        self._dropped = dropped
        self._lock = threading.Lock()
        self._end: StreamEnd | None = None
        self._callbacks: list[Callable[[StreamEnd], object]] = []

    def add_callback(self, callback: Callable[[StreamEnd], object]) -> None:
        with self._lock:
            if self._end is None:
                self._callbacks.append(callback)
                return
        callback(self._end)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.items += 1
        else:
            self.tell(None if isinstance(error, StopIteration | StopAsyncIteration) else error)

    def tell(self, error: BaseException | None) -> None:
        with self._lock:
            if self._end is not None:
                return
            end = self._end = StreamEnd(self.items, self._dropped(), error)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(end)


class _Intercepted:
    """What is the same for a stream's reader in a thread and in a task. `add_end_callback` as in `InterceptedCall`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._end = _End(lambda: inner.dropped)
        self.add_end_callback = self._end.add_callback

    @property
    def dropped(self) -> int:
        return self._inner.dropped

    def cancel(self) -> None:
        inner = vars(self).get("_inner")
        if inner is not None:
            inner.cancel()
            self._end.tell(Cancelled("its reader left the stream"))


class InterceptedStream(_Intercepted, Stream):  # pyright: ignore[reportIncompatibleVariableOverride] - read-only here
    """A stream of a transport."""

    def __next__(self) -> Any:
        with self._end:
            return next(self._inner)


class InterceptedAsyncStream(_Intercepted, AsyncStream):  # pyright: ignore[reportIncompatibleVariableOverride] - as above
    """A stream for asyncio."""

    async def __anext__(self) -> Any:
        with self._end:
            return await self._inner.__anext__()


class InterceptedItems:
    """The items of a stream's handler on the engine's side; `add_end_callback` as in `InterceptedCall`.

    dropped: returns the items skipped so far.
    """

    def __init__(self, items: Iterator[Any], dropped: Callable[[], int]) -> None:
        self._items = items
        self._end = _End(dropped)
        self.add_end_callback = self._end.add_callback

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._end:
            return next(self._items)

    def close(self) -> None:
        """End the handler: its client left, or the stream has ended; idempotent."""
        try:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        finally:
            self._end.tell(Cancelled("its client left the stream"))
