"""Calls of grpc.aio over shared memory, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def count(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for number in range(int(request)):
        yield b"%d" % number


async def total(requests: AsyncIterator[bytes], context: Any) -> bytes:
    return b"%d" % sum([int(request) async for request in requests])


async def double(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield b"%d" % (2 * int(request))


async def _listed(call: Any) -> list[bytes]:
    return [response async for response in call]


async def test_long_streams_flow_both_ways_at_once(ends: Any) -> None:
    def numbers() -> Iterator[bytes]:
        return (b"%d" % number for number in range(3000))

    client = await ends.pair({"stream_stream Double": double})
    got = await _listed(client.stream_stream("Double")(numbers()))
    assert got == [b"%d" % (2 * number) for number in range(3000)]


async def test_a_connection_can_be_waited_for_in_each_arity(ends: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo, "unary_stream Count": count, "stream_stream Double": double})
    for call in (
        client.unary_unary("Echo")(b""),
        client.unary_stream("Count")(b"1"),
        client.stream_stream("Double")(),
    ):
        await call.wait_for_connection()
        call.cancel()


async def test_the_text_of_a_call_that_failed_names_its_status_and_why(ends: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo})
    call = client.unary_unary("Missing")(b"")
    await call.code()
    assert "status = StatusCode.UNIMPLEMENTED" in repr(call)
    assert f'debug_error_string = "{await call.debug_error_string()}"' in repr(call)


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_000_000, 4_000_000])
async def test_messages_of_every_length_arrive_whole(ends: Any, size: int) -> None:
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)

    async def mirror(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    client = await ends.pair({"unary_unary Echo": echo, "stream_stream Mirror": mirror})
    assert await client.unary_unary("Echo")(message) == message
    assert await _listed(client.stream_stream("Mirror")([message, message])) == [message, message]


@pytest.mark.parametrize("message", ["text", 3, bytearray(b"x")])
async def test_what_is_no_bytes_is_refused_where_it_is_given(ends: Any, message: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo, "stream_unary Total": total})
    with pytest.raises(TypeError, match="expected bytes, got"):
        await client.unary_unary("Echo")(message)
    call = client.stream_unary("Total")()
    with pytest.raises(TypeError, match="expected bytes, got"):
        await call.write(message)
    call.cancel()
