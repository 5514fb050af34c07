"""One call that an asyncio server answers: its state, and the way to its caller.

Everything here happens on the thread of the server's loop. A call ends once: by its handler's status, or by its caller,
its deadline or the server's end; then its handler's task is cancelled, and what it still says to the caller is dropped.
How many messages go in and out is the caller's business (`ServerCall.shape`); handlers of another arity get, and may
send, what there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from lucky_transport.errors import Cancelled, PeerTimeout, StatusError, TransportError
from lucky_transport.rpc.event_loop import LoopCondition
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.answer import number_of
from lucky_transport_stubs.metadata import InvalidMetadata, checked
from lucky_transport_stubs.options import sent_too_long

__all__ = ["ServerRpc"]

_log = logging.getLogger("lucky_transport")
_Code = grpc.StatusCode


class ServerRpc:
    """See the module. task: runs the handler; set by the code that starts it.

    code, details, trailing: the status so far; given_code: as the handler gave it. abort_error: what `abort` raised.
    has_started: headers or a message have left. is_finished: a status has left. max_send_bytes: of a message, None for
    any number.
    """

    def __init__(self, call: ServerCall, loop: asyncio.AbstractEventLoop, max_send_bytes: int | None = None) -> None:
        self.call = call
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self.code = 0
        self.given_code: object = None
        self.details = ""
        self.trailing: tuple[tuple[str, str | bytes], ...] = ()
        self.abort_error: Exception | None = None
        self.has_started = False
        self.is_finished = False
        self._callbacks: list[Callable[[], object]] = []
        self._request: bytes | None = call.payload
        self._response: bytes | None = None
        self._max_send_bytes = max_send_bytes
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
        """Send one message; waits while the caller takes no more. For one who takes one message it waits for `finish`.

        Raises InternalError when the call has ended, and for a message that is too long: the call has then failed.
        """
        self.has_started = True
        limit = self._max_send_bytes
        if limit is not None and len(message) > limit:
            error = sent_too_long("SERVER", len(message), limit)
            self.fail(error.code, error.details)
            raise grpc.aio.InternalError(error.details)
        if not self.call.shape & Shape.SERVER_STREAM:
            if self._response is not None:
                raise grpc.aio.InternalError(f"{self.call.name}: a second message, the caller takes one")
            self._response = message
            return
        try:
            while not self.call.try_send(message):
                await self._changed.wait()
        except TransportError as error:
            raise grpc.aio.InternalError(str(error)) from error

    def send_headers(self, metadata: Iterable[tuple[str, Any]]) -> None:
        """Send the initial metadata; a call with invalid metadata fails."""
        self.has_started = True
        try:
            self.call.send_headers(checked(metadata))
        except InvalidMetadata:
            self.fail(number_of(_Code.INTERNAL), "Invalid metadata")

    def finish(self) -> None:
        """End the call with the status so far; no effect once it has ended."""
        self.is_finished = True
        if self.call.is_ended:
            return
        code, details, trailing = self.code, self.details, ()
        try:
            trailing = checked(self.trailing)
        except InvalidMetadata:
            code, details = number_of(_Code.INTERNAL), "Invalid metadata"
        if not code and self._response is None and not self.call.shape & Shape.SERVER_STREAM:
            code, details = number_of(_Code.INTERNAL), "No message for a caller who takes one."
        if code:
            self.call.fail(StatusError(code, details, trailing))
        else:
            self.call.finish(self._response or b"", trailing=trailing)

    def fail(self, code: int, details: str) -> None:
        """End the call with this status; no effect once it has ended."""
        self.code, self.details = code, details
        self.finish()

    def revoke(self, error: TransportError) -> None:
        """Take the call from its handler: the caller gets `error`, the handler is cancelled. No effect at the end."""
        if not self.call.is_ended:
            self.call.fail(error)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Have `callback` called once the handler has ended."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """To be called when the handler has ended: a caller without an answer gets CANCELLED; the callbacks run."""
        if self._timer is not None:
            self._timer.cancel()
        self.revoke(Cancelled(f"the handler of {self.call.name} was cancelled"))
        for callback in self._callbacks:
            try:
                callback()
            except Exception:
                _log.exception("Error in callback for method [%s]", self.call.name)

    def _expire(self) -> None:
        assert self.call.deadline is not None
        self.revoke(PeerTimeout(f"{self.call.name} did not end within {self.call.deadline.timeout_s:g} s"))

    def _on_news(self) -> None:
        self._changed.notify()
        if self.call.is_ended and not self.is_finished and self.task is not None:
            self.task.cancel()
