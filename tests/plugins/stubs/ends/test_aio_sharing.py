"""Channels of one loop with the same target and arguments share a connection, as gRPC's do; none harms another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.rpc.server import MAX_CALLS
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio.subchannel import MOST_CALLS, Subchannel
from lucky_transport_stubs.grpc_inside import compiled_half
from tests.support.resources import rings
from tests.support.waiting import PATIENCE_S, until_in_loop

from ..differential.ends import path
from .conftest import Held, OurAioEnds, code_of

State = grpc.ChannelConnectivity


async def peer(request: bytes, context: Any) -> bytes:
    return context.peer().encode()


PEER = {"unary_unary Peer": peer}


async def _peer(client: Any, **arguments: Any) -> bytes:
    return await client.unary_unary("Peer")(b"", timeout=PATIENCE_S, **arguments)


async def test_channels_share_a_connection_also_when_they_connect_at_the_same_time(aio: OurAioEnds) -> None:
    server = await aio.serve(PEER)
    peers = await asyncio.gather(*(_peer(aio.dial(server)) for _ in range(10)))
    assert {*peers, await _peer(aio.dial(server))} == {peers[0]}


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
    aio: OurAioEnds, one: Any, other: Any
) -> None:
    server = await aio.serve(PEER)
    assert await _peer(aio.dial(server, **one)) != await _peer(aio.dial(server, **other))


async def test_channels_of_two_loops_share_nothing(aio: OurAioEnds) -> None:
    server = await aio.serve(PEER)
    here = await _peer(aio.dial(server))

    def there() -> bytes:
        async def ask() -> bytes:
            async with lucky_transport_stubs.aio_channel(server.target) as channel:
                return await channel.unary_unary(path("Peer"))(b"", timeout=PATIENCE_S)

        return asyncio.run(ask())

    assert await asyncio.to_thread(there) != here


async def test_closing_a_channel_ends_no_call_of_another_one(aio: OurAioEnds) -> None:
    held = Held()
    server = await aio.serve(held.methods)
    one, other = aio.dial(server), aio.dial(server)
    ending, going_on = one.unary_unary("Hold")(b""), other.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun == 2)
    await one.channel.close()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert one.channel.get_state() is State.SHUTDOWN
    assert other.channel.get_state() is State.READY
    held.release.set()
    assert await going_on == b"done"


async def test_the_last_channel_that_closes_closes_the_connection(aio: OurAioEnds) -> None:
    before = rings()
    server = await aio.serve(PEER)
    channels = [aio.dial(server) for _ in range(3)]
    for client in channels:
        await _peer(client)
    assert rings() == before + 2  # of both aio
    for client in channels:
        assert rings() == before + 2
        await client.channel.close()
    await until_in_loop(lambda: rings() == before)


async def test_a_channel_that_closes_while_it_connects_leaves_the_connection_to_the_other(aio: OurAioEnds) -> None:
    server = await aio.serve(PEER)
    one, other = aio.dial(server), aio.dial(server)
    call = asyncio.ensure_future(_peer(other))
    one.channel.get_state(try_to_connect=True)
    await one.channel.close()
    assert await call


async def test_a_connection_that_ends_in_the_moment_it_is_joined_is_not_used(
    aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await aio.serve(PEER)
    one, other = aio.dial(server), aio.dial(server)
    first = await _peer(one)

    def drop(_: Subchannel) -> bool:
        compiled_half(one.channel).close()  # as the collector does it
        return False

    monkeypatch.setattr(Subchannel, "is_full", property(drop))
    assert await _peer(other) != first


async def test_all_find_the_server_that_comes_after(aio: OurAioEnds) -> None:
    server = await aio.serve(PEER, address=(target := aio.address()))
    clients = [aio.dial(target) for _ in range(3)]
    await asyncio.gather(*map(_peer, clients))
    await server.server.stop(None)
    await until_in_loop(lambda: all(client.channel.get_state() is State.IDLE for client in clients))
    for client in clients:
        assert await code_of(client.unary_unary("Peer")(b"")) == "UNAVAILABLE"
    waiting = [asyncio.ensure_future(_peer(client, wait_for_ready=True)) for client in clients]
    await aio.serve(PEER, address=target)
    assert len(set(await asyncio.gather(*waiting))) == 1


async def test_an_attempt_that_fails_ends_the_calls_of_all_but_those_that_wait(aio: OurAioEnds) -> None:
    target = aio.address()
    patient = asyncio.ensure_future(_peer(aio.dial(target), wait_for_ready=True))
    calls = [aio.dial(target).unary_unary("Peer")(b"") for _ in range(3)]
    assert {await code_of(call) for call in calls} == {"UNAVAILABLE"}
    assert not patient.done()
    await aio.serve(PEER, address=target)
    assert await patient


@pytest.mark.parametrize("channels", [1, 3])
async def test_more_calls_than_a_connection_takes_go_over_another_one(aio: OurAioEnds, channels: int) -> None:
    held, most = Held(), MAX_CALLS + MAX_CALLS // 2
    server = await aio.serve(held.methods)
    clients = [aio.dial(server) for _ in range(channels)]
    calls = [clients[number % channels].unary_unary("Hold")(b"") for number in range(most)]
    answers = asyncio.gather(*calls)
    await until_in_loop(lambda: held.begun == most or answers.done())
    held.release.set()
    assert await answers == [b"done"] * most


async def test_a_connection_that_has_free_space_again_is_used_again(aio: OurAioEnds) -> None:
    held = Held()
    client = await aio.pair({**held.methods, **PEER})
    seen: set[bytes] = set()
    for _ in range(3):
        held.release.clear()
        held.begun = 0
        answers = asyncio.gather(*(client.unary_unary("Hold")(b"") for _ in range(MOST_CALLS)))
        await until_in_loop(lambda: held.begun == MOST_CALLS)
        seen.add(await _peer(client))
        held.release.set()
        await answers
    assert len(seen) <= 2
