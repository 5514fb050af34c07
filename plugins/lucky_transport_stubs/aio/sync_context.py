"""The context of blocking handlers that an asyncio server runs on its thread pool.

Its methods are called on a thread of the pool; what sends something is done on the loop, and awaited. A wait ends when
the loop no longer runs. It has all of `grpc.ServicerContext`, so that servicers written for a thread-pool server run
unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from lucky_transport.errors import Cancelled
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.context import ServicerContext, StatusContext
from lucky_transport_stubs.aio.rpc import ServerRpc
from lucky_transport_stubs.grpc_inside import EOF, AioSyncServicerContext, appears_as

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
    """`context`, for a handler outside of the loop."""

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
