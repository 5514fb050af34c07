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
from tests.support.fixtures.plugins_stubs import in_a_child
from tests.support.resources import rings
from tests.support.waiting import PATIENCE_S, until_in_loop

State = grpc.ChannelConnectivity


async def peer(request: bytes, context: Any) -> bytes:
    return context.peer().encode()


PEER = {"unary_unary Peer": peer}


async def _peer(client: Any, **arguments: Any) -> bytes:
    return await client.unary_unary("Peer")(b"", timeout=PATIENCE_S, **arguments)


async def test_channels_that_connect_at_the_same_time_share_a_connection(ends: Any) -> None:
    server = await ends.serve(PEER)
    peers = await asyncio.gather(*(_peer(ends.dial(server)) for _ in range(10)))
    assert len(set(peers)) == 1


async def test_a_channel_goes_over_the_connection_that_another_one_has(ends: Any) -> None:
    server = await ends.serve(PEER)
    peers = [await _peer(ends.dial(server)) for _ in range(2)]
    assert peers[0] == peers[1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"options": (("grpc.max_receive_message_length", 10_000),)},
        {"options": (("grpc.primary_user_agent", []),)},
        {"compression": grpc.Compression.Gzip},
        {"credentials": grpc.local_channel_credentials()},
    ],
)
async def test_a_channel_with_other_arguments_has_another_connection(ends: Any, arguments: Any) -> None:
    server = await ends.serve(PEER)
    peers = [await _peer(ends.dial(server)), await _peer(ends.dial(server, **arguments))]
    assert peers[0] != peers[1]


@pytest.mark.parametrize("name", ["grpc.use_local_subchannel_pool", b"grpc.use_local_subchannel_pool"])
async def test_a_channel_may_keep_its_connection_to_itself(ends: Any, name: Any) -> None:
    server = await ends.serve(PEER)
    peers = [await _peer(ends.dial(server, options=((name, 1),))) for _ in range(2)]
    assert peers[0] != peers[1]


async def test_channels_of_two_loops_share_nothing(ends: Any) -> None:
    server = await ends.serve(PEER)
    here = await _peer(ends.dial(server))

    def there() -> bytes:
        async def ask() -> bytes:
            async with lucky_transport_stubs.aio_channel(server.target) as channel:
                return await channel.unary_unary("/t.Test/Peer")(b"", timeout=PATIENCE_S)

        return asyncio.run(ask())

    assert await asyncio.to_thread(there) != here


async def test_closing_a_channel_ends_no_call_of_another_one(ends: Any, error_of: Any) -> None:
    held = ends.held()
    server = await ends.serve(held.methods)
    one, other = ends.dial(server), ends.dial(server)
    ending, going_on = one.unary_unary("Hold")(b""), other.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun == 2)
    await one.channel.close()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert one.channel.get_state() is State.SHUTDOWN
    assert other.channel.get_state() is State.READY
    held.release.set()
    assert await going_on == b"done"


async def test_the_last_channel_that_closes_closes_the_connection(ends: Any) -> None:
    before = rings()
    server = await ends.serve(PEER)
    channels = [ends.dial(server) for _ in range(3)]
    for client in channels:
        await _peer(client)
    assert rings() == before + 2  # of both ends
    for client in channels:
        assert rings() == before + 2
        await client.channel.close()
    await until_in_loop(lambda: rings() == before)


async def test_a_channel_that_closes_while_it_connects_leaves_the_connection_to_the_other(ends: Any) -> None:
    server = await ends.serve(PEER)
    one, other = ends.dial(server), ends.dial(server)
    call = asyncio.ensure_future(_peer(other))
    one.channel.get_state(try_to_connect=True)
    await one.channel.close()
    assert await call


async def test_a_connection_that_ends_in_the_moment_it_is_joined_is_not_used(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await ends.serve(PEER)
    one, other = ends.dial(server), ends.dial(server)
    first = await _peer(one)

    def drop(_: Subchannel) -> bool:
        compiled_half(one.channel).close()  # as the collector does it
        return False

    monkeypatch.setattr(Subchannel, "is_full", property(drop))
    assert await _peer(other) != first


async def test_all_find_the_server_that_comes_after(ends: Any, address: Any, error_of: Any) -> None:
    server = await ends.serve(PEER, target=(target := address()))
    clients = [ends.dial(target) for _ in range(3)]
    await asyncio.gather(*map(_peer, clients))
    await server.stop(None)
    await until_in_loop(lambda: all(client.channel.get_state() is State.IDLE for client in clients))
    for client in clients:
        assert (await error_of(client.unary_unary("Peer")(b"")))[0] == "UNAVAILABLE"
    waiting = [asyncio.ensure_future(_peer(client, wait_for_ready=True)) for client in clients]
    await ends.serve(PEER, target=target)
    assert len(set(await asyncio.gather(*waiting))) == 1


async def test_an_attempt_that_fails_ends_the_calls_of_all_but_those_that_wait(
    ends: Any, address: Any, error_of: Any
) -> None:
    target = address()
    patient = asyncio.ensure_future(_peer(ends.dial(target), wait_for_ready=True))
    calls = [ends.dial(target).unary_unary("Peer")(b"") for _ in range(3)]
    assert {(await error_of(call))[0] for call in calls} == {"UNAVAILABLE"}
    assert not patient.done()
    await ends.serve(PEER, target=target)
    assert await patient


@pytest.mark.parametrize("channels", [1, 3])
async def test_more_calls_than_a_connection_takes_go_over_another_one(ends: Any, channels: int) -> None:
    held, most = ends.held(), MAX_CALLS + MAX_CALLS // 2
    server = await ends.serve(held.methods)
    clients = [ends.dial(server) for _ in range(channels)]
    calls = [clients[number % channels].unary_unary("Hold")(b"") for number in range(most)]
    answers = asyncio.gather(*calls)
    await until_in_loop(lambda: held.begun == most or answers.done())
    held.release.set()
    assert await answers == [b"done"] * most


async def test_a_connection_that_has_free_space_again_is_used_again(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair({**held.methods, **PEER})
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


def test_a_forked_child_shares_with_its_own_channels_alone(ends: Any, spawn: Any, address: Any) -> None:
    spawn(target := address())
    loop = asyncio.new_event_loop()

    async def made() -> Any:
        channel = lucky_transport_stubs.aio_channel(target)
        assert await channel.unary_unary("/t.Test/Echo")(b"x", timeout=PATIENCE_S) == b"x"
        return channel

    channel = loop.run_until_complete(made())

    def work() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(loop.run_until_complete(made()).close())

    in_a_child(work)
    loop.run_until_complete(made())
    loop.run_until_complete(channel.close())
    loop.close()
