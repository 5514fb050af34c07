"""An asyncio channel: whom it connects to, and how it ends: closed, dropped, with its loop, in another thread."""

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from lucky_transport.rpc.event_loop import LoopReader
from lucky_transport_stubs import aio_channel as make_channel
from lucky_transport_stubs import grpc_inside
from lucky_transport_stubs.aio import subchannel
from lucky_transport_stubs.aio.call import RingCall
from lucky_transport_stubs.aio.connection import Connection
from lucky_transport_stubs.grpc_inside import compiled_half
from tests.support.resources import descriptors_of
from tests.support.waiting import PATIENCE_S, full_executor, until_in_loop

from ..differential.aio_ends import attempt
from ..differential.ends import path
from .conftest import ECHO, Held, OurAioEnds, OurEnds, code_of

State = grpc.ChannelConnectivity


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Have this done once when a channel connects: `before` the first step, `after` the last one, or as the connection
    `reads`.
    """

    def at(moment: str, deed: Callable[[], object]) -> None:
        steps, deeds = subchannel.connection_steps, [deed]

        def do(now: str) -> None:
            if now == moment and deeds:
                deeds.pop()()

        def connecting(*arguments: Any) -> Any:
            do("before")
            made = yield from steps(*arguments)
            do("after")
            return made

        class Reader(LoopReader):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                do("reads")

        monkeypatch.setattr(subchannel, "connection_steps", connecting)
        monkeypatch.setattr(subchannel, "LoopReader", Reader)

    return at


@pytest.mark.parametrize(
    ("ours", "compiled"), [(Connection, grpc_inside.compiled.AioChannel), (RingCall, grpc_inside.compiled._AioCall)]
)
def test_we_have_every_method_of_the_compiled_half(ours: type, compiled: type) -> None:
    """Where a newer grpcio adds one, this says which."""
    theirs = {name for name in dir(compiled) if not name.startswith("_")} - {"target"}  # an attribute of ours
    assert theirs <= set(dir(ours))
    assert inspect.iscoroutinefunction(RingCall.unary_unary)


async def test_a_channel_that_is_watched_no_more_tries_no_more(
    aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: Any = Connection
    rests, again = asyncio.Event(), ours._try_again

    def try_again(connection: Any) -> None:
        again(connection)
        if connection._subchannel is None:
            rests.set()

    monkeypatch.setattr(Connection, "_try_again", try_again)
    client = aio.dial(aio.address())
    while (state := client.channel.get_state(try_to_connect=True)) is not State.TRANSIENT_FAILURE:
        await client.channel.wait_for_state_change(state)
    await asyncio.wait_for(rests.wait(), PATIENCE_S)


async def test_connecting_and_waiting_use_no_executor_of_the_program(aio: OurAioEnds) -> None:
    async with full_executor():
        client = await aio.pair(ECHO)
        assert await client.unary_unary("Echo")(b"x", timeout=PATIENCE_S) == b"x"
        nowhere = aio.dial("shm://nobody").unary_unary("Echo")
        assert await code_of(nowhere(b"x", timeout=PATIENCE_S)) == "UNAVAILABLE"


async def test_a_killed_server_ends_every_call_at_once(aio: OurAioEnds, spawn: Any) -> None:
    process = spawn(target := aio.address())
    client = aio.dial(target)
    stream = client.unary_stream("Linger")(b"first")
    assert await stream.read() == b"first"
    calls = [client.unary_unary("Wait")(b"") for _ in range(3)]
    writing = client.stream_unary("Join")()
    assert await client.unary_unary("Echo")(b"x") == b"x"  # what was sent before has come by now
    process.kill()
    for call in (*calls, stream.read(), writing):
        error = (await attempt(call))["raised"]
        assert (error["code"], error["details"].partition(": ")[0]) == ("UNAVAILABLE", "Socket closed")
    assert client.channel.get_state() is State.IDLE


@pytest.mark.parametrize("arity", ["unary_unary", "stream_stream"])
async def test_a_call_whose_server_stops_in_the_moment_it_connects_has_its_status(
    aio: OurAioEnds, spawn: Any, strike: Any, arity: str
) -> None:
    process = spawn(target := aio.address())
    strike("after", lambda: (process.kill(), process.wait()))
    call = getattr(aio.dial(target), arity)("Echo")
    sent = call(b"x") if arity == "unary_unary" else call().read()
    assert await code_of(sent) == "UNAVAILABLE"


async def test_a_call_that_waits_for_the_server_survives_one_that_stops_in_the_moment_it_connects(
    aio: OurAioEnds, spawn: Any, strike: Any
) -> None:
    process = spawn(target := aio.address())
    strike("after", lambda: (process.kill(), process.wait(), spawn(target)))
    call = aio.dial(target).unary_unary("Echo")(b"x", wait_for_ready=True)
    assert await call == b"x"


@pytest.mark.parametrize("moment", ["before", "reads"])
async def test_a_signal_handler_that_interrupts_an_attempt_to_connect_ends_its_calls(
    aio: OurAioEnds, strike: Any, moment: str
) -> None:
    class Strike(Exception):
        """Of a signal handler."""

    def interrupt() -> None:
        raise Strike

    server = await aio.serve(ECHO)
    strike(moment, interrupt)
    seen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))
    client = aio.dial(server)
    assert await code_of(client.unary_unary("Echo")(b"x")) == "UNAVAILABLE"
    assert [type(one) for one in seen] == [Strike]
    assert await client.unary_unary("Echo")(b"x") == b"x"


async def test_a_call_outlives_the_channel_that_was_dropped(aio: OurAioEnds) -> None:
    async def soon(request: bytes, context: Any) -> bytes:
        await asyncio.sleep(0.05)
        return b"done"

    server = await aio.serve({"unary_unary Soon": soon})
    call = make_channel(server.target).unary_unary(path("Soon"))(b"")
    gc.collect()
    assert await call == b"done"


async def test_a_unary_call_is_under_way_where_it_is_made(ends: OurEnds, aio: OurAioEnds) -> None:
    came = threading.Event()

    def note(request: bytes, _: Any) -> bytes:
        came.set()
        return request

    noted = aio.dial(ends.serve({"unary_unary Note": note})).unary_unary("Note")
    assert await noted(b"connected") == b"connected"
    came.clear()
    call = noted(b"x")
    assert came.wait(PATIENCE_S), "no turn of the loop"
    assert await call == b"x"


async def test_a_channel_that_was_never_closed_leaves_nothing_behind(aio: OurAioEnds) -> None:
    held = Held()
    server = await aio.serve({**ECHO, **held.methods})
    channel = make_channel(server.target)
    assert await channel.unary_unary(path("Echo"))(b"x") == b"x"
    task = asyncio.ensure_future(channel.unary_unary(path("Hold"))(b""))
    await until_in_loop(lambda: held.begun)
    task.cancel()


def test_a_loop_that_is_closed_in_the_middle_of_calls_leaves_nothing_behind(ends: OurEnds, spawn: Any) -> None:
    spawn(target := ends.address())

    async def begin() -> list[Any]:
        channel = make_channel(target)
        stream = channel.unary_stream(path("Linger"))(b"first", timeout=60)
        assert await stream.read() == b"first"
        return [channel, stream, channel.unary_unary(path("Wait"))(b""), asyncio.create_task(stream.read())]

    loop = asyncio.new_event_loop()
    held = loop.run_until_complete(begin())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # pyright: ignore - asyncio would complain of each, and rightly
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    held.clear()
    gc.collect()


async def test_a_thread_may_drop_a_channel_of_another_loop(aio: OurAioEnds) -> None:
    server = await aio.serve(ECHO)
    held = [make_channel(server.target)]
    assert await held[0].unary_unary(path("Echo"))(b"x") == b"x"
    await asyncio.to_thread(held.clear)


async def test_a_channel_that_is_dropped_in_the_moment_it_connects_leaves_nothing_behind(
    aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    channel = make_channel((await aio.serve(ECHO)).target)
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


def test_a_loop_that_ends_while_a_channel_connects_leaves_nothing_behind(ends: OurEnds) -> None:
    server, target = ends.bound({})
    loop = asyncio.new_event_loop()

    async def begin() -> Any:
        before, channel = _sockets(), make_channel(target)
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


async def test_a_channel_that_is_closed_while_it_connects_leaves_nothing_behind(aio: OurAioEnds) -> None:
    server, target = aio.bound(ECHO)
    before, client = _sockets(), aio.dial(target)
    call = client.unary_unary("Echo")(b"")
    await until_in_loop(lambda: _sockets() - before)
    await client.channel.close()
    assert _sockets() == before
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.start()


async def test_a_channel_that_is_dropped_in_the_middle_of_a_step_leaves_nothing_behind(
    aio: OurAioEnds, strike: Any
) -> None:
    server, target = aio.bound(ECHO)
    before, channel, begun = _sockets(), make_channel(target), asyncio.Event()
    strike("before", lambda: (compiled_half(channel).close(), begun.set()))  # as the collector does it
    channel.get_state(try_to_connect=True)
    await begun.wait()
    assert _sockets() == before
    await server.start()
