"""A call in asyncio, in the place of grpc's compiled `_AioCall`: messages are bytes here.

It does what its `CallMachine` answers (`_do`), and hears what came of that, all on the loop's thread:

    from                              at            tells the machine    or ends the call
    the program                       _start_call   begin                metadata, a request that cannot be sent
    the connection                    connected     connected
    the connection, before it opens   failed        failed
    the credentials' thread           _fetched      fetched
    the timer of a pause              _begin        begin
    the present attempt               _on_news      news                 _end_if_taken: it has ended, and all was taken
    the deadline's timer              _expire                            LATE
    the program                       cancel                             CANCELLED

Every end goes through `_finish` or `cancel` of `AioCallState`, which calls `_let_go` once. Nothing blocks the loop and
there is no thread: coroutines that wait look again at each news.
Messages that came before the end are handed out before it; after a cancel or the deadline there are none. The deadline
ends the call wherever it is, also while it waits for a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import cached_property, partial
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
from lucky_transport_stubs.client.requests import PushedRequests
from lucky_transport_stubs.grpc_inside import EOF
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import metadata_of, within_limit
from lucky_transport_stubs.words.status import LATE, status_of

#: For speed: a flag's own `&` takes a microsecond.
_STREAMED_THERE = (Shape.CLIENT_STREAM, Shape.BIDIRECTIONAL)


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
        self._shape, self._payload = Shape.UNARY, b""
        self._attempt: ClientCall | None = None  # the present one
        self._pending: asyncio.Future[Any] | asyncio.TimerHandle | None = None  # the credentials' metadata, or a pause
        self._timer: asyncio.TimerHandle | None = None  # of the deadline
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
            assert self._attempt is not None
            message, self._peeked = self._peeked, None
            if message is None:
                message = self._attempt.try_recv()
            if message is None:
                await self._changed.wait()
            elif self._fits(self._messages.response, message):
                self._end_if_taken()
                return message
        return EOF

    async def send_serialized_message(self, message: bytes | None) -> None:
        """Send a message; waits while the other side takes no more. Raises InternalError when the call has ended."""
        payload, requests = _bytes(message, "message"), self._requests
        self._fits(self._messages.check_length, payload)
        if not self.done():
            if self._machine.is_committed and requests.send(payload):
                self._channel.expect()
                return
            count = requests.add(payload)
            while requests.sent < count and not self.done():
                await self._changed.wait()
            if requests.sent >= count:
                return
        raise grpc.aio.InternalError("the call has ended")

    async def send_receive_close(self) -> None:
        """Say that no further message comes, as soon as the call is open; no effect once it has ended."""
        self._requests.complete()  # also before the call is started

    # -- what the machine says ----------------------------------------------------------------------------------------

    async def _open(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes = b"") -> None:
        """Have the call under way; one that cannot be has its status when this returns."""
        self._start_call(shape, metadata, payload)
        while not self._machine.is_open and not self.done():
            await self._changed.wait()

    def _start_call(self, shape: Shape, metadata: tuple[Any, ...], payload: bytes) -> None:
        """Begin the call; one that cannot be has its status when this returns."""
        self._shape, self._payload = shape, payload
        try:
            settings = self._channel.settings
            self._prepared.entries = settings.entries(metadata) if metadata else settings.plain_entries
        except StatusError as error:
            self._finish(status_of(error))
            return
        self._fits(self._messages.check_length, payload)
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
            self._pending = found = self._loop.create_future()
            found.add_done_callback(self._fetched)
            action.fetch(partial(_set_from_thread, self._loop, found))
        elif isinstance(action, Open):
            self._open_attempt(action)
        elif isinstance(action, Pause):
            self._pending = self._loop.call_later(action.seconds, self._begin)
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
            attempt = action.connection.open(
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
        self._attempt = attempt
        if streams := self._shape in _STREAMED_THERE:
            self._requests.begin(attempt)
        attempt.on_change = self._on_news
        if streams or attempt.is_ended():
            self._on_news()

    def _on_news(self) -> None:
        """Something has come for the attempt, or it has ended. The thread that reports it must not be delayed."""
        attempt, machine = self._attempt, self._machine
        if attempt is None or self._loop.is_closed():
            return
        action = machine.news(attempt)
        if action is not None:  # the attempt has failed
            self._attempt = None
            self._loop.call_soon(self._do, action)
            return
        if self._shape in _STREAMED_THERE:
            self._requests.go_on()
        if machine.is_committed:
            if self._initial_metadata is None and (headers := attempt.headers) is not None:
                self._start(metadata_of(within_limit(headers)) if headers else ())
            if attempt.is_ended():
                if self._response is None or self._done_callbacks or not is_running_here(self._loop):
                    self._loop.call_soon(self._end_if_taken)
                else:
                    self._end_if_taken()
        if self._changed.waiters:
            self._changed.notify()

    # -- within -------------------------------------------------------------------------------------------------------

    @cached_property
    def _requests(self) -> PushedRequests:
        return PushedRequests(self._prepared.retries, self._prepared.buffer_bytes)

    def _end_if_taken(self) -> None:
        """Take the status, once the call has ended and nothing is left to be handed out."""
        attempt = self._attempt
        if self._machine.status is not None:
            # A signal handler's exception may have come between the status and who waits for it.
            self._answer()
        elif attempt is not None and attempt.is_ended():
            if self._peeked is None:
                self._peeked = attempt.try_recv()
            last = self._peeked  # of a stream it is still to be asked for
            if last is None or (self._response is not None and self._fits(self._messages.response, last)):
                self._finish(self._machine.ended_with(attempt))

    def _fits(self, check: Callable[[bytes], Any], message: bytes) -> bool:
        """True unless the check refuses the message: then the call has failed."""
        try:
            check(message)
        except StatusError as error:
            self._finish(status_of(error))
            return False
        return True

    def _expire(self) -> None:
        self._finish(LATE)

    def _let_go(self) -> None:
        for awaited in (self._timer, self._pending):
            if awaited is not None:
                awaited.cancel()
        if self._attempt is not None:
            self._attempt.on_change = None
            self._attempt.cancel()
        self._channel.ended(self)


def _set_from_thread(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any) -> None:
    """Set the result, on the loop, of a future that nothing else has set; from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(lambda: future.done() or future.set_result(result))


def _bytes(message: Any, name: str) -> bytes:
    """Return the message, b"" for None. Raises TypeError in the words of grpc."""
    if message is not None and not isinstance(message, bytes):
        raise TypeError(f"Argument '{name}' has incorrect type (expected bytes, got {type(message).__name__})")
    return message or b""
