"""One asyncio call of a staged channel: the authority's compiled call, whose messages the exchange is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lucky_transport_stubs.aio.inner import EOF
from lucky_transport_stubs.staged.ending import LEFT, aio_ending, sent
from lucky_transport_stubs.staged.exchange import Exchange

if TYPE_CHECKING:
    from lucky_transport_stubs.staged.connection import StagedConnection

__all__ = ["StagedCall"]


class StagedCall:
    """Everything that is not here is `call`'s own."""

    def __init__(self, channel: StagedConnection, call: Any, exchange: Exchange) -> None:
        self._channel = channel  # the name by which grpc.aio 1.60 finds the calls of a channel that closes
        self._call = call
        self._exchange = exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __repr__(self) -> str:
        return repr(self._call)

    def __del__(self) -> None:
        if self._call.done():  # nobody read it to its end
            self._exchange.ends(LEFT)

    async def unary_unary(self, request: Any, metadata: Any, *rest: Any) -> Any:
        self._exchange.begins("unary_unary", sent(metadata))
        self._exchange.sends(request)
        response = await self._call.unary_unary(request, metadata, *rest)
        self._answered(response)
        return response

    async def initiate_unary_stream(self, request: Any, metadata: Any, *rest: Any) -> None:
        self._exchange.begins("unary_stream", sent(metadata))
        self._exchange.sends(request)
        await self._call.initiate_unary_stream(request, metadata, *rest)

    async def stream_unary(self, metadata: Any, *rest: Any) -> Any:
        self._exchange.begins("stream_unary", sent(metadata))
        response = await self._call.stream_unary(metadata, *rest)
        self._answered(response)
        return response

    async def initiate_stream_stream(self, metadata: Any, *rest: Any) -> None:
        self._exchange.begins("stream_stream", sent(metadata))
        await self._call.initiate_stream_stream(metadata, *rest)

    async def send_serialized_message(self, message: Any) -> None:
        self._exchange.sends(message)
        await self._call.send_serialized_message(message)

    async def send_receive_close(self) -> None:
        self._exchange.sends_no_more()
        await self._call.send_receive_close()

    async def receive_serialized_message(self) -> Any:
        message = await self._call.receive_serialized_message()
        if message is EOF:
            await self._call.status()
            self._exchange.ends(aio_ending(self._call))
        else:
            self._exchange.receives(message)
        return message

    def cancel(self, details: str) -> None:
        self._call.cancel(details)
        self._exchange.ends(LEFT)

    def _answered(self, response: Any) -> None:
        """The call with one response has ended."""
        if isinstance(response, bytes) and self._call.is_ok():
            self._exchange.receives(response)
        self._exchange.ends(aio_ending(self._call))
