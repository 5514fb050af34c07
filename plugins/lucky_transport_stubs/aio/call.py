"""A call in asyncio, in the place of grpc's compiled `_AioCall`: messages are bytes here.

It does what its `CallMachine` says. Nothing blocks the loop and there is no thread: the connection tells `on_change`,
and coroutines that wait look.
Messages that came before the end are handed out before it; after a cancel or the deadline there are none. The deadline
ends the call wherever it is, also while it waits for a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import Any, Protocol

from lucky_transport.deadline import Deadline
from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.event_loop import is_running_here
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.outcome import AioCallState
from lucky_transport_stubs.client.call_machine import (
    Action,
    CallMachine,
    Connect,
    FetchMetadata,
    Open,
    Pause,
)
from lucky_transport_stubs.client.prepared import CallSettings, PreparedCall
from lucky_transport_stubs.client.reach import ConnectivityState
from lucky_transport_stubs.client.requests import KeptRequests
from lucky_transport_stubs.grpc_inside import EOF
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import metadata_of, within_limit
from lucky_transport_stubs.words.status import LATE, status_of

#: For speed: a flag's own `&` takes a microsecond.
_STREAMED_THERE = (Shape.CLIENT_STREAM, Shape.BIDIRECTIONAL)
_STREAMED_BACK = (Shape.SERVER_STREAM, Shape.BIDIRECTIONAL)


class CallOwner(Protocol):
    """What a call needs of its channel's connection."""

    loop: asyncio.AbstractEventLoop
    settings: CallSettings
    messages: Messages
    standing: ConnectivityState

    def current(self) -> ClientCalls | None:
        """Return the connection if it stands."""
        ...

    def connect(self, call: RingCall, wait_for_ready: bool) -> None:
        """Have `connected` of the call called, or `failed`, now or later; not once it has `ended`."""
        ...

    def expect(self) -> None:
        """Something was sent, which the server may answer at once."""
        ...

    def ended(self, call: RingCall) -> None:
        """The call has ended."""
        ...


class RingCall(AioCallState):
    """A call over `connection`, prepared but for its metadata. deadline: see `AioCallState`."""

    def __init__(self, connection: CallOwner, prepared: PreparedCall, deadline: float | None) -> None:
        super().__init__(connection.loop, CallMachine(prepared, connection.standing.status_of), deadline)
        self._channel = connection  # the name by which grpc.aio 1.60 finds the calls of a channel that closes
        self._prepared = prepared
        self._messages = connection.messages
        self._awaited: asyncio.Future[Any] | None = None  # the metadata of the credentials
        self._timer: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None  # between two attempts
        self._call: ClientCall | None = None  # the present attempt
        self._shape, self._payload = Shape.UNARY, b""
        self._streams_back = False
        self._kept: KeptRequests | None = None  # of a stream of requests
        self._sent = 0  # of what is kept, in the present attempt
        self._sent_once = 0  # in any attempt
        self._sends_no_more = False
        self._half_closed: ClientCall | None = None
        self._next: bytes | None = None  # the response; or a message that was taken to see whether it is the last
        self._response: asyncio.Future[bytes | None] | None = None  # of a call with one
        if deadline is not None:
            self._timer = self._loop.call_later(max(0.0, deadline - time.time()), self._expire)

    # -- what the Python half of grpc.aio calls -----------------------------------------------------------------------

    async def unary_unary(self, request: bytes | None, metadata: tuple[Any, ...], context: Any = None) -> bytes | None:
        """Return the response, None when the call failed. Raises TypeError for what is no message or no metadata."""
        return await self._responded(self.begin_unary(request, metadata))

    def begin_unary(self, request: bytes | None, metadata: tuple[Any, ...]) -> asyncio.Future[bytes | None]:
        """Start the call; the result is the response, None when the call failed. Raises as `unary_unary`."""
        payload = _bytes(request, "request")
        response = self._response = self._loop.create_future()
        self._start_call(Shape.UNARY, metadata, payload)
        return response

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
        response = self._response = self._loop.create_future()
        await self._open(Shape.CLIENT_STREAM, metadata)
        metadata_sent_observer()
        return await self._responded(response)

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
        payload, kept = _bytes(message, "message"), self._kept
        assert kept is not None
        self._refuse_too_long(payload)
        if not self.done():
            if not kept and self._call is not None and self._machine.is_committed and _try_send(self._call, payload):
                self._channel.expect()
                return  # it need not be kept: for speed
            kept.add(payload)
            count = kept.count
            self._send_kept()
            while self._sent_once < count and not self.done():
                await self._changed.wait()
            if self._sent_once >= count:
                return
        raise grpc.aio.InternalError("the call has ended")

    async def send_receive_close(self) -> None:
        """Say that no further message comes, as soon as the call is open; no effect once it has ended."""
        self._sends_no_more = True
        self._send_kept()

    # -- what the machine says ----------------------------------------------------------------------------------------

    async def _open(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes = b"") -> None:
        """Have the call under way; one that cannot be has its status when this returns."""
        self._start_call(shape, metadata, payload)
        while not self._machine.is_open and not self.done():
            await self._changed.wait()

    def _start_call(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes) -> None:
        """Begin the call; one that cannot be has its status when this returns."""
        self._shape, self._payload, self._streams_back = shape, payload, shape in _STREAMED_BACK
        if shape in _STREAMED_THERE:
            self._kept = KeptRequests(self._prepared.retries, self._prepared.buffer_bytes)
        try:
            settings = self._channel.settings
            self._prepared.entries = settings.entries(metadata) if metadata else settings.plain_entries
        except StatusError as error:
            self._finish(status_of(error))
            return
        self._refuse_too_long(payload)
        self._begin()

    def _begin(self) -> None:
        self._do(self._machine.begin(self._channel.current()))

    def _do(self, action: Action) -> None:
        """Do what the machine says, and tell it what came of that, at once or later."""
        if self.done():
            return
        if isinstance(action, Connect):
            self._channel.connect(self, action.is_patient)
        elif isinstance(action, FetchMetadata):
            self._awaited = self._loop.create_future()
            self._awaited.add_done_callback(self._fetched)
            action.fetch(partial(_set_from_thread, self._loop, self._awaited))
        elif isinstance(action, Open):
            self._open_attempt(action)
        elif isinstance(action, Pause):
            self._pause = self._loop.call_later(action.seconds, self._begin)
        else:
            self._finish(action.status)

    def connected(self, connection: ClientCalls) -> None:
        """The connection that was waited for stands."""
        self._do(self._machine.connected(connection))

    def failed(self, error: TransportError) -> None:
        """The attempt has come to nothing before it was open."""
        if not self.done():
            self._do(self._machine.failed(error))

    def _fetched(self, found: asyncio.Future[Any]) -> None:
        if not self.done():
            self._do(self._machine.fetched(found.result()))

    def _open_attempt(self, action: Open) -> None:
        deadline = None if self._deadline is None else Deadline(max(0.0, self._deadline - time.time()))
        try:
            call = action.connection.open(
                self._prepared.path,
                self._payload,
                shape=self._shape,
                deadline=deadline,
                metadata=action.metadata,
                may_wait=False,
            )
        except TransportError as error:
            self.failed(error)
            return
        self._channel.expect()
        self._call, self._sent = call, 0
        call.on_change = self._on_news
        if self._kept is not None or call.is_ended():
            self._on_news()

    def _on_news(self) -> None:
        call = self._call
        if call is None or self._loop.is_closed():
            return
        machine, is_ended = self._machine, call.is_ended()
        is_committed = machine.is_committed
        action = None if is_committed else machine.news(call)
        if action is not None:  # the attempt has failed
            self._call = None
            self._loop.call_soon(self._do, action)  # not here: the thread that reports it must not be delayed
            return
        if self._kept or self._sends_no_more:
            self._send_kept()
        if is_committed or machine.is_committed:
            if self._initial_metadata is None and (headers := call.headers) is not None:
                self._start(metadata_of(within_limit(headers)) if headers else ())
            if is_ended:
                if self._response is None or self._done_callbacks or not is_running_here(self._loop):
                    self._loop.call_soon(self._settle)  # not here, for the same reason
                else:
                    self._settle()
        if self._changed.waiters:
            self._changed.notify()

    def _send_kept(self) -> None:
        """Send of what is kept as much as the present attempt takes, and half-close after the last message."""
        call, kept = self._call, self._kept
        if call is None or kept is None or call.is_ended():
            return
        while self._sent < kept.count and _try_send(call, kept.get(self._sent)):
            self._sent += 1
            kept.sent(self._sent)
        self._sent_once = max(self._sent_once, self._sent)
        if self._sends_no_more and self._sent == kept.count and self._half_closed is not call:
            self._half_closed = call
            with contextlib.suppress(TransportError):  # it has just ended
                call.half_close()

    # -- within -------------------------------------------------------------------------------------------------------

    async def _responded(self, response: asyncio.Future[bytes | None]) -> bytes | None:
        """Return the one response at the end, None for none; raises what a done callback raised, as gRPC does."""
        try:
            return await response
        except asyncio.CancelledError:
            self._is_locally_cancelled = True  # also where the call has just ended: nobody awaits that any more
            raise

    def _answer(self) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_result(self._next)

    def _callback_failed(self, error: BaseException) -> None:
        if self._response is None:
            super()._callback_failed(error)
        elif not self._response.done():
            self._response.set_exception(error)

    def _refuse_too_long(self, payload: bytes) -> None:
        try:
            self._messages.check_length(payload)
        except StatusError as error:
            self._finish(status_of(error))

    def _settle(self) -> None:
        """Take the status, once the call has ended and nothing is left to be handed out."""
        call = self._call
        if self.done():  # a signal handler's exception may have come between its status and who waits for it
            self._answer()
        elif call is not None and call.is_ended():
            if self._next is None:
                self._next = call.try_recv()
            if self._next is None or (not self._streams_back and self._fits(self._next)):
                self._finish(self._machine.concluded(call))

    def _fits(self, message: bytes) -> bool:
        """True unless the message is too long for this side: then the call has failed."""
        try:
            self._messages.response(message)
        except StatusError as error:
            self._finish(status_of(error))
            return False
        return True

    def _expire(self) -> None:
        self._finish(LATE)

    def _let_go(self) -> None:
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
        if self._call is not None:
            self._call.on_change = None
            self._call.cancel()
        self._channel.ended(self)


def _set_from_thread(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any) -> None:
    """Set the result, on the loop, of a future that nothing else has set; from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(lambda: future.done() or future.set_result(result))


def _try_send(call: ClientCall, payload: bytes) -> bool:
    """Send the payload; False when the other side takes no more for now, and when the call has just ended."""
    try:
        return call.try_send(payload)
    except TransportError:
        return False


def _bytes(message: Any, name: str) -> bytes:
    """Return the message, b"" for None. Raises TypeError in the words of grpc."""
    if message is not None and not isinstance(message, bytes):
        raise TypeError(f"Argument '{name}' has incorrect type (expected bytes, got {type(message).__name__})")
    return message or b""
