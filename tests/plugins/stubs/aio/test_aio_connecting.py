"""An asyncio channel connects when it is needed, to whom it was told, and tells how it stands."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.errors import ConfigError
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs import grpc_inside
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.aio.connection import Connection
from tests.support.waiting import PATIENCE_S

State = grpc.ChannelConnectivity


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


@pytest.mark.parametrize(
    ("ours", "compiled"), [(Connection, grpc_inside.compiled.AioChannel), (RingCall, grpc_inside.compiled._AioCall)]
)
def test_we_have_every_method_of_the_compiled_half(ours: type, compiled: type) -> None:
    """Where a newer grpcio adds one, this says which."""
    theirs = {name for name in dir(compiled) if not name.startswith("_")} - {"target"}  # an attribute of ours
    assert theirs <= set(dir(ours))
    assert inspect.iscoroutinefunction(RingCall.unary_unary)


async def test_a_channel_is_idle_until_it_is_used(ends: Any) -> None:
    client = await ends.pair(ECHO)
    assert client.channel.get_state() is State.IDLE
    await client.unary_unary("Echo")(b"")
    assert client.channel.get_state() is State.READY


async def test_each_state_can_be_waited_for(ends: Any) -> None:
    client = await ends.pair(ECHO)
    seen = [client.channel.get_state(try_to_connect=True)]
    while seen[-1] is not State.READY:
        if client.channel.get_state() is seen[-1]:
            await client.channel.wait_for_state_change(seen[-1])
        seen.append(client.channel.get_state())
    assert seen == [State.IDLE, State.CONNECTING, State.READY]


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


async def test_a_server_that_is_not_there_fails_the_call_at_once(ends: Any, address: Any, error_of: Any) -> None:
    client = ends.dial(address())
    for make in (
        lambda: client.unary_unary("Echo")(b""),
        lambda: client.stream_unary("Echo")([b""]),
        lambda: client.unary_stream("Echo")(b"").read(),
        lambda: client.stream_stream("Echo")([b""]).read(),
        lambda: client.stream_stream("Echo")().write(b""),
        lambda: client.unary_unary("Echo")(b"").wait_for_connection(),
    ):
        code, details = await error_of(make())
        assert code == "UNAVAILABLE"
        assert details.startswith("failed to connect to all addresses")
    assert client.channel.get_state() is State.TRANSIENT_FAILURE


async def test_who_waits_for_the_server_gets_it_once_it_is_there(ends: Any, address: Any) -> None:
    client = ends.dial(target := address())
    call = client.unary_unary("Echo")(b"x", wait_for_ready=True)
    ready = asyncio.create_task(client.channel.channel_ready())
    await asyncio.sleep(0.1)
    assert not call.done()
    await ends.serve(ECHO, target=target)
    assert await call == b"x"
    await ready


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


async def test_credentials_are_refused(ends: Any) -> None:
    client = await ends.pair(ECHO)
    with pytest.raises(grpc.aio.UsageError, match="only valid on secure channels"):
        client.unary_unary("Echo")(b"", credentials=grpc.access_token_call_credentials("token"))


async def test_a_compression_may_be_named_and_no_handler_sees_it(ends: Any) -> None:
    async def keys(request: bytes, context: Any) -> bytes:
        return " ".join(key for key, _ in context.invocation_metadata()).encode()

    server = await ends.serve({"unary_unary Keys": keys}, compression=grpc.Compression.Gzip)
    client = ends.dial(server, compression=grpc.Compression.Gzip)
    assert await client.unary_unary("Keys")(b"", compression=grpc.Compression.Deflate) == b"user-agent"


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
