"""A `ServerCallState` whose handler is a task of an event loop.

Everything here happens on the thread of the loop. A call that its caller, its deadline or the server ends cancels the
task.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from lucky_transport.errors import Cancelled, PeerTimeout, StatusError, TransportError
from lucky_transport.rpc.event_loop import LoopCondition
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.server.call_state import ServerCallState
from lucky_transport_stubs.words.credentials import INSECURE, PortSecurity

_log = logging.getLogger("grpc._cython.cygrpc")


class ServerRpc(ServerCallState):
    """See the module. task: runs the handler; set by the code that starts it. abort_error: what `abort` raised.

    on_cancelled: called where the call ends before its task has begun, which then never does.
    """

    def __init__(
        self,
        call: ServerCall,
        loop: asyncio.AbstractEventLoop,
        max_send_bytes: int | None = None,
        security: PortSecurity = INSECURE,
    ) -> None:
        super().__init__(call, max_send_bytes, security)
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self.on_cancelled: Callable[[], object] | None = None
        self.abort_error: Exception | None = None
        self._callbacks: list[Callable[[], object]] | None = []
        self._lock = threading.Lock()  # threads of the pool add callbacks
        self._request: bytes | None = call.payload
        self._changed = LoopCondition(loop)
        self._timer = None if call.deadline is None else loop.call_later(call.deadline.remaining_s, self._expire)
        call.on_change = self._on_news

    def check(self) -> None:
        """Raise why the handler may do nothing more, if that is so: AbortError after `abort`, UsageError at the end."""
        if self.abort_error is not None:
            raise self.abort_error
        if self.is_finished:
            raise grpc.aio.UsageError("RPC already finished.")

    async def receive(self) -> bytes | None:
        """Return the caller's next message, None after the last one and once the call has ended."""
        if not self.call.shape & Shape.CLIENT_STREAM:
            request, self._request = self._request, None
            return request
        while (message := self.call.try_recv()) is None:
            if self.call.half_closed:
                return None
            await self._changed.wait()
        return message

    async def send(self, message: bytes) -> None:
        """Send one message; waits while the caller takes no more.

        Raises InternalError when the call has ended, and for a message that `accepts` refuses: the call has then
        failed.
        """
        try:
            goes_out = self.accepts(message)
        except StatusError as error:
            raise grpc.aio.InternalError(error.details) from None
        try:
            while goes_out and not self.call.try_send(message):
                await self._changed.wait()
        except TransportError as error:
            raise grpc.aio.InternalError(str(error)) from error

    def end_with(self, number: int, details: str) -> None:
        """As everywhere; the handler's context shows this status from now on."""
        self.number, self.details = number, details
        super().end_with(number, details)

    def revoke(self, error: TransportError) -> None:
        """Take the call from its handler: the caller gets `error`, the handler is cancelled. No effect at the end."""
        if not self.call.is_ended:
            self.call.fail(error)

    def add_callback(self, callback: Callable[[], object]) -> bool:
        """Have `callback` called once the handler has ended; False, and no call, when it has. From any thread."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
            return self._callbacks is not None

    def close(self) -> None:
        """To be called when the handler has ended: a caller without an answer gets CANCELLED; the callbacks run."""
        if self._timer is not None:
            self._timer.cancel()
        self.revoke(Cancelled(f"the handler of {self.call.name} was cancelled"))
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        try:
            for callback in callbacks or ():
                callback()
        except Exception:  # as in gRPC it stops the others
            _log.exception("Error in callback for method [%s]", self.call.name)

    def _expire(self) -> None:
        assert self.call.deadline is not None
        self.revoke(PeerTimeout(f"{self.call.name} did not end within {self.call.deadline.timeout_s:g} s"))

    def _on_news(self) -> None:
        if self._changed.waiters:
            self._changed.notify()
        if not self.is_finished and self.task is not None and self.call.is_ended:
            self.task.cancel()
            if self.on_cancelled is not None:
                self.loop.call_soon(self.on_cancelled)
                self.on_cancelled = None
