"""The servicer's contexts of an asyncio server, for handlers on its loop and in its pool, over one `ServerRpc`.

Texts and exceptions are those of grpc.aio, so that handlers and their tests need not know where they run. Compression
may be asked for and changes nothing: there is no wire to save bytes on.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from lucky_transport.errors import Cancelled
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.rpc import ServerRpc
from lucky_transport_stubs.grpc_inside import EOF, AioServicerContext, AioSyncServicerContext, appears_as
from lucky_transport_stubs.server.context import CallerContext
from lucky_transport_stubs.words.status import number_of

_PAIRS = "Tuple[Tuple[str, Union[str, bytes]]...]"
_HIGHEST_NUMBER = 15  # as grpc.aio has it: 16, UNAUTHENTICATED, is taken as a StatusCode only
_UNKNOWN = number_of(grpc.StatusCode.UNKNOWN)
_CANCELLED = number_of(grpc.StatusCode.CANCELLED)


class StatusContext(CallerContext):
    """What handlers on the loop and in the pool are given alike: the call's metadata, status and time."""

    _rpc: ServerRpc

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Set the metadata that comes with the end. Raises TypeError for anything but pairs of text and value."""
        if not hasattr(trailing_metadata, "__iter__") or isinstance(trailing_metadata, dict):
            raise _no_pairs(trailing_metadata)
        pairs = tuple(trailing_metadata)
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
                raise _no_pairs(trailing_metadata)
            if not isinstance(pair[1], str | bytes):
                raise _no_pairs(trailing_metadata)
        self._rpc.trailing_metadata = pairs

    def trailing_metadata(self) -> Any:
        """Return what was set."""
        return self._rpc.trailing_metadata or ()

    def set_code(self, code: Any) -> None:
        """Set the status that the call ends with; what is no status counts as UNKNOWN."""
        self._rpc.code, self._rpc.number = code, _number_of(code)

    def code(self) -> Any:
        """Return the code as it was set, None when none was."""
        return self._rpc.code

    def set_details(self, details: str) -> None:
        """Set the status' text."""
        self._rpc.details = details

    def details(self) -> Any:
        """Return the status' text, "" before it is set."""
        return self._rpc.details or ""

    def set_compression(self, compression: Any) -> None:
        """Changes nothing. Raises RuntimeError once something was sent."""
        if self._rpc.has_started:
            raise RuntimeError("Compression setting must be specified before sending initial metadata")

    def disable_next_message_compression(self) -> None:
        """Changes nothing."""

    def time_remaining(self) -> Any:
        """Return the seconds that the caller still waits, None without a limit."""
        deadline = self._call.deadline
        return None if deadline is None else deadline.remaining_s


@appears_as(AioServicerContext)
class ServicerContext(StatusContext, grpc.aio.ServicerContext):
    """What a handler gets. `deserializer` and `serializer` are its method's; None: messages are bytes."""

    def __init__(
        self,
        rpc: ServerRpc,
        deserializer: Callable[[bytes], Any] | None = None,
        serializer: Callable[[Any], bytes] | None = None,
    ) -> None:
        self._rpc = rpc
        self._call = rpc.call
        self._security = rpc.security
        self._deserializer = deserializer
        self._serializer = serializer

    # -- messages -----------------------------------------------------------------------------------------------------

    async def read(self) -> Any:
        """Return the caller's next message, `grpc.aio.EOF` after the last. Raises UsageError, AbortError."""
        self._rpc.check()
        raw = await self._rpc.receive()
        self._rpc.check()
        return EOF if raw is None else self.deserialize(raw)

    async def write(self, message: Any) -> None:
        """Send a message; waits while the caller takes no more. Raises UsageError, AbortError, InternalError."""
        self._rpc.check()
        await self._rpc.send(self.serialize(message))

    def deserialize(self, raw: bytes) -> Any:
        """Return the message that came as these bytes."""
        return self._deserializer(raw) if self._deserializer else raw

    def serialize(self, message: Any) -> bytes:
        """Return a message's bytes; strings are encoded, and None is an empty message. Raises TypeError."""
        if isinstance(message, str):
            message = message.encode()
        raw = self._serializer(message) if self._serializer else message
        if raw is not None and not isinstance(raw, bytes):
            raise TypeError(f"Expected bytes, got {type(raw).__name__}")
        return raw or b""

    # -- metadata and status ------------------------------------------------------------------------------------------

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Send metadata ahead of the first message. Raises UsageError after the first message or a second time."""
        self._rpc.check()
        if self._rpc.has_started:
            raise grpc.aio.UsageError("Send initial metadata failed: already sent")
        self._rpc.send_headers(tuple(initial_metadata))

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        """End the call with this status; always raises, AbortError but for a second abort (UsageError)."""
        rpc = self._rpc
        if rpc.abort_error is not None:
            raise grpc.aio.UsageError("Abort already called!")
        rpc.abort_error = grpc.aio.AbortError("Locally aborted.")
        if trailing_metadata or not rpc.trailing_metadata:
            self.set_trailing_metadata(trailing_metadata)
        self.set_code(code)
        rpc.end_with(rpc.number or _UNKNOWN, details or self.details())
        raise rpc.abort_error

    async def abort_with_status(self, status: Any) -> NoReturn:
        """As `abort`, with what a `grpc.Status` says."""
        await self.abort(status.code, status.details, status.trailing_metadata)

    # -- the call -----------------------------------------------------------------------------------------------------

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Have `callback(context)` called once the handler has ended."""
        self._rpc.add_callback(functools.partial(callback, self))

    def done(self) -> bool:
        """Return True once the status has left."""
        return self._rpc.is_finished

    def cancelled(self) -> bool:
        """Return True when the handler set the status CANCELLED."""
        return self._rpc.number == _CANCELLED


def _number_of(code: Any) -> int:
    return code if isinstance(code, int) and 0 <= code <= _HIGHEST_NUMBER else number_of(code)


def _no_pairs(metadata: Any) -> TypeError:
    return TypeError(f"Invalid trailing metadata type, expected {_PAIRS}: {metadata}")


_Result = TypeVar("_Result")
_SLICE_S = 1.0


def await_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what the coroutine returns, run on `loop`; for other threads than the loop's.

    Raises what it raises, RuntimeError when the loop has ended.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        raise
    while True:
        try:
            return future.result(_SLICE_S)
        except TimeoutError:
            if future.done():  # it is what the coroutine raised, or came just now
                return future.result()
            if not loop.is_running():
                future.cancel()
                raise RuntimeError("the event loop of the server has ended") from None


@appears_as(AioSyncServicerContext)
class SyncServicerContext(StatusContext, grpc.ServicerContext):
    """`context`, for a blocking handler, on a thread of the pool.

    What sends something is done on the loop, and awaited; a wait ends when the loop no longer runs. It has all of
    `grpc.ServicerContext`, so that servicers written for a thread-pool server run unchanged.
    """

    def __init__(self, context: ServicerContext, rpc: ServerRpc) -> None:
        self._context = context
        self._rpc = rpc
        self._call = rpc.call
        self._security = rpc.security

    def requests(self) -> Iterator[Any]:
        """Yield the caller's messages until the last one."""
        while (message := await_on(self._rpc.loop, self._context.read())) is not EOF:
            yield message

    def send_all(self, responses: Iterable[Any]) -> None:
        """Send each message as it comes; waits while the caller takes no more. A generator is closed at the end."""
        try:
            for response in responses:
                await_on(self._rpc.loop, self._context.write(response))
        finally:
            if isinstance(responses, Generator):
                responses.close()

    # -- metadata and status ------------------------------------------------------------------------------------------

    def send_initial_metadata(self, initial_metadata: Any) -> None:
        await_on(self._rpc.loop, self._context.send_initial_metadata(initial_metadata))

    def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        await_on(self._rpc.loop, self._context.abort(code, details, trailing_metadata))
        raise AssertionError("abort always raises")

    def abort_with_status(self, status: Any) -> NoReturn:
        self.abort(status.code, status.details, status.trailing_metadata)

    # -- the call -----------------------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        return self._rpc.is_active

    def cancel(self) -> bool:
        """End the call as CANCELLED; False when it has ended already."""
        if not self.is_active():
            return False
        self._rpc.loop.call_soon_threadsafe(self._rpc.revoke, Cancelled("the servicer cancelled the call"))
        return True

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have `callback()` called once the handler has ended; False when the call has ended already."""
        return self.is_active() and self._rpc.add_callback(callback)
