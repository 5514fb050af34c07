"""Channels that are counted and otherwise what they were: every arity, every way to start a call, sync and asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.call_counts import CallCounter, CallCounters, Calls, read

grpc = pytest.importorskip("grpc")

import lucky_transport_stubs  # noqa: E402 - needs grpc
from lucky_transport_stubs.run.counts import counted  # noqa: E402 - needs grpc
from tests.support.appearance import appearance  # noqa: E402 - needs grpc

ECHO, COUNT, SUM, CHAT = "/t.T/Echo", "/t.T/Count", "/t.T/Sum", "/t.T/Chat"


@pytest.fixture
def counter_of(tmp_path: Path) -> Callable[[str], CallCounter]:
    counters = CallCounters(tmp_path)
    return lambda method: counters.counter(Calls("t", "", "", method))


@pytest.fixture
def counts(tmp_path: Path) -> Callable[[], dict[str, int]]:
    """What has been counted so far."""
    return lambda: {one.method: one.count for process in read(tmp_path) for one in process.calls}


@pytest.fixture
def channel(grpc_port: int, counter_of: Callable[[str], CallCounter]) -> Iterator[Any]:
    with counted(grpc.insecure_channel(f"127.0.0.1:{grpc_port}"), counter_of) as channel:
        yield channel


def test_every_arity_is_counted_and_answers_as_before(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    assert channel.unary_unary(ECHO)(b"x", timeout=10) == b"x"
    assert list(channel.unary_stream(COUNT)(b"ab")) == [b"a", b"b"]
    assert channel.stream_unary(SUM)(iter([b"a", b"b"])) == b"ab"
    assert list(channel.stream_stream(CHAT)(iter([b"a", b"b"]))) == [b"a", b"b"]
    assert counts() == {ECHO: 1, COUNT: 1, SUM: 1, CHAT: 1}


def test_every_way_to_start_a_call_counts_once(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    echo, add = channel.unary_unary(ECHO), channel.stream_unary(SUM)
    assert echo(b"x") == b"x"
    answer, call = echo.with_call(b"y")
    assert (answer, call.code()) == (b"y", grpc.StatusCode.OK)
    assert echo.future(b"z").result(10) == b"z"
    assert add.with_call(iter([b"a"]))[0] == b"a"
    assert add.future(iter([b"b"])).result(10) == b"b"
    assert counts() == {ECHO: 3, SUM: 2}
    assert not hasattr(channel.unary_stream(COUNT), "future")


def test_a_call_that_fails_is_counted_and_fails_as_before(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/t.T/Nothing")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert counts() == {"/t.T/Nothing": 1}


def test_a_counted_channel_is_a_channel(channel: Any) -> None:
    states: list[Any] = []
    assert isinstance(channel, grpc.Channel)
    grpc.channel_ready_future(channel).result(10)
    channel.subscribe(states.append)
    channel.unsubscribe(states.append)
    with channel as entered:
        assert entered is channel
    with pytest.raises(ValueError, match="closed channel"):
        channel.unary_unary(ECHO)(b"")


@pytest.mark.parametrize("way", ["grpc", "shm", "grpc.aio", "shm.aio"])
async def test_what_is_counted_looks_as_it_does_uncounted(
    way: str, grpc_port: int, counter_of: Callable[[str], CallCounter]
) -> None:
    make: dict[str, Callable[[], Any]] = {
        "grpc": lambda: grpc.insecure_channel(f"127.0.0.1:{grpc_port}"),
        "shm": lambda: lucky_transport_stubs.channel("shm://nobody"),
        "grpc.aio": lambda: grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}"),
        "shm.aio": lambda: lucky_transport_stubs.aio_channel("shm://nobody"),
    }
    plain, seen = make[way](), counted(make[way](), counter_of)
    assert appearance(seen, "channel") == appearance(plain, "channel")
    for arity in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        methods = [getattr(channel, arity)(ECHO) for channel in (plain, seen)]
        public = grpc if "aio" not in way else grpc.aio
        kind = getattr(public, f"{arity.title().replace('_', '')}MultiCallable")
        assert all(isinstance(method, kind) and method._method == ECHO.encode() for method in methods)
        assert appearance(methods[1], "method") == appearance(methods[0], "method")
        assert inspect.signature(methods[1]) == inspect.signature(methods[0])
        assert {*dir(methods[0])} <= {*dir(methods[1])}


def test_interceptors_see_and_change_its_calls(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    seen: Counter[str] = Counter()

    class Seeing(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            seen[details.method] += 1
            return continuation(details, request + b"!")

    intercepted = grpc.intercept_channel(channel, Seeing())
    assert intercepted.unary_unary(ECHO, _registered_method=True)(b"x") == b"x!"
    assert seen == counts() == {ECHO: 1}


def test_stubs_of_all_generations_get_their_callables(channel: Any, counts: Callable[[], dict[str, int]]) -> None:
    oldest = channel.unary_unary(ECHO, request_serializer=str.encode, response_deserializer=bytes.decode)
    newest = channel.unary_unary(ECHO, str.encode, bytes.decode, _registered_method=True)
    assert oldest("x") == newest("x") == "x"
    assert counts() == {ECHO: 2}


def test_asyncio_channels_are_counted_too(
    grpc_port: int, counter_of: Callable[[str], CallCounter], counts: Callable[[], dict[str, int]]
) -> None:
    async def use() -> None:
        async with counted(grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}"), counter_of) as channel:
            assert isinstance(channel, grpc.aio.Channel)
            await asyncio.wait_for(channel.channel_ready(), 10)
            assert channel.get_state() is grpc.ChannelConnectivity.READY
            echo = channel.unary_unary(ECHO)
            assert await asyncio.gather(*(echo(bytes([item])) for item in range(8))) == [bytes([i]) for i in range(8)]
            call = channel.unary_stream(COUNT)(b"ab")
            assert [item async for item in call] == [b"a", b"b"]
            assert await call.code() is grpc.StatusCode.OK
            assert await channel.stream_unary(SUM)(iter([b"a", b"b"])) == b"ab"
            assert [item async for item in channel.stream_stream(CHAT)(iter([b"a"]))] == [b"a"]

    asyncio.run(use())
    assert counts() == {ECHO: 8, COUNT: 1, SUM: 1, CHAT: 1}
