"""Calls that stay on gRPC while a test is switched are seen, also those by a channel that was made before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

grpc = pytest.importorskip("grpc")

from lucky_transport_migration.side_by_side.switched_grpc import SwitchedGrpc  # noqa: E402

METHOD = "/weather.v1.Weather/GetForecast"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    forecast = {"GetForecast": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("weather.v1.Weather", forecast),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(scope="module")
def switch() -> Iterator[SwitchedGrpc]:
    switch = SwitchedGrpc()
    yield switch
    switch.close()


Caller = Callable[[], Any]


def channel_of_this_thread(target: str) -> Caller:
    method = grpc.insecure_channel(target).unary_unary(METHOD)
    return lambda: method(b"Oslo")


def channel_of_another_thread(target: str) -> Caller:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(channel_of_this_thread, target).result()


def channel_of_asyncio(target: str) -> Caller:
    loop = asyncio.new_event_loop()

    async def make() -> Any:
        return grpc.aio.insecure_channel(target).unary_unary(METHOD)

    async def ask(method: Any) -> Any:
        return await method(b"Oslo")

    method = loop.run_until_complete(make())
    return lambda: loop.run_until_complete(ask(method))


@pytest.mark.parametrize("make", [channel_of_this_thread, channel_of_another_thread, channel_of_asyncio])
def test_calls_by_a_channel_that_was_made_before_are_seen(
    make: Callable[[str], Caller], target: str, switch: SwitchedGrpc
) -> None:
    call = make(target)
    call()
    before = switch.counts()
    with switch.switched():
        assert switch.since(before) == (0, "")
        assert call() == b"Oslo"
        assert f"1 call went over gRPC, none over shared memory ({target}: " in switch.since(before)[1]
