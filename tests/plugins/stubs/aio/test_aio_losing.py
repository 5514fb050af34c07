"""The server of an asyncio channel goes: every call ends at once, and the next one finds the server that comes then."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio import connection as aio_connection
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


@pytest.mark.parametrize("arity", ["unary_unary", "stream_stream"])
async def test_a_call_whose_server_stops_in_the_moment_it_connects_has_its_status(
    ends: Any, address: Any, spawn: Any, error_of: Any, monkeypatch: pytest.MonkeyPatch, arity: str
) -> None:
    process = spawn(target := address())
    connect = aio_connection.connect

    def connect_to_one_that_stops(*arguments: Any, **options: Any) -> Any:
        made = connect(*arguments, **options)
        process.kill()
        process.wait()
        return made

    monkeypatch.setattr(aio_connection, "connect", connect_to_one_that_stops)
    call = getattr(ends.dial(target), arity)("Echo")
    sent = call(b"x") if arity == "unary_unary" else call().read()
    assert (await asyncio.wait_for(error_of(sent), PATIENCE_S))[0] == "UNAVAILABLE"


async def test_a_server_of_the_same_loop_can_be_restarted_between_two_calls(ends: Any, address: Any) -> None:
    target = address()
    client = ends.dial(target)
    for _ in range(3):
        server = await ends.serve(ECHO, target=target)
        assert await client.unary_unary("Echo")(b"x") == b"x"
        await server.stop(None)
