"""Calls for asyncio with interceptors around them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.deadline import Deadline
from lucky_transport.futures import CallFuture, on_cancel
from lucky_transport.interceptors.chain import chained, hooks_of
from lucky_transport.interceptors.interceptor import CallDetails, InterceptionPoint, Interceptor
from lucky_transport.interceptors.streams import InterceptedAsyncStream
from lucky_transport.messages.methods import Method

__all__ = ["InterceptedAsyncCalls"]


class InterceptedAsyncCalls(AsyncCalls):
    """`inner` with interceptors, which run on the event loop. Closing it closes that."""

    def __init__(self, inner: AsyncCalls, interceptors: Sequence[Interceptor], point: InterceptionPoint) -> None:
        self._inner = inner
        self._point = point
        self._call = chained(hooks_of(interceptors, "intercept_call"), self._call_now)
        self._stream = chained(hooks_of(interceptors, "intercept_stream"), self._stream_now)

    async def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        return await asyncio.wrap_future(self._call(CallDetails(self._point, method, deadline), request))

    def _call_now(self, details: CallDetails, request: Any) -> Future[Any]:
        """Make the call in a task of its own, and return what ends with it."""
        future: Future[Any] = CallFuture()
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._inner.call(details.method, request, details.deadline))

        def settle(done: asyncio.Task[Any]) -> None:
            if done.cancelled():
                future.cancel()
            elif future.set_running_or_notify_cancel():
                error = done.exception()
                if error is None:
                    future.set_result(done.result())
                else:
                    future.set_exception(error)

        task.add_done_callback(settle)
        on_cancel(future, lambda: loop.call_soon_threadsafe(task.cancel))
        return future

    def stream(
        self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True
    ) -> AsyncStream:
        return self._stream(CallDetails(self._point, method, deadline, copy), request)

    def _stream_now(self, details: CallDetails, request: Any) -> InterceptedAsyncStream:
        return InterceptedAsyncStream(self._inner.stream(details.method, request, details.deadline, copy=details.copy))

    def close(self) -> None:
        self._inner.close()
