"""One asyncio call over shared memory, in the place of grpc's compiled `_AioCall`: messages are bytes here.

Nothing blocks the loop and there is no thread: the connection tells `on_change`, and coroutines that wait look.
Messages that came before the end are handed out before it; after a cancel or the deadline there are none. The deadline
ends the call wherever it is, also while it waits for a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, StatusError, TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.outcome import AioCallState
from lucky_transport_stubs.client.ended import status_at_end
from lucky_transport_stubs.grpc_inside import EOF
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.metadata import check_size, metadata_of, outgoing, within_limit
from lucky_transport_stubs.words.options import received_too_long, sent_too_long
from lucky_transport_stubs.words.status import status_of

if TYPE_CHECKING:
    from lucky_transport_stubs.aio.connection import Connection

__all__ = ["RingCall"]

#: How the Python half says which compression a call asks for; it is no metadata of the caller's.
_COMPRESSION = ("grpc-internal-encoding-request", b"grpc-internal-encoding-request")


class RingCall(AioCallState):
    """A call of `method`, by its full name, over `connection`. deadline: see `AioCallState`.

    fetch: gets the metadata of its credentials.
    """

    def __init__(
        self, connection: Connection, method: str, deadline: float | None, wait_for_ready: bool, fetch: Fetch | None
    ) -> None:
        super().__init__(connection.loop, deadline)
        self._channel = connection  # the name by which grpc.aio 1.60 finds the calls of a channel that closes
        self._method = method
        self._wait_for_ready = wait_for_ready
        self._fetch = fetch
        self._awaited: asyncio.Future[Any] | None = None  # the connection, then the metadata of the credentials
        self._call: ClientCall | None = None
        self._streams_back = False
        self._sends_no_more = False
        self._next: bytes | None = None  # the response; or a message that was taken to see whether it is the last
        self._timer: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None  # a callback's, for who waits for the response
        if deadline is not None:
            self._timer = self._loop.call_later(max(0.0, deadline - time.time()), self._expire)

    # -- what the Python half of grpc.aio calls -----------------------------------------------------------------------

    async def unary_unary(self, request: bytes | None, metadata: tuple[Any, ...], context: Any = None) -> bytes | None:
        """Return the response, None when the call failed. Raises TypeError for what is no message or no metadata."""
        await self._open(Shape.UNARY, metadata, _bytes(request, "request"))
        return await self._response()

    async def initiate_unary_stream(
        self, request: bytes | None, metadata: tuple[Any, ...], context: Any = None
    ) -> None:
        """Start the call; returns with its initial metadata, or at its end. Raises TypeError for a second use."""
        await self._open(Shape.SERVER_STREAM, metadata, _bytes(request, "request"))
        await self._changed.until(self._has_started)

    async def stream_unary(
        self, metadata: tuple[Any, ...], metadata_sent_observer: Any, context: Any = None
    ) -> bytes | None:
        """As `unary_unary`; calls `metadata_sent_observer()` once messages may be sent, or the call has ended."""
        await self._open(Shape.CLIENT_STREAM, metadata)
        metadata_sent_observer()
        return await self._response()

    async def initiate_stream_stream(
        self, metadata: tuple[Any, ...], metadata_sent_observer: Any, context: Any = None
    ) -> None:
        """Start the call; `metadata_sent_observer()` is called as in `initiate_unary_stream`."""
        await self._open(Shape.BIDIRECTIONAL, metadata)
        metadata_sent_observer()
        await self._changed.until(self._has_started)

    async def receive_serialized_message(self) -> Any:
        """Return the next message, `grpc.aio.EOF` after the last; the call has its status then."""
        while not self.done():
            assert self._call is not None
            message, self._next = self._next, None
            if message is None:
                message = self._call.try_recv()
            if message is None:
                await self._changed.wait()
            elif self._fits(message):
                self._settle()
                return message
        return EOF

    async def send_serialized_message(self, message: bytes | None) -> None:
        """Send a message; waits while the other side takes no more. Raises InternalError when the call has ended."""
        payload = _bytes(message, "message")
        self._refuse_too_long(payload)
        while self._call is not None and not self.done():
            try:
                if self._call.try_send(payload):
                    return
            except TransportError:  # it has ended, and its status is on the way
                await self._changed.until(self.done)
                break
            await self._changed.wait()
        raise grpc.aio.InternalError("the call has ended")

    async def send_receive_close(self) -> None:
        """Say that no further message comes, as soon as the call is open; no effect once it has ended."""
        self._sends_no_more = True
        if self._call is not None and not self._call.is_ended():
            self._call.half_close()

    # -- within -------------------------------------------------------------------------------------------------------

    async def _open(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes = b"") -> None:
        """Have the call under way; one that cannot be has its status when this returns."""
        self._streams_back = bool(shape & Shape.SERVER_STREAM)
        try:
            entries = self._entries(metadata)
            self._refuse_too_long(payload)
            self._awaited = self._channel.connect(self._wait_for_ready)
            calls = await self._awaited
            if calls is not None and self._fetch is not None:
                entries += await self._credentials_metadata(self._fetch)
                check_size(entries)
            if calls is None or self.done():
                return
            deadline = None if self._deadline is None else Deadline(max(0.0, self._deadline - time.time()))
            call = calls.open(self._method, payload, shape=shape, deadline=deadline, metadata=entries, may_wait=False)
        except TransportError as error:
            self._finish(status_of(error))
            return
        self._call = call
        call.on_change = self._on_news
        if self._sends_no_more:
            await self.send_receive_close()
        self._on_news()

    def _entries(self, metadata: tuple[Any, ...]) -> Metadata:
        """Return the metadata as they travel; raises what `outgoing` raises."""
        asked = next((pair[1] for pair in metadata if pair[0] in _COMPRESSION), "")
        encoding = self._channel.compression.named(asked.decode() if isinstance(asked, bytes) else asked)
        return outgoing((pair for pair in metadata if pair[0] not in _COMPRESSION), self._channel.user_agent, encoding)

    async def _credentials_metadata(self, fetch: Fetch) -> Metadata:
        """Return what the call's credentials add, nothing once it has ended. Raises StatusError."""
        if (fixed := fetch.fixed) is not None:
            return fixed
        self._awaited = self._loop.create_future()
        fetch(partial(_set_from_thread, self._loop, self._awaited))
        found = await self._awaited
        if isinstance(found, StatusError):
            raise found
        return found or ()

    async def _response(self) -> bytes | None:
        """Return the one response at the end, None for none; raises what a done callback raised, as gRPC does."""
        await self._changed.until(self.done)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._next

    def _callback_failed(self, error: BaseException) -> None:
        if self._streams_back:
            super()._callback_failed(error)
        else:
            self._error = error

    def _refuse_too_long(self, payload: bytes) -> None:
        limit = self._channel.max_send_bytes
        if limit is not None and len(payload) > limit:
            self._finish(status_of(sent_too_long("CLIENT", len(payload), limit)))

    def _on_news(self) -> None:
        call = self._call
        if call is None or self._loop.is_closed():
            return
        if call.headers is not None:
            self._start(metadata_of(within_limit(call.headers)))
        if call.is_ended():
            self._loop.call_soon(self._settle)  # not here: the thread that reports it must not be delayed
        self._changed.notify()

    def _settle(self) -> None:
        """Take the status, once the call has ended and nothing is left to be handed out."""
        call = self._call
        if call is None or self.done() or not call.is_ended():
            return
        if self._next is None:
            self._next = call.try_recv()
        is_over = self._next is None or (not self._streams_back and self._fits(self._next))
        if is_over:
            self._finish(status_at_end(call, status_of))

    def _fits(self, message: bytes) -> bool:
        """True unless the message is too long for this side: then the call has failed."""
        limit = self._channel.max_receive_bytes
        if len(message) <= limit:
            return True
        self._finish(status_of(received_too_long("CLIENT")(len(message), limit)))
        return False

    def _expire(self) -> None:
        self._finish(status_of(PeerTimeout(f"{self._method} did not end in time")))

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
        if self._call is not None:
            self._call.on_change = None
            self._call.cancel()
        self._channel.ended()


def _set_from_thread(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any) -> None:
    """Set the result, on the loop, of a future that nothing else has set; from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(lambda: future.done() or future.set_result(result))


def _bytes(message: Any, name: str) -> bytes:
    """Return the message, b"" for None. Raises TypeError in the words of grpc."""
    if message is not None and not isinstance(message, bytes):
        raise TypeError(f"Argument '{name}' has incorrect type (expected bytes, got {type(message).__name__})")
    return message or b""
