"""An asyncio channel connects to whom it was told; when its server goes every call ends, and the next finds another."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.errors import ConfigError
from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs import grpc_inside
from lucky_transport_stubs.aio import subchannel
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.aio.connection import Connection
from tests.support.waiting import PATIENCE_S


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}
State = grpc.ChannelConnectivity


@pytest.mark.parametrize(
    ("ours", "compiled"), [(Connection, grpc_inside.compiled.AioChannel), (RingCall, grpc_inside.compiled._AioCall)]
)
def test_we_have_every_method_of_the_compiled_half(ours: type, compiled: type) -> None:
    """Where a newer grpcio adds one, this says which."""
    theirs = {name for name in dir(compiled) if not name.startswith("_")} - {"target"}  # an attribute of ours
    assert theirs <= set(dir(ours))
    assert inspect.iscoroutinefunction(RingCall.unary_unary)


async def test_a_channel_that_is_watched_no_more_tries_no_more(
    ends: Any, address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: Any = Connection
    rests, again = asyncio.Event(), ours._try_again

    def try_again(connection: Any) -> None:
        again(connection)
        if connection._subchannel is None:
            rests.set()

    monkeypatch.setattr(Connection, "_try_again", try_again)
    client = ends.dial(address())
    while (state := client.channel.get_state(try_to_connect=True)) is not State.TRANSIENT_FAILURE:
        await client.channel.wait_for_state_change(state)
    await asyncio.wait_for(rests.wait(), PATIENCE_S)


async def test_a_server_that_is_bound_and_not_started_is_waited_for(ends: Any, address: Any) -> None:
    server = ends.server(ECHO)
    server.add_insecure_port(target := address())
    call = ends.dial(target).unary_unary("Echo")(b"x")
    await asyncio.sleep(0.1)
    assert not call.done()
    await server.start()
    assert await call == b"x"


@pytest.mark.usefixtures("ends")
async def test_other_endpoints_get_a_real_channel() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([_echo_handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = lucky_transport_stubs.aio_channel(f"grpc://127.0.0.1:{port}")
    assert await channel.unary_unary("/t.Test/Echo")(b"x", wait_for_ready=True) == b"x"
    await channel.close()
    await server.stop(None)


def _echo_handler() -> Any:
    return grpc.method_handlers_generic_handler("t.Test", {"Echo": grpc.unary_unary_rpc_method_handler(echo)})


@pytest.mark.parametrize("endpoint", ["demo", "http://demo", "shm://"])
async def test_what_is_no_endpoint_is_refused(ends: Any, endpoint: str) -> None:
    with pytest.raises(ConfigError):
        lucky_transport_stubs.aio_channel(endpoint)


async def test_the_configured_endpoint_is_the_default(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await ends.serve(ECHO)
    monkeypatch.setenv("LUCKY_ENDPOINT", server.target)
    assert await ends.dial(None).unary_unary("Echo")(b"x") == b"x"


async def test_connecting_and_waiting_use_no_executor_of_the_program(ends: Any) -> None:
    """The loop's own may be full of the program's work for as long as it likes."""
    gate = threading.Event()
    with ThreadPoolExecutor(1) as full:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(full)
        busy = loop.run_in_executor(None, gate.wait, PATIENCE_S)
        try:
            client = await ends.pair(ECHO)
            assert await client.unary_unary("Echo")(b"x", timeout=PATIENCE_S) == b"x"
            nowhere = ends.dial("shm://nobody").unary_unary("Echo")
            with pytest.raises(grpc.RpcError) as caught:
                await nowhere(b"x", timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert not busy.done()
        finally:
            gate.set()
        await busy


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
