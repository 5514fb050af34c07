"""What comes when: ends and messages in their order, and who is held up by whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def test_the_end_of_a_stream_is_known_once_its_messages_were_taken(ends: Any) -> None:
    async def three(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"%d" % number
        await context.abort(grpc.StatusCode.DATA_LOSS, "the rest is lost")

    client = await ends.pair({"unary_stream Three": three, "unary_unary Echo": echo})
    call = client.unary_stream("Three")(b"")
    assert await call.initial_metadata() == grpc.aio.Metadata()
    await client.unary_unary("Echo")(b"")  # what was sent before has come by now
    assert not call.done()
    assert [await call.read() for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(grpc.aio.AioRpcError, match="the rest is lost"):
        await call.read()
    assert await call.code() is grpc.StatusCode.DATA_LOSS


async def test_a_caller_that_takes_nothing_holds_up_its_stream_and_nobody_else(ends: Any) -> None:
    sent: list[int] = []

    async def flood(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(100_000):
            sent.append(number)
            yield bytes(1000)

    client = await ends.pair({"unary_stream Flood": flood, "unary_unary Echo": echo})
    call = client.unary_stream("Flood")(b"")
    await call.read()
    for number in range(50):
        assert await client.unary_unary("Echo")(b"%d" % number) == b"%d" % number
    assert len(sent) < 10_000
    call.cancel()


async def test_a_server_that_takes_nothing_holds_up_the_writer_and_nobody_else(ends: Any) -> None:
    async def deaf(requests: AsyncIterator[bytes], context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    client = await ends.pair({"stream_unary Deaf": deaf, "unary_unary Echo": echo})
    call = client.stream_unary("Deaf")()

    async def write_for_ever() -> None:
        while True:
            await call.write(bytes(1000))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(write_for_ever(), 0.2)
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert call.cancelled()


async def test_a_request_longer_than_the_ring_does_not_hold_up_the_loop(ends: Any) -> None:
    """The server reads nothing meanwhile: it is the loop that must be free to let it."""

    async def length(request: bytes, context: Any) -> bytes:
        return b"%d" % len(request)

    async def lengths(requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b"%d" % sum([len(request) async for request in requests])

    options = (("grpc.max_receive_message_length", -1),)
    server = await ends.serve({"unary_unary Length": length, "stream_unary Lengths": lengths}, options=options)
    client = ends.dial(server)
    assert await client.unary_unary("Length")(bytes(20_000_000)) == b"20000000"
    assert await client.stream_unary("Lengths")([bytes(5_000_000)] * 4) == b"20000000"
