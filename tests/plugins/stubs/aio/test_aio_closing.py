"""An asyncio channel ends: closed, dropped, with its loop, in another thread, in a forked child."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.aio import subchannel
from lucky_transport_stubs.grpc_inside import compiled_half
from tests.support.fixtures.plugins_stubs import in_a_child
from tests.support.resources import descriptors_of
from tests.support.waiting import PATIENCE_S, until_in_loop

State = grpc.ChannelConnectivity


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


async def test_the_state_of_a_closed_channel_cannot_be_waited_for(ends: Any) -> None:
    client = await ends.pair(ECHO)
    await client.channel.close()
    with pytest.raises(grpc.aio.UsageError, match=r"Channel is closed\."):
        await client.channel.wait_for_state_change(State.READY)


async def test_a_call_outlives_the_channel_that_was_dropped(ends: Any) -> None:
    async def soon(request: bytes, context: Any) -> bytes:
        await asyncio.sleep(0.05)
        return b"done"

    server = await ends.serve({"unary_unary Soon": soon})
    call = lucky_transport_stubs.aio_channel(server.target).unary_unary("/t.Test/Soon")(b"")
    gc.collect()
    assert await call == b"done"


async def test_a_channel_that_was_never_closed_leaves_nothing_behind(ends: Any) -> None:
    held = ends.held()
    server = await ends.serve({**ECHO, **held.methods})
    channel = lucky_transport_stubs.aio_channel(server.target)
    assert await channel.unary_unary("/t.Test/Echo")(b"x") == b"x"
    task = asyncio.ensure_future(channel.unary_unary("/t.Test/Hold")(b""))
    await until_in_loop(lambda: held.begun)
    task.cancel()


def test_a_loop_that_is_closed_in_the_middle_of_calls_leaves_nothing_behind(
    ends: Any, spawn: Any, address: Any
) -> None:
    spawn(target := address())

    async def begin() -> list[Any]:
        channel = lucky_transport_stubs.aio_channel(target)
        stream = channel.unary_stream("/t.Test/Stream")(b"", timeout=60)
        assert await stream.read() == b"first"
        return [channel, stream, channel.unary_unary("/t.Test/Wait")(b""), asyncio.create_task(stream.read())]

    loop = asyncio.new_event_loop()
    held = loop.run_until_complete(begin())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # pyright: ignore - asyncio would complain of each, and rightly
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    held.clear()
    gc.collect()


async def test_several_loops_in_threads_each_have_their_channel(ends: Any, address: Callable[[], str]) -> None:
    got: list[bytes] = []

    def work(target: str, number: int) -> None:
        async def main() -> None:
            async with lucky_transport_stubs.aio_channel(target) as channel:
                for _ in range(30):
                    got.append(await channel.unary_unary("/t.Test/Echo")(b"%d" % number))

        asyncio.run(main())

    server = await ends.serve(ECHO)
    threads = [threading.Thread(target=work, args=(server.target, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0.01)
    assert sorted(got) == [b"%d" % number for number in range(4) for _ in range(30)]


async def test_a_thread_may_drop_a_channel_of_another_loop(ends: Any) -> None:
    server = await ends.serve(ECHO)
    held = [lucky_transport_stubs.aio_channel(server.target)]
    assert await held[0].unary_unary("/t.Test/Echo")(b"x") == b"x"
    await asyncio.to_thread(held.clear)


async def test_a_channel_that_is_dropped_in_the_moment_it_connects_leaves_nothing_behind(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    channel = lucky_transport_stubs.aio_channel((await ends.serve(ECHO)).target)
    connection = compiled_half(channel)
    met = asyncio.Event()

    class Reader(LoopReader):
        def __init__(self, *arguments: Any) -> None:
            connection.close()  # as the collector does it
            super().__init__(*arguments)
            met.set()

    monkeypatch.setattr(subchannel, "LoopReader", Reader)
    channel.get_state(try_to_connect=True)
    await met.wait()
    await asyncio.sleep(0)
    assert faults == []
    assert channel.get_state() is State.SHUTDOWN


def _sockets() -> set[str]:
    return descriptors_of("socket:")


def test_a_loop_that_ends_while_a_channel_connects_leaves_nothing_behind(ends: Any, address: Any) -> None:
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1))  # not started, so it does not answer
    server.add_insecure_port(target := address())
    loop = asyncio.new_event_loop()

    async def begin() -> Any:
        before, channel = _sockets(), lucky_transport_stubs.aio_channel(target)
        channel.get_state(try_to_connect=True)
        await until_in_loop(lambda: _sockets() - before)
        return before, channel

    before, channel = loop.run_until_complete(begin())
    loop.close()
    del channel
    gc.collect()
    assert _sockets() <= before
    server.start()
    server.stop(None).wait(PATIENCE_S)


async def test_a_channel_that_is_closed_while_it_connects_leaves_nothing_behind(ends: Any, address: Any) -> None:
    server = ends.server(ECHO)  # not started, so it does not answer
    server.add_insecure_port(target := address())
    before, client = _sockets(), ends.dial(target)
    call = client.unary_unary("Echo")(b"")
    await until_in_loop(lambda: _sockets() - before)
    await client.channel.close()
    assert _sockets() == before
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.start()


async def test_a_channel_that_is_dropped_in_the_middle_of_a_step_leaves_nothing_behind(
    ends: Any, address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ends.server(ECHO)  # not started, so it does not answer
    server.add_insecure_port(target := address())
    before, channel = _sockets(), lucky_transport_stubs.aio_channel(target)
    steps, begun = subchannel.connection_steps, asyncio.Event()

    def dropped(*arguments: Any) -> Any:
        compiled_half(channel).close()  # as the collector does it
        begun.set()
        return (yield from steps(*arguments))

    monkeypatch.setattr(subchannel, "connection_steps", dropped)
    channel.get_state(try_to_connect=True)
    await begun.wait()
    assert _sockets() == before
    await server.start()


async def test_a_forked_child_that_runs_another_loop_is_told_why_not(ends: Any) -> None:
    client = await ends.pair(ECHO)
    assert await client.unary_unary("Echo")(b"x") == b"x"

    async def in_the_child() -> None:
        with pytest.raises(grpc.aio.UsageError, match="belongs to the event loop of the parent process"):
            client.unary_unary("Echo")(b"x")
        client.channel.__del__()

    in_a_child(lambda: asyncio.run(in_the_child()))
    for _ in range(3):
        assert await client.unary_unary("Echo")(b"y") == b"y"


async def test_a_channel_whose_last_call_is_waited_for_is_closed_in_a_forked_child(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair(held.methods)
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    closing = asyncio.create_task(client.channel.close(grace=PATIENCE_S))
    await asyncio.sleep(0)

    def in_the_child() -> None:
        assert client.channel.get_state() is State.SHUTDOWN

    in_a_child(in_the_child)
    assert client.channel.get_state() is State.READY
    held.release.set()
    assert await call == b"done"
    await closing


@pytest.mark.exhaustive
@pytest.mark.parametrize("used", [False, True], ids=["idle", "used"])
def test_a_forked_child_that_runs_the_channels_loop_connects_anew(
    ends: Any, spawn: Any, address: Callable[[], str], used: bool
) -> None:
    spawn(target := address())
    loop = asyncio.new_event_loop()

    async def begin() -> Any:
        return lucky_transport_stubs.aio_channel(target)

    channel = loop.run_until_complete(begin())
    echo = channel.unary_unary("/t.Test/Echo")

    def call(text: bytes) -> None:
        async def answer() -> bytes:
            return await echo(text, timeout=PATIENCE_S)

        assert loop.run_until_complete(answer()) == text

    def in_the_child() -> None:
        call(b"child")
        in_a_child(lambda: call(b"grandchild"))

    if used:
        call(b"before")
    in_a_child(in_the_child)
    call(b"after")
    loop.run_until_complete(channel.close())
    loop.close()
