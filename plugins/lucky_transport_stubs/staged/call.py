"""One asyncio call of a staged channel: the primary's compiled call, whose messages are reported to the router.

A read that shared memory cannot answer, because the engine is unreachable or dies before its first message, is made
again over gRPC. Until then it is not done for its caller, and has no status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lucky_transport.routing import LEFT, RoutedCall
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import EOF
from lucky_transport_stubs.staged.ending import aio_ending, falls_back, sent

#: Makes a compiled call over a transport ("grpc", "shm"), not started; waits for an engine to be ready if the caller
#: asked for that and the second argument is True.
Make = Callable[[str, bool], Any]


class StagedCall:
    """Everything that is not here is the compiled call's own."""

    def __init__(self, channel: Any, routed: RoutedCall, make: Make) -> None:
        self._channel = channel  # the name by which grpc.aio 1.60 finds the calls of a channel that closes
        self._routed = routed
        self._make = make
        self._is_open = routed.can_fall_back  # True until it is known which transport answers
        self._known = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []
        self._call = make(routed.decision.primary, not self._is_open)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __repr__(self) -> str:
        return repr(self._call)

    def __del__(self) -> None:
        if "_call" not in vars(self):  # the primary's channel is closed
            return
        self._routed.left()
        if self._call.done():  # it was not read to its end
            self._routed.ends(LEFT)

    # -- how it stands ------------------------------------------------------------------------------------------------

    def done(self) -> bool:
        return not self._is_open and self._call.done()

    def is_ok(self) -> bool:
        return not self._is_open and self._call.is_ok()

    def cancelled(self) -> bool:
        return not self._is_open and self._call.cancelled()

    async def status(self) -> Any:
        await self._which()
        return await self._call.status()

    async def initial_metadata(self) -> Any:
        await self._which()
        return await self._call.initial_metadata()

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self._is_open:
            self._callbacks.append(callback)
        else:
            self._call.add_done_callback(callback)

    def cancel(self, details: str) -> None:
        self._call.cancel(details)
        self._routed.ends(LEFT)
        self._settle()

    async def _which(self) -> None:
        """Wait until it is known which transport answers."""
        if self._is_open:
            await self._known.wait()

    def _settle(self) -> None:
        """The call that there is now is the caller's."""
        if self._is_open:
            self._is_open = False
            self._known.set()
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                self._call.add_done_callback(callback)

    def _falls_back(self) -> bool:
        """Return True when the call has come to nothing and is to be made again, now over gRPC."""
        if not self._is_open or not self._call.done():
            return False
        is_made_again = falls_back(self._routed, aio_ending(self._call))
        if is_made_again:
            try:
                self._call = self._make("grpc", True)
            except grpc.aio.UsageError:  # its channel is closed: the first call stands
                is_made_again = False
        self._settle()
        return is_made_again

    # -- what the Python half of grpc.aio calls -----------------------------------------------------------------------

    async def unary_unary(self, request: Any, metadata: Any, *rest: Any) -> Any:
        self._routed.begins("unary_unary", sent(metadata))
        self._sends(request)
        response = await self._call.unary_unary(request, metadata, *rest)
        if self._falls_back():
            response = await self._call.unary_unary(request, metadata, *rest)
        self._settle()
        self._answered(response)
        return response

    async def initiate_unary_stream(self, request: Any, metadata: Any, *rest: Any) -> None:
        self._routed.begins("unary_stream", sent(metadata))
        self._sends(request)
        await self._call.initiate_unary_stream(request, metadata, *rest)
        if self._falls_back():
            await self._call.initiate_unary_stream(request, metadata, *rest)
        self._settle()

    async def stream_unary(self, metadata: Any, *rest: Any) -> Any:
        self._waits_as_asked()
        self._routed.begins("stream_unary", sent(metadata))
        response = await self._call.stream_unary(metadata, *rest)
        self._answered(response)
        return response

    async def initiate_stream_stream(self, metadata: Any, *rest: Any) -> None:
        self._waits_as_asked()
        self._routed.begins("stream_stream", sent(metadata))
        await self._call.initiate_stream_stream(metadata, *rest)

    async def send_serialized_message(self, message: Any) -> None:
        self._sends(message)
        await self._call.send_serialized_message(message)

    async def send_receive_close(self) -> None:
        self._routed.sends_no_more()
        await self._call.send_receive_close()

    async def receive_serialized_message(self) -> Any:
        message = await self._call.receive_serialized_message()
        if message is EOF:
            await self._call.status()
            self._routed.ends(aio_ending(self._call))
        else:
            self._routed.receives(message)
        return message

    def _sends(self, payload: Any) -> None:
        if isinstance(payload, bytes):  # gRPC refuses what is no bytes
            self._routed.sends(payload)

    def _waits_as_asked(self) -> None:
        """A call with a stream of requests cannot be made again, so it waits for an engine where that was asked."""
        if self._is_open:
            self._call.cancel("another call takes its place")
            self._call = self._make(self._routed.decision.primary, True)
            self._settle()

    def _answered(self, response: Any) -> None:
        """The call with one response has ended."""
        if isinstance(response, bytes) and self._call.is_ok():
            self._routed.receives(response)
        self._routed.ends(aio_ending(self._call))
