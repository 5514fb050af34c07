"""The servicers of the suite: they answer with what they were asked, so that only the way there is measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lucky_transport import inline
from lucky_transport_migration.bench.workloads.stubs.echo_stub import EchoServicer

__all__ = ["NUMBER_BYTES", "AioEcho", "Echo", "item_number"]

NUMBER_BYTES = 8


def item_number(item: BytesValue) -> int:
    """Return which of its stream an item is, from 0."""
    return int.from_bytes(item.value[:NUMBER_BYTES], "little")


class Echo(EchoServicer):
    """A servicer for grpc.server and for ours; `item_bytes`: of an item of Watch."""

    def __init__(self, item_bytes: int) -> None:
        self._padding = bytes(item_bytes - NUMBER_BYTES)

    def Ask(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    @inline
    def AskInline(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return StringValue(value=request.value)

    def Send(self, request: BytesValue, context: Any) -> BytesValue:  # noqa: N802 - as the stub calls it
        return BytesValue(value=request.value)

    def Watch(self, request: UInt64Value, context: Any) -> Iterator[BytesValue]:  # noqa: N802 - as the stub calls it
        padding = self._padding
        for number in range(request.value):
            yield BytesValue(value=number.to_bytes(NUMBER_BYTES, "little") + padding)


class AioEcho(EchoServicer):
    """The same for grpc.aio.server and for ours of asyncio."""

    def __init__(self, item_bytes: int) -> None:
        self._sync = Echo(item_bytes)

    async def Ask(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return self._sync.Ask(request, context)

    async def AskInline(self, request: StringValue, context: Any) -> StringValue:  # noqa: N802 - as the stub calls it
        return self._sync.Ask(request, context)

    async def Send(self, request: BytesValue, context: Any) -> BytesValue:  # noqa: N802 - as the stub calls it
        return self._sync.Send(request, context)

    async def Watch(self, request: UInt64Value, context: Any) -> AsyncIterator[BytesValue]:  # noqa: N802 - as above
        for item in self._sync.Watch(request, context):
            yield item
