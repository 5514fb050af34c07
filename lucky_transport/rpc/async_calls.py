"""Typed calls over a pipe for asyncio: what `Transport.async_calls` returns there."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

from lucky_transport.aio import AsyncCalls, AsyncStream
from lucky_transport.call import check_request, check_stream
from lucky_transport.deadline import Deadline
from lucky_transport.errors import Cancelled
from lucky_transport.messages.method import Method
from lucky_transport.rpc import typed
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.event_loop import LoopCondition, LoopReader

#: Items that were there already and are handed out in a row: a fast stream must not keep out the loop's other tasks.
_IN_A_ROW = 64


class LoopCalls(AsyncCalls):
    """The calls of a connection that no thread uses. `timeout_s` is that of calls without a deadline of their own.

    The connection belongs to the first event loop that uses it, and is closed with `close`.
    """

    def __init__(self, calls: ClientCalls, timeout_s: float) -> None:
        self._calls = calls
        self._timeout_s = timeout_s
        self._reader: LoopReader | None = None
        self._streams: weakref.WeakSet[_LoopStream] = weakref.WeakSet()

    async def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        reader, loop = self._read()
        deadline = Deadline.after(deadline, self._timeout_s)
        opened = typed.open_unary(self._calls, method, request, deadline, may_wait=False)
        reader.expect()
        try:
            await _CallWaiter(opened, loop).wait()
        except BaseException:  # its task is cancelled
            opened.cancel()
            raise
        payload: Any = opened.recv()
        return typed.response_of(self._calls, method, payload)

    def stream(
        self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True
    ) -> AsyncStream:
        self._calls.check()
        check_stream(method)
        check_request(method, request)

        def begin() -> tuple[typed.CallStream, _CallWaiter]:
            reader, loop = self._read()
            opened = typed.stream(self._calls, method, request, deadline, copy=copy, may_wait=False)
            reader.expect()
            return opened, _CallWaiter(opened.opened, loop)

        stream = _LoopStream(begin, method.name, self._calls.backend)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        for stream in tuple(self._streams):
            stream.cancel()
        if self._reader is not None:
            self._reader.close()
        self._calls.close()

    def _read(self) -> tuple[LoopReader, asyncio.AbstractEventLoop]:
        """Have the running loop read the connection, and return both."""
        loop = asyncio.get_running_loop()
        if self._reader is None:
            self._calls.check()
            self._reader = LoopReader(self._calls, loop)
        return self._reader, loop

    def __del__(self) -> None:
        if self._reader is not None:
            self.close()


class _CallWaiter:
    """Wakes the task that waits for `call`."""

    def __init__(self, call: ClientCall, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._changed = LoopCondition(loop)
        call.on_change = self._changed.notify_threadsafe

    async def wait(self) -> None:
        """Return once something has come for the call, or it has ended: at its deadline at the latest."""
        call, deadline = self._call, self._call.deadline
        while not call.has_news():
            timer = None if deadline is None else self._loop.call_later(deadline.remaining_s, self._expire)
            try:
                await self._changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def _expire(self) -> None:
        self._call.expire()
        self._changed.notify()  # a timer may be early: then there is a new one


class _LoopStream(AsyncStream):
    """A stream that `begin` opens when its first item is waited for."""

    def __init__(self, begin: Callable[[], tuple[typed.CallStream, _CallWaiter]], name: str, backend: str) -> None:
        self._begin = begin
        self._name = name
        self._backend = backend
        self._opened: tuple[typed.CallStream, _CallWaiter] | None = None
        self._refusal: Exception | None = None  # why it was not opened
        self._is_cancelled = False
        self._in_a_row = 0

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - read-only here
        return 0 if self._opened is None else self._opened[0].dropped

    async def __anext__(self) -> Any:
        if self._opened is None:
            if self._is_cancelled:
                raise Cancelled(f"{self._name} was cancelled", backend=self._backend)
            if self._refusal is not None:
                raise self._refusal
            try:
                self._opened = self._begin()
            except Exception as error:
                self._refusal = error
                raise
            if self._is_cancelled:  # by another thread, meanwhile
                self._opened[0].cancel()
        stream, waiter = self._opened
        self._in_a_row += 1
        try:
            if self._in_a_row == _IN_A_ROW:
                self._in_a_row = 0
                await asyncio.sleep(0)
            while (item := stream.try_next()) is None:
                self._in_a_row = 0
                await waiter.wait()
        except StopIteration:
            raise StopAsyncIteration from None
        except asyncio.CancelledError:
            self.cancel()
            raise
        return item

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._opened is not None:
            self._opened[0].cancel()

    def __del__(self) -> None:
        if "_opened" in vars(self):
            self.cancel()
