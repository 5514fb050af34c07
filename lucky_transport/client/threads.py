"""Calls for asyncio over a transport that knows none: a few threads wait in its stead.

Rule 1: calls share a small pool; each stream has a thread of its own, so that streams never hold up calls.
Rule 2: a stream that may skip items is asked for one only when a task waits for it, so the item is fresh; one that must
        not skip any is read up to 64 items ahead.
Rule 3: a cancelled call leaves its thread when the transport answers, at its deadline at the latest; a cancelled stream
        leaves it at once. No thread outlives `close` by more than that.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled, ClosedError
from lucky_transport.messages.methods import Flow, Method
from lucky_transport.transport import Stream, Transport

__all__ = ["ThreadedCalls"]

_THREADS = 16
_AHEAD = 64

Answer = asyncio.Future[Any]


class ThreadedCalls(AsyncCalls):
    """See the module."""

    def __init__(self, transport: Transport, threads: int = _THREADS) -> None:
        self._transport = transport
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lucky_transport_call")
        self._waiting: set[Answer] = set()
        self._pumps: weakref.WeakSet[_Pump] = weakref.WeakSet()
        self._closed = False

    async def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        self._check_open()
        loop = asyncio.get_running_loop()
        answer: Answer = loop.create_future()
        job = self._pool.submit(_answer, answer, loop, lambda: self._transport.call(method, request, deadline))
        self._waiting.add(answer)
        try:
            return await answer
        finally:
            self._waiting.discard(answer)
            job.cancel()  # without effect once it runs

    def stream(
        self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True
    ) -> AsyncStream:
        self._check_open()
        options = {} if copy else {"copy": False}
        ahead = _AHEAD if method.stream is Flow.EVERY else 0
        pump = _Pump(lambda: self._transport.stream(method, request, deadline, **options), ahead, self._transport.name)
        self._pumps.add(pump)
        return _ThreadedStream(pump)

    def close(self) -> None:
        self._closed = True
        for pump in list(self._pumps):
            pump.cancel()
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(self._refusal())
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise self._refusal()

    def _refusal(self) -> ClosedError:
        return ClosedError("the client is closed", backend=self._transport.name, hint="connect again")


def _answer(answer: Answer, loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
    """Run `call` on this thread and give `answer` what came of it."""
    try:
        result = call()
    except Exception as error:  # a transport is foreign code; whatever it raises belongs to who waits
        _hand_over(loop, answer, None, error)
    else:
        _hand_over(loop, answer, result, None)


def _hand_over(loop: asyncio.AbstractEventLoop, answer: Answer, result: Any, error: BaseException | None) -> bool:
    """Settle `answer` in its loop; False when that loop is closed, so that nobody waits any more."""

    def settle() -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return False
    return True


class _Pump:
    """Asks one stream for its items on a thread of its own; knows nothing of the AsyncStream, which may be dropped."""

    def __init__(self, open_stream: Callable[[], Stream], ahead: int, backend: str) -> None:
        self._open = open_stream
        self._ahead = ahead
        self._backend = backend
        self._changed = threading.Condition()
        self._items: deque[Any] = deque()
        self._asked: tuple[asyncio.AbstractEventLoop, Answer] | None = None
        self._end: BaseException | None = None
        self._stream: Stream | None = None
        self._started = False

    @property
    def dropped(self) -> int:
        """Items the engine skipped so far."""
        stream = self._stream
        return 0 if stream is None else stream.dropped

    def take(self, loop: asyncio.AbstractEventLoop) -> tuple[bool, Any]:
        """Return (True, item), or (False, future of the item). Raises the stream's end once all items are taken."""
        with self._changed:
            if self._items:
                self._changed.notify()
                return True, self._items.popleft()
            if self._end is not None:
                raise self._end
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="lucky_transport_stream", daemon=True).start()
            answer: Answer = loop.create_future()
            self._asked = (loop, answer)
            self._changed.notify()
            return False, answer

    def cancel(self) -> None:
        """End the stream on both sides; idempotent, from any thread."""
        self._finish(Cancelled("the stream was cancelled", backend=self._backend))
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def _finish(self, end: BaseException) -> None:
        with self._changed:
            if self._end is not None:
                return
            self._end = end
            if isinstance(end, Cancelled):
                self._items.clear()
            asked, self._asked = self._asked, None
            self._changed.notify()
        if asked is not None:
            _hand_over(*asked, None, end)

    def _run(self) -> None:
        try:
            self._stream = stream = self._open()
            with stream:
                while self._is_wanted():
                    if not self._give(next(stream)):
                        return
        except StopIteration:
            self._finish(StopAsyncIteration())
        except Exception as error:  # a transport is foreign code; whatever it raises belongs to who waits
            self._finish(error)

    def _is_wanted(self) -> bool:
        """Wait until an item is asked for or may be read ahead; False once the stream is over."""
        with self._changed:
            while self._end is None and self._asked is None and len(self._items) >= self._ahead:
                self._changed.wait()
            return self._end is None

    def _give(self, item: Any) -> bool:
        with self._changed:
            asked, self._asked = self._asked, None
            if asked is None:
                self._items.append(item)
                return True
        return _hand_over(*asked, item, None)


class _ThreadedStream(AsyncStream):
    """The task's end of a pump."""

    def __init__(self, pump: _Pump) -> None:
        self._pump = pump
        self._in_a_row = 0

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - read-only here
        return self._pump.dropped

    async def __anext__(self) -> Any:
        ready, item = self._pump.take(asyncio.get_running_loop())
        try:
            if not ready:
                self._in_a_row = 0
                return await item
            self._in_a_row += 1
            if self._in_a_row >= _AHEAD:  # a fast stream must not keep the loop's other tasks out
                self._in_a_row = 0
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancel()
            raise
        return item

    def cancel(self) -> None:
        self._pump.cancel()
