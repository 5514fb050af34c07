"""The server of an asyncio channel goes: every call ends at once, and the next one finds the server that comes then."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio import subchannel
from tests.support.waiting import PATIENCE_S

State = grpc.ChannelConnectivity


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


async def test_a_killed_server_ends_every_call_at_once(ends: Any, address: Any, spawn: Any, error_of: Any) -> None:
    process = spawn(target := address())
    client = ends.dial(target)
    stream = client.unary_stream("Stream")(b"")
    assert await stream.read() == b"first"
    calls = [client.unary_unary("Wait")(b"") for _ in range(3)]
    writing = client.stream_unary("Wait")()
    assert await client.unary_unary("Echo")(b"x") == b"x"  # what was sent before has come by now
    process.send_signal(signal.SIGKILL)
    for call in (*calls, stream.read(), writing):
        code, details = await error_of(call)
        assert (code, details.partition(": ")[0]) == ("UNAVAILABLE", "Socket closed")
    assert client.channel.get_state() is State.IDLE


@pytest.mark.exhaustive
async def test_the_channel_finds_the_server_that_comes_after(
    ends: Any, address: Any, spawn: Any, error_of: Any
) -> None:
    target = address()
    client = ends.dial(target)
    for _ in range(2):
        process = spawn(target)
        assert await client.unary_unary("Echo")(b"x") == b"x"
        call = client.unary_unary("Wait")(b"")
        assert await client.unary_unary("Echo")(b"x") == b"x"
        process.kill()
        assert (await error_of(call))[0] == "UNAVAILABLE"
        assert (await error_of(client.unary_unary("Echo")(b"")))[0] == "UNAVAILABLE"
        process.wait()


@pytest.mark.exhaustive
@pytest.mark.parametrize("arity", ["unary_unary", "stream_stream"])
async def test_a_call_whose_server_stops_in_the_moment_it_connects_has_its_status(
    ends: Any, address: Any, spawn: Any, error_of: Any, monkeypatch: pytest.MonkeyPatch, arity: str
) -> None:
    process = spawn(target := address())
    steps = subchannel.connection_steps

    def to_one_that_stops(*arguments: Any) -> Any:
        made = yield from steps(*arguments)
        process.kill()
        process.wait()
        return made

    monkeypatch.setattr(subchannel, "connection_steps", to_one_that_stops)
    call = getattr(ends.dial(target), arity)("Echo")
    sent = call(b"x") if arity == "unary_unary" else call().read()
    assert (await asyncio.wait_for(error_of(sent), PATIENCE_S))[0] == "UNAVAILABLE"


@pytest.mark.exhaustive
async def test_a_call_that_waits_for_the_server_survives_one_that_stops_in_the_moment_it_connects(
    ends: Any, address: Any, spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, steps = spawn(target := address()), subchannel.connection_steps

    def to_one_that_stops(*arguments: Any) -> Any:
        made = yield from steps(*arguments)
        if process.poll() is None:
            process.kill()
            process.wait()
            spawn(target)
        return made

    monkeypatch.setattr(subchannel, "connection_steps", to_one_that_stops)
    call = ends.dial(target).unary_unary("Echo")(b"x", wait_for_ready=True)
    assert await asyncio.wait_for(call, PATIENCE_S) == b"x"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_signal_handler_that_interrupts_an_attempt_to_connect_ends_its_calls(
    ends: Any, error_of: Any, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    server, steps, strikes = await ends.serve(ECHO), subchannel.connection_steps, [1]

    class Strike(Exception):
        """Of a signal handler."""

    def strike() -> None:
        if strikes:
            strikes.clear()
            raise Strike

    def interrupted(*arguments: Any) -> Any:
        if moment == "before":
            strike()
        return (yield from steps(*arguments))

    class Reader(LoopReader):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            strike()

    monkeypatch.setattr(subchannel, "connection_steps", interrupted)
    monkeypatch.setattr(subchannel, "LoopReader", Reader)
    seen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))
    client = ends.dial(server)
    assert (await asyncio.wait_for(error_of(client.unary_unary("Echo")(b"x")), PATIENCE_S))[0] == "UNAVAILABLE"
    assert [type(one) for one in seen] == [Strike]
    assert await client.unary_unary("Echo")(b"x") == b"x"


async def test_a_server_of_the_same_loop_can_be_restarted_between_two_calls(ends: Any, address: Any) -> None:
    target = address()
    client = ends.dial(target)
    for _ in range(3):
        server = await ends.serve(ECHO, target=target)
        assert await client.unary_unary("Echo")(b"x") == b"x"
        await server.stop(None)
