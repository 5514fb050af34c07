"""A transport with interceptors around what goes through it.

It is made only where there are interceptors: without them a program has the transport itself. What no interceptor
stands around is the other transport's own method, the native step included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerTimeout
from lucky_transport.futures import CallFuture, completed, on_cancel
from lucky_transport.interceptors.interceptor import (
    CallDetails,
    InterceptionPoint,
    Interceptor,
    Side,
    StepDetails,
    chained,
    hooks_of,
    result_of,
)
from lucky_transport.interceptors.streams import InterceptedAsyncStream, InterceptedStream
from lucky_transport.messages.methods import Method
from lucky_transport.transport import ForwardingTransport, Frame, Stream, Transport

if TYPE_CHECKING:
    from lucky_transport.cuda.libcuda import CudaDriver
    from lucky_transport.cuda.memory import DeviceArray


class InterceptedTransport(ForwardingTransport):
    """`inner` with `interceptors`, which are never empty."""

    def __init__(
        self, inner: Transport, interceptors: Sequence[Interceptor], endpoint: Endpoint, settings: Settings
    ) -> None:
        super().__init__(inner)
        self._settings = settings
        self._interceptors = tuple(interceptors)
        self._point = InterceptionPoint(Side.CLIENT, inner.spec.engine, inner.spec.num_envs, inner.name, endpoint)
        #: Of a step in two halves: its frame, and what its sender sees of that.
        self._awaited: Future[Frame] | None = None
        self._seen: Future[Frame] | None = None
        calls, streams, steps = (hooks_of(interceptors, f"intercept_{kind}") for kind in ("call", "stream", "step"))
        alone = inner.capabilities.async_envs and not steps  # interceptors of steps see whole ones
        self.capabilities = replace(inner.capabilities, async_envs=alone)
        self._call = chained(calls, self._call_now)
        self._begin = chained(calls, self._begin_now)
        self._stream = chained(streams, self._stream_now)
        self._step = chained(steps, self._step_now)
        self._send = chained(steps, self._send_now)
        of_steps = ("step", "send", "recv", "send_envs", "recv_envs")
        for names, hooks in ((("call", "begin"), calls), (("stream",), streams), (of_steps, steps)):
            for name in names if not hooks else ():
                vars(self)[name] = getattr(inner, name)

    @property
    def envs_under_way(self) -> int:
        return self._inner.envs_under_way

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(
        self, actions: NDArray[Any], control: NDArray[Any] | None = None, deadline: Deadline | None = None
    ) -> Frame:
        future = self._step(StepDetails(self._point, deadline), actions, control)
        return result_of(future, self._step_s(deadline), "a step", self.name)

    def _step_now(self, details: StepDetails, actions: NDArray[Any], control: NDArray[Any] | None) -> Future[Frame]:
        return completed(lambda: self._inner.step(actions, control, details.deadline))

    def send(self, actions: NDArray[Any], control: NDArray[Any] | None = None) -> None:
        seen = self._send(StepDetails(self._point), actions, control)
        if seen.done():  # refused, or answered by an interceptor
            seen.result()
        self._seen = seen

    def _send_now(self, details: StepDetails, actions: NDArray[Any], control: NDArray[Any] | None) -> Future[Frame]:
        frame: Future[Frame] = CallFuture()
        try:
            self._inner.send(actions, control)
        except Exception as error:  # raised by `send`, through the interceptors
            frame.set_exception(error)
        else:
            self._awaited = frame
        return frame

    def recv(self, deadline: Deadline | None = None) -> Frame:
        awaited, seen = self._awaited, self._seen
        if seen is None:
            return self._inner.recv(deadline)  # nothing was sent, or a `step` timed out and its exchange is still open
        if awaited is not None:
            try:
                frame = self._inner.recv(deadline)
            except PeerTimeout:
                raise  # the exchange stays open
            except Exception as error:  # raised below, through the interceptors
                self._awaited = None
                awaited.set_exception(error)
            else:
                self._awaited = None
                awaited.set_result(frame)
        self._seen = None
        return result_of(seen, self._step_s(deadline), "a step", self.name)

    def _step_s(self, deadline: Deadline | None) -> float:
        return self._settings.step_timeout_s if deadline is None else deadline.remaining_s

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        future = self._call(CallDetails(self._point, method, deadline), request)
        timeout_s = self._settings.command_timeout_s if deadline is None else deadline.remaining_s
        return result_of(future, timeout_s, method.name, self.name)

    def _call_now(self, details: CallDetails, request: Any) -> Future[Any]:
        return completed(lambda: self._inner.call(details.method, request, details.deadline))

    def begin(self, method: Method, request: Any, deadline: Deadline | None = None) -> Future[Any]:
        return self._begin(CallDetails(self._point, method, deadline), request)

    def _begin_now(self, details: CallDetails, request: Any) -> Future[Any]:
        return self._inner.begin(details.method, request, details.deadline)

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        return self._stream(CallDetails(self._point, method, deadline, copy), request)

    def _stream_now(self, details: CallDetails, request: Any) -> InterceptedStream:
        return InterceptedStream(self._inner.stream(details.method, request, details.deadline, copy=details.copy))

    def device_observations(self, driver: CudaDriver) -> DeviceArray | None:
        return self._inner.device_observations(driver)

    def lock_pages(self, driver: CudaDriver, ordinal: int) -> bool:
        return self._inner.lock_pages(driver, ordinal)

    def async_calls(self) -> AsyncCalls | None:
        calls = self._inner.async_calls()
        # Without calls of its own, threads make the calls of this transport, which are intercepted.
        return None if calls is None else InterceptedAsyncCalls(calls, self._interceptors, self._point)

    def close(self) -> None:
        awaited, self._awaited, self._seen = self._awaited, None, None
        if awaited is not None:
            awaited.set_exception(ClosedError("the transport was closed before the frame came", backend=self.name))
        super().close()


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
