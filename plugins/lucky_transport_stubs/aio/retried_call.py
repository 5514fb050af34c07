"""An asyncio call with a retry policy: it makes attempts until it is committed to one of them.

Until then nothing of a response is handed out, and the messages that were sent are kept for another attempt.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from lucky_transport.errors import TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.client.ended import status_at_end
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.retries import Retries
from lucky_transport_stubs.words.status import CallStatus, status_of

if TYPE_CHECKING:
    from lucky_transport_stubs.aio.connection import Connection

__all__ = ["RetriedCall"]


class RetriedCall(RingCall):
    """retries: its attempts. buffer_bytes: with more bytes of messages it is committed to the present one."""

    def __init__(
        self,
        connection: Connection,
        method: str,
        deadline: float | None,
        wait_for_ready: bool,
        fetch: Fetch | None,
        retries: Retries,
        buffer_bytes: int,
    ) -> None:
        super().__init__(connection, method, deadline, wait_for_ready, fetch)
        self._retries = retries
        self._buffer_bytes = buffer_bytes
        self._arguments: tuple[Shape, tuple[Any, ...], bytes] | None = None
        self._backoff: asyncio.TimerHandle | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._kept: list[bytes] = []
        self._bytes = 0  # of all messages
        self._let_go_of = 0  # messages that were kept before `_kept`
        self._sent = 0  # of `_kept`, in the present attempt
        self._sent_once = 0  # of all messages, in any attempt
        self._half_closed: ClientCall | None = None

    # -- what the Python half of grpc.aio calls -----------------------------------------------------------------------

    async def send_serialized_message(self, message: bytes | None) -> None:
        if self._retries.is_committed and not self._kept:
            await super().send_serialized_message(message)
            return
        payload = message or b""
        self._refuse_too_long(payload)
        if not self.done():
            self._kept.append(payload)
            self._bytes += len(payload)
            number = self._let_go_of + len(self._kept)
            self._send_kept()
            await self._changed.until(lambda: self._sent_once >= number or self.done())
            if self._sent_once >= number:
                return
        raise grpc.aio.InternalError("the call has ended")

    async def send_receive_close(self) -> None:
        self._sends_no_more = True
        self._send_kept()

    # -- within -------------------------------------------------------------------------------------------------------

    async def _open(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes = b"") -> None:
        self._arguments = (shape, metadata, payload)
        await super()._open(shape, metadata, payload)

    def _entries(self, metadata: tuple[Any, ...]) -> Metadata:
        self._sent = 0
        self._retries.begins()
        return self._retries.metadata(super()._entries(metadata))

    def _refuse_too_long(self, payload: bytes) -> None:
        limit = self._channel.max_send_bytes
        if limit is not None and len(payload) > limit:
            self._retries.is_committed = True  # no attempt could send it
        super()._refuse_too_long(payload)

    def _on_news(self) -> None:
        call = self._call
        if call is None or self._loop.is_closed():
            return
        if call.has_started or (call.is_ended() and call.error is None):
            self._retries.commit()
        self._send_kept()
        if self._retries.is_committed or not call.is_ended():
            if self._retries.is_committed:
                super()._on_news()
            self._changed.notify()
        else:
            self._loop.call_soon(self._attempt_ended, call)

    def _attempt_ended(self, call: ClientCall) -> None:
        """An attempt has failed that the call was not committed to."""
        if self._call is call and call.error is not None and not self.done():
            self._call = None
            self._finish(status_at_end(call, status_of))

    def _finish(self, status: CallStatus) -> None:
        if self.done():
            return
        delay_s = self._retries.after(status)
        if delay_s is None or self._has_expired():
            super()._finish(status)
        else:
            self._backoff = self._loop.call_later(delay_s, self._begin_again)

    def _has_expired(self) -> bool:
        return self._deadline is not None and time.time() >= self._deadline

    def _begin_again(self) -> None:
        if self._arguments is not None and not self.done():
            self._attempt = self._loop.create_task(self._open(*self._arguments))

    def _send_kept(self) -> None:
        """Send of what is kept as much as the present attempt takes, and half-close after the last message."""
        call = self._call
        if call is None or call.is_ended():
            return
        if self._bytes > self._buffer_bytes:
            self._retries.commit()
        try:
            while self._sent < len(self._kept) and call.try_send(self._kept[self._sent]):
                self._sent += 1
            is_over = self._sends_no_more and self._sent == len(self._kept)
            if is_over and self._half_closed is not call:
                self._half_closed = call
                call.half_close()
        except TransportError:  # the attempt has just ended
            return
        self._sent_once = max(self._sent_once, self._let_go_of + self._sent)
        if self._retries.is_committed:
            del self._kept[: self._sent]
            self._let_go_of += self._sent
            self._sent = 0
        self._changed.notify()

    def _let_go(self) -> None:
        if self._backoff is not None:
            self._backoff.cancel()
        super()._let_go()
