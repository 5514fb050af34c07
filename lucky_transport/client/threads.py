"""Calls for asyncio over a transport that has none of its own: threads wait in their place.

Calls share a small pool. A stream has a thread while a task waits for its next item, so that streams never hold up
calls, and an item of a stream that may skip some is fresh.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.call import check_request, check_stream
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, ClosedError, TransportError
from lucky_transport.messages.methods import Method
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.transport import Stream, Transport

_THREADS = 16
_UNLIMITED = 1 << 30
_LAST: Any = object()


class ThreadedCalls(AsyncCalls):
    """The calls of one transport, by `threads` threads.

    A cancelled call keeps its thread until the transport answers, at its deadline at the latest; the thread of a
    cancelled stream is free at once. No thread outlives `close` by more than that.
    """

    def __init__(self, transport: Transport, threads: int = _THREADS) -> None:
        self._transport = transport
        self._calls = WorkerPool("lucky_transport_call", threads, _UNLIMITED)
        self._streams = WorkerPool("lucky_transport_stream", _UNLIMITED)
        self._pending: set[asyncio.Future[Any]] = set()
        self._open: weakref.WeakSet[_ThreadedStream] = weakref.WeakSet()
        self._closed = False

    async def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        future = _run_on(self._calls, lambda: self._transport.call(method, request, deadline))
        self._pending.add(future)
        try:
            return await future
        finally:
            self._pending.discard(future)

    def stream(
        self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True
    ) -> AsyncStream:
        self._check_open()
        check_stream(method)
        check_request(method, request)
        options = {} if copy else {"copy": False}
        stream = _ThreadedStream(
            lambda: self._transport.stream(method, request, deadline, **options),
            self._streams,
            lambda: Cancelled(f"{method.name} was cancelled", backend=self._transport.name),
        )
        self._open.add(stream)
        return stream

    def close(self) -> None:
        self._closed = True
        for stream in tuple(self._open):
            stream.cancel()
        for future in tuple(self._pending):
            if not future.done():
                future.set_exception(self._refusal())
        self._calls.close(0.0)
        self._streams.close(0.0)

    def _check_open(self) -> None:
        if self._closed:
            raise self._refusal()

    def _refusal(self) -> ClosedError:
        return ClosedError("the client is closed", backend=self._transport.name, hint="connect again")


class _ThreadedStream(AsyncStream):
    """A stream that `open_stream` opens on a thread of `pool` when its first item is waited for."""

    def __init__(self, open_stream: Callable[[], Stream], pool: WorkerPool, cancelled: Callable[[], Cancelled]) -> None:
        self._open_stream = open_stream
        self._pool = pool
        self._cancelled = cancelled
        self._stream: Stream | None = None
        self._refusal: Exception | None = None  # why it was not opened
        self._is_cancelled = self._has_ended = False

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - read-only here
        return 0 if self._stream is None else self._stream.dropped

    async def __anext__(self) -> Any:
        if self._is_cancelled:
            raise self._cancelled()
        try:
            item = await _run_on(self._pool, self._next)
        except asyncio.CancelledError:
            self.cancel()
            raise
        except TransportError:
            self._has_ended = True
            raise
        if item is _LAST:
            self._has_ended = True
            raise StopAsyncIteration
        return item

    def _next(self) -> Any:
        """Wait for the next item; on a thread of the pool."""
        if self._refusal is not None:
            raise self._refusal
        if self._stream is None:
            try:
                self._stream = self._open_stream()
            except Exception as error:
                self._refusal = error
                raise
        if self._is_cancelled:  # meanwhile
            self._stream.cancel()
        return next(self._stream, _LAST)

    def cancel(self) -> None:
        self._is_cancelled = not vars(self).get("_has_ended")
        stream = vars(self).get("_stream")
        if stream is not None:
            stream.cancel()


def _run_on(pool: WorkerPool, task: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run the task on a thread of the pool; the result is a future of the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        if future.done():  # cancelled before a thread was free
            return
        result, error = None, None
        try:
            result = task()
        except Exception as raised:  # a transport is foreign code; the task that waits gets what it raises
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits
            loop.call_soon_threadsafe(settle, result, error)

    pool.run(run)
    return future
