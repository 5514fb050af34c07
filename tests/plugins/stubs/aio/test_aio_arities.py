"""The four kinds of calls, in all the ways that grpc.aio has to make and to answer them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.grpc_inside import EOF


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def count(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for number in range(int(request)):
        yield b"%d" % number


async def count_by_writing(request: bytes, context: Any) -> None:
    for number in range(int(request)):
        await context.write(b"%d" % number)


async def total(requests: AsyncIterator[bytes], context: Any) -> bytes:
    return b"%d" % sum([int(request) async for request in requests])


async def total_by_reading(requests: AsyncIterator[bytes], context: Any) -> bytes:
    found = 0
    while (request := await context.read()) is not EOF:
        found += int(request)
    return b"%d" % found


async def double(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield b"%d" % (2 * int(request))


async def double_by_writing(requests: AsyncIterator[bytes], context: Any) -> None:
    while (request := await context.read()) is not EOF:
        await context.write(b"%d" % (2 * int(request)))


NUMBERS = [b"0", b"1", b"2"]


async def _some() -> AsyncIterator[bytes]:
    for number in NUMBERS:
        yield number


async def _listed(call: Any) -> list[bytes]:
    return [response async for response in call]


async def _read(call: Any) -> list[bytes]:
    found: list[bytes] = []
    while (response := await call.read()) is not EOF:
        found.append(response)
    return found


def test_a_unary_call_has_a_response_and_all_that_goes_with_it(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_unary Echo": echo})
        call = client.unary_unary("Echo")(b"hello")
        assert not call.done()
        assert await call == b"hello"
        assert await call == b"hello"
        assert call.done()
        assert not call.cancelled()
        assert await call.code() is grpc.StatusCode.OK
        assert await call.details() == ""
        assert await call.initial_metadata() == grpc.aio.Metadata()
        assert await call.trailing_metadata() == grpc.aio.Metadata()
        assert "StatusCode.OK" in repr(call)

    aio(scenario)


@pytest.mark.parametrize("answer", [count, count_by_writing])
@pytest.mark.parametrize("take", [_listed, _read])
def test_a_server_stream_is_iterated_or_read(aio: Any, answer: Any, take: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_stream Count": answer})
        call = client.unary_stream("Count")(b"3")
        assert await take(call) == NUMBERS
        assert await call.code() is grpc.StatusCode.OK
        assert await take(client.unary_stream("Count")(b"0")) == []

    aio(scenario)


@pytest.mark.parametrize("answer", [total, total_by_reading])
@pytest.mark.parametrize("requests", [lambda: NUMBERS, lambda: iter(NUMBERS), _some])
def test_a_client_stream_takes_any_iterable(aio: Any, answer: Any, requests: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_unary Total": answer})
        assert await client.stream_unary("Total")(requests()) == b"3"
        assert await client.stream_unary("Total")([]) == b"0"

    aio(scenario)


def test_a_client_stream_can_be_written(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_unary Total": total})
        call = client.stream_unary("Total")()
        for number in NUMBERS:
            await call.write(number)
        await call.done_writing()
        await call.done_writing()
        with pytest.raises(asyncio.InvalidStateError, match="half closed"):
            await call.write(b"4")
        assert await call == b"3"
        with pytest.raises(asyncio.InvalidStateError, match="already finished"):
            await call.write(b"4")

    aio(scenario)


@pytest.mark.parametrize("answer", [double, double_by_writing])
def test_both_sides_talk_in_turns(aio: Any, answer: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_stream Double": answer})
        call = client.stream_stream("Double")()
        for number in range(50):
            await call.write(b"%d" % number)
            assert await call.read() == b"%d" % (2 * number)
        await call.done_writing()
        assert await call.read() is EOF
        assert await call.code() is grpc.StatusCode.OK

    aio(scenario)


def test_a_stream_without_any_message_ends_well(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_stream Double": double})
        assert await _listed(client.stream_stream("Double")([])) == []

    aio(scenario)


def test_long_streams_flow_both_ways_at_once(aio: Any) -> None:
    def numbers() -> Iterator[bytes]:
        return (b"%d" % number for number in range(3000))

    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_stream Double": double})
        got = await _listed(client.stream_stream("Double")(numbers()))
        assert got == [b"%d" % (2 * number) for number in range(3000)]

    aio(scenario)


def test_iterating_and_reading_may_not_be_mixed(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_stream Count": count, "stream_stream Double": double})
        call = client.unary_stream("Count")(b"9")
        assert await call.read() == b"0"
        with pytest.raises(grpc.aio.UsageError, match="may not be mixed"):
            await _listed(call)
        call = client.stream_stream("Double")(NUMBERS)
        with pytest.raises(grpc.aio.UsageError, match="may not be mixed"):
            await call.write(b"4")
        assert await _listed(call) == [b"0", b"2", b"4"]

    aio(scenario)


def test_a_request_iterator_that_raises_cancels_its_call(aio: Any) -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise ValueError("no more")

    async def scenario(ends: Any) -> None:
        client = await ends.pair({"stream_unary Total": total})
        with pytest.raises(asyncio.CancelledError):
            await client.stream_unary("Total")(broken())

    aio(scenario)


def test_many_calls_run_at_once_over_one_connection(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_unary Echo": echo, "stream_stream Double": double})
        calls = [client.unary_unary("Echo")(b"%d" % number) for number in range(200)]
        streams = [_listed(client.stream_stream("Double")(NUMBERS)) for _ in range(50)]
        assert await asyncio.gather(*calls) == [b"%d" % number for number in range(200)]
        assert await asyncio.gather(*streams) == 50 * [[b"0", b"2", b"4"]]

    aio(scenario)


def test_a_connection_can_be_waited_for_in_each_arity(aio: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair(
            {"unary_unary Echo": echo, "unary_stream Count": count, "stream_stream Double": double}
        )
        for call in (
            client.unary_unary("Echo")(b""),
            client.unary_stream("Count")(b"1"),
            client.stream_stream("Double")(),
        ):
            await call.wait_for_connection()
            call.cancel()

    aio(scenario)


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_000_000, 4_000_000])
def test_messages_of_every_length_arrive_whole(aio: Any, size: int) -> None:
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)

    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_unary Echo": echo, "stream_stream Mirror": mirror})
        assert await client.unary_unary("Echo")(message) == message
        assert await _listed(client.stream_stream("Mirror")([message, message])) == [message, message]

    async def mirror(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    aio(scenario)


@pytest.mark.parametrize("message", ["text", 3, bytearray(b"x")])
def test_what_is_no_bytes_is_refused_where_it_is_given(aio: Any, message: Any) -> None:
    async def scenario(ends: Any) -> None:
        client = await ends.pair({"unary_unary Echo": echo, "stream_unary Total": total})
        with pytest.raises(TypeError, match="expected bytes, got"):
            await client.unary_unary("Echo")(message)
        call = client.stream_unary("Total")()
        with pytest.raises(TypeError, match="expected bytes, got"):
            await call.write(message)
        call.cancel()

    aio(scenario)
