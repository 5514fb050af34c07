"""Channels of threads, or of one loop, with the same target and arguments share a connection, as gRPC's do; none harms
another.
"""

import asyncio
import re
import threading
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport_stubs.client.subchannel import MOST_CALLS, Subchannel
from lucky_transport_stubs.grpc_inside import compiled_half
from tests.support.resources import rings
from tests.support.waiting import PATIENCE_S, until_in_loop

from ..differential.both import FREE_WAYS, Driver, OverThreads
from ..differential.ends import path
from .conftest import Held, OurAioEnds, OurEnds, Service, code_of

State = grpc.ChannelConnectivity


async def peer(read: Any, context: Any) -> bytes:
    return context.peer().encode()


async def _served(driver: Any, **arguments: Any) -> Any:
    return await driver.serve({"unary_unary Peer": driver.behaviour("unary_unary", peer)}, **arguments)


async def _peer(driver: Any, channel: Any, **arguments: Any) -> bytes:
    method = channel.unary_unary(path("Peer"))
    found = (await driver.attempt(method, b"", timeout=PATIENCE_S, **arguments))["value"]
    assert re.fullmatch(rb"ipv4:127\.0\.0\.1:\d{4,5}", found)
    return found


async def test_channels_share_a_connection_also_when_they_connect_at_the_same_time(driver: Driver) -> None:
    target = (await _served(driver)).target
    channels = [driver.connect(target) for _ in range(10)]
    peers = await driver.gather(lambda number: _peer(driver, channels[number]), len(channels))
    assert {*peers, await _peer(driver, driver.connect(target))} == {peers[0]}


LOCAL = "grpc.use_local_subchannel_pool"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"options": (("grpc.max_receive_message_length", 10_000),)}),
        ({}, {"options": (("grpc.primary_user_agent", []),)}),
        ({}, {"compression": grpc.Compression.Gzip}),
        ({}, {"credentials": grpc.local_channel_credentials()}),
        ({"options": ((LOCAL, 1),)}, {"options": ((LOCAL, 1),)}),
        ({"options": ((LOCAL.encode(), 1),)}, {"options": ((LOCAL.encode(), 1),)}),
    ],
)
async def test_a_channel_with_other_arguments_or_with_a_pool_of_its_own_has_its_own_connection(
    driver: Driver, one: Any, other: Any
) -> None:
    target = (await _served(driver)).target
    assert await _peer(driver, driver.connect(target, **one)) != await _peer(driver, driver.connect(target, **other))


async def test_channels_of_two_loops_and_of_threads_share_nothing(aio: OurAioEnds, ends: OurEnds) -> None:
    target = (await _served(aio)).target

    def there() -> bytes:
        async def ask() -> bytes:
            async with lucky_transport_stubs.aio_channel(target) as channel:
                return await _peer(aio, channel)

        return asyncio.run(ask())

    threads = OverThreads(ends)
    of_threads = await asyncio.to_thread(lambda: asyncio.run(_peer(threads, threads.connect(target))))
    assert len({of_threads, await _peer(aio, aio.connect(target)), await asyncio.to_thread(there)}) == 3


async def test_closing_a_channel_ends_its_calls_alone(driver: Driver) -> None:
    begun, released = list[bytes](), driver.gate()

    async def hold(read: Any, context: Any) -> bytes:
        begun.append(await read())
        await released.happened()
        return b"done"

    names = {"unary_unary": "Hold", "unary_stream": "Stay"}
    handlers = {f"{arity} {name}": driver.behaviour(arity, hold, b"first") for arity, name in names.items()}
    target = (await driver.serve(handlers)).target
    channels = [driver.connect(target) for _ in range(2)]
    ways = [next(way for way in FREE_WAYS[driver.driver] if way.arity == arity) for arity in names]
    calls = [
        [driver.start(way, getattr(channel, way.arity)(path(names[way.arity]))) for way in ways] for channel in channels
    ]
    await until_in_loop(lambda: len(begun) == 4)
    await driver.close(channels[0])
    for way, call in zip(ways, calls[0], strict=True):
        assert "CANCELLED" in str(await driver.result(way, call)).upper()
        assert await driver.code(call) == "CANCELLED"
    released.set()
    for way, call in zip(ways, calls[1], strict=True):
        assert b"done" in (await driver.result(way, call)).get("items", [b"done"])
        assert await driver.code(call) == "OK"


def test_what_follows_a_call_of_one_channel_may_wait_for_that_of_another(ends: OurEnds, service: Service) -> None:
    server = ends.serve(service.methods)
    one, other = ends.dial(server), ends.dial(server)
    began, over, seen = (threading.Event() for _ in range(3))

    def wait(_: Any) -> None:
        began.set()
        assert over.wait(PATIENCE_S)
        seen.set()

    one.unary_unary("Echo").future(b"x").add_done_callback(wait)
    assert began.wait(PATIENCE_S)
    other.unary_unary("Echo").future(b"x").add_done_callback(lambda _: over.set())
    assert seen.wait(PATIENCE_S)


def test_a_connection_that_has_ended_is_not_joined_before_all_are_told_so(ends: OurEnds, service: Service) -> None:
    server = ends.serve(service.methods)
    one, other = ends.dial(server), ends.dial(server)
    assert one.unary_unary("Echo")(b"x") == b"x"
    calls = one.channel._channel.calls
    calls.on_break = None
    calls.close()
    assert other.unary_unary("Echo")(b"x") == one.unary_unary("Echo")(b"x") == b"x"


async def test_the_last_channel_that_closes_closes_the_connection(driver: Driver) -> None:
    before = rings()
    target = (await _served(driver)).target
    channels = [driver.connect(target) for _ in range(3)]
    for channel in channels:
        await _peer(driver, channel)
    assert rings() == before + 2  # of both ends
    for channel in channels:
        assert rings() == before + 2
        await driver.close(channel)
    await until_in_loop(lambda: rings() == before)


async def test_a_channel_that_closes_while_it_connects_leaves_the_connection_to_the_other(aio: OurAioEnds) -> None:
    server = await _served(aio)
    one, other = aio.dial(server), aio.dial(server)
    call = asyncio.ensure_future(_peer(aio, other.channel))
    one.channel.get_state(try_to_connect=True)
    await one.channel.close()
    assert await call


async def test_a_connection_that_ends_in_the_moment_it_is_joined_is_not_used(
    aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await _served(aio)
    one, other = aio.dial(server), aio.dial(server)
    first = await _peer(aio, one.channel)

    def drop(_: Subchannel) -> bool:
        compiled_half(one.channel).close()  # as the collector does it
        return False

    monkeypatch.setattr(Subchannel, "is_full", property(drop))
    assert await _peer(aio, other.channel) != first


async def test_all_find_the_server_that_comes_after(aio: OurAioEnds) -> None:
    server = await _served(aio, address=(target := aio.address()))
    clients = [aio.dial(target) for _ in range(3)]
    await asyncio.gather(*(_peer(aio, client.channel) for client in clients))
    await server.server.stop(None)
    await until_in_loop(lambda: all(client.channel.get_state() is State.IDLE for client in clients))
    for client in clients:
        assert await code_of(client.unary_unary("Peer")(b"")) == "UNAVAILABLE"
    waiting = [asyncio.ensure_future(_peer(aio, client.channel, wait_for_ready=True)) for client in clients]
    await _served(aio, address=target)
    assert len(set(await asyncio.gather(*waiting))) == 1


async def test_an_attempt_that_fails_ends_the_calls_of_all_but_those_that_wait(aio: OurAioEnds) -> None:
    target = aio.address()
    patient = asyncio.ensure_future(_peer(aio, aio.connect(target), wait_for_ready=True))
    calls = [aio.dial(target).unary_unary("Peer")(b"") for _ in range(3)]
    assert {await code_of(call) for call in calls} == {"UNAVAILABLE"}
    assert not patient.done()
    await _served(aio, address=target)
    assert await patient


@pytest.mark.parametrize("count", [1, 3])
async def test_more_calls_than_a_connection_takes_go_over_another_one(driver: Driver, count: int) -> None:
    begun, released, most = list[bytes](), driver.gate(), 3 * MOST_CALLS

    async def hold(read: Any, context: Any) -> bytes:
        begun.append(await peer(read, context))
        await released.happened()
        return b"done"

    target = (await driver.serve({"unary_unary Hold": driver.behaviour("unary_unary", hold)})).target
    channels, way = [driver.connect(target) for _ in range(count)], FREE_WAYS[driver.driver][0]
    calls = [driver.start(way, channels[number % count].unary_unary(path("Hold"))) for number in range(most)]
    released.set()
    assert [await driver.result(way, call) for call in calls] == [{"value": b"done"}] * most
    assert len(set(begun)) > 1


async def test_a_connection_that_has_free_space_again_is_used_again(aio: OurAioEnds) -> None:
    held = Held()
    client = await aio.pair({**held.methods, "unary_unary Peer": aio.behaviour("unary_unary", peer)})
    seen: set[bytes] = set()
    for _ in range(3):
        held.release.clear()
        held.begun = 0
        answers = asyncio.gather(*(client.unary_unary("Hold")(b"") for _ in range(MOST_CALLS)))
        await until_in_loop(lambda: held.begun == MOST_CALLS)
        seen.add(await _peer(aio, client.channel))
        held.release.set()
        await answers
    assert len(seen) <= 2
