"""Threads and asyncio at the two ends of one connection, and every way to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


def _path(name: str) -> str:
    return f"/t.Test/{name}"


# -- handlers that say the same in both worlds ------------------------------------------------------------------------


async def aio_unary(request: bytes, context: Any) -> bytes:
    if request == b"abort":
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here", (("key-bin", b"\x00"),))
    await context.send_initial_metadata((("first", "1"),))
    context.set_trailing_metadata((("last", "1"),))
    return request


async def aio_double(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request
        yield request


async def aio_total(requests: AsyncIterator[bytes], context: Any) -> bytes:
    return b"".join([request async for request in requests])


async def aio_count(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for number in range(int(request)):
        yield b"%d" % number


def sync_unary(request: bytes, context: Any) -> bytes:
    if request == b"abort":
        context.set_trailing_metadata((("key-bin", b"\x00"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "not here")
    context.send_initial_metadata((("first", "1"),))
    context.set_trailing_metadata((("last", "1"),))
    return request


def sync_double(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        yield request
        yield request


def sync_total(requests: Iterator[bytes], context: Any) -> bytes:
    return b"".join(requests)


def sync_count(request: bytes, context: Any) -> Iterator[bytes]:
    return (b"%d" % number for number in range(int(request)))


AIO = {
    "unary_unary Unary": aio_unary,
    "stream_stream Double": aio_double,
    "stream_unary Total": aio_total,
    "unary_stream Count": aio_count,
}
SYNC = {
    "unary_unary Unary": sync_unary,
    "stream_stream Double": sync_double,
    "stream_unary Total": sync_total,
    "unary_stream Count": sync_count,
}
PARTS = [b"a", b"bc", b""]
COUNTED = [b"%d" % number for number in range(500)]


def _call_from_a_thread(target: str) -> None:
    """Make a call of each arity, and one that fails, as a blocking program does."""
    with lucky_transport_stubs.channel(target) as channel:
        response, call = channel.unary_unary(_path("Unary")).with_call(b"hello", timeout=PATIENCE_S)
        assert response == b"hello"
        assert tuple(call.initial_metadata()) == (("first", "1"),)
        assert tuple(call.trailing_metadata()) == (("last", "1"),)
        assert list(channel.unary_stream(_path("Count"))(b"500", timeout=PATIENCE_S)) == COUNTED
        assert channel.stream_unary(_path("Total"))(iter(PARTS), timeout=PATIENCE_S) == b"abc"
        doubled = channel.stream_stream(_path("Double"))(iter(PARTS), timeout=PATIENCE_S)
        assert list(doubled) == [part for part in PARTS for _ in range(2)]
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(_path("Unary"))(b"abort", timeout=PATIENCE_S)
        error: Any = caught.value
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "not here")
        assert tuple(error.trailing_metadata()) == (("key-bin", b"\x00"),)


async def _call_from_a_loop(client: Any, error_of: Any) -> None:
    """The same, as an asyncio program does."""
    call = client.unary_unary("Unary")(b"hello")
    assert await call == b"hello"
    assert await call.initial_metadata() == grpc.aio.Metadata(("first", "1"))
    assert await call.trailing_metadata() == grpc.aio.Metadata(("last", "1"))
    assert [item async for item in client.unary_stream("Count")(b"500")] == COUNTED
    assert await client.stream_unary("Total")(PARTS) == b"abc"
    doubled = [item async for item in client.stream_stream("Double")(PARTS)]
    assert doubled == [part for part in PARTS for _ in range(2)]
    call = client.unary_unary("Unary")(b"abort")
    assert await error_of(call) == ("NOT_FOUND", "not here")
    assert await call.trailing_metadata() == grpc.aio.Metadata(("key-bin", b"\x00"))


async def test_threads_call_an_asyncio_server(ends: Any) -> None:
    server = await ends.serve(AIO)
    await asyncio.gather(*(asyncio.to_thread(_call_from_a_thread, server.target) for _ in range(3)))


async def test_a_loop_calls_a_server_of_threads(ends: Any, address: Any, error_of: Any, handlers_of: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        server = lucky_transport_stubs.server(pool, handlers=(handlers_of(SYNC),))
        server.add_insecure_port(target := address())
        server.start()
        try:
            await asyncio.gather(*(_call_from_a_loop(ends.dial(target), error_of) for _ in range(3)))
        finally:
            server.stop(None)


async def test_loop_and_threads_share_a_server(ends: Any, error_of: Any) -> None:
    server = await ends.serve(AIO)
    await asyncio.gather(
        asyncio.to_thread(_call_from_a_thread, server.target), _call_from_a_loop(ends.dial(server), error_of)
    )


@pytest.mark.parametrize("strategy", ["block", "adaptive", "spin"])
async def test_every_way_to_wait_works(
    ends: Any, error_of: Any, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setenv("LUCKY_WAIT", strategy)
    server = await ends.serve(AIO)
    await _call_from_a_loop(ends.dial(server), error_of)
    await asyncio.to_thread(_call_from_a_thread, server.target)
