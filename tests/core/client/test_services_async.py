"""The asyncio client: the same methods, awaited; cancelling a task cancels its call or stream."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, assert_type

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.aio import AsyncStream
from lucky_transport.call import Call
from lucky_transport.client import AsyncClient
from lucky_transport.client.service import SERVICES
from lucky_transport.errors import (
    Busy,
    Cancelled,
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    NotReachable,
    Unimplemented,
)
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import ImageFrame, LidarBeamAnglesResponse, LidarSensorRequest, StreamCameraRequest
from lucky_transport.rpc import typed
from lucky_transport.transport import Transport
from tests.support.resources import threads_of
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, full_executor, until_in_loop

ITEMS = 500


class SlowToy(ScriptedEngine):
    """A toy engine whose beam angles come when `gate` opens, and whose camera shows how often it was looked at.

    endpoint: where it is served.
    """

    endpoint: str

    def __init__(self) -> None:
        streams = {"/hazel.rpc.CameraService/StreamCamera": self._stream}
        angles = {"/hazel.rpc.LidarService/GetLidarBeamAngles": self._list}
        super().__init__(2, slots=ITEMS, faulty=True, services=angles, streams=streams)
        self.gate = threading.Event()
        self.calls: list[Call] = []
        self.looked = 0

    def _list(self, _: LidarSensorRequest) -> LidarBeamAnglesResponse:
        assert self.gate.wait(PATIENCE_S)
        return LidarBeamAnglesResponse()

    def _stream(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        self.calls.append(call)
        while not call.is_over:
            self.looked += 1
            yield ImageFrame(frame_number=self.looked)
            if request.name == "stuck":
                while call.wait(PATIENCE_S):
                    pass


@pytest.fixture(params=["inproc", "shm", "shm, beside a driver"])
def engine(request: pytest.FixtureRequest) -> Iterator[SlowToy]:
    """An engine whose client is connected by threads over inproc, by its event loop over shm."""
    made, (name, _, driver) = SlowToy(), request.param.partition(",")
    with api.serve(made, f"{name}://asynchronous_{os.getpid()}") as serving:
        made.endpoint = str(serving.endpoints[0])
        with lucky_transport.connect(made.endpoint) if driver else nullcontext():
            yield made
        made.gate.set()


@pytest.fixture
def client(engine: SlowToy) -> AbstractAsyncContextManager[AsyncClient]:
    """A client, connected on the test's event loop."""
    return lucky_transport.connect_async(engine.endpoint)


async def test_errors_are_those_of_the_ordinary_client(client: AsyncClient) -> None:
    with pytest.raises(Unimplemented, match=r"does not implement /hazel\.rpc\.DebugService/Draw"):
        await client.debug.draw()
    with pytest.raises(EngineFailed, match="LookupError"):
        await client.lidar.get_beam_count(3)
    with pytest.raises(TypeError, match="did you mean 'agent_name'"):
        await client.agent.get_schema(agent_nam="x")  # type: ignore[call-overload] # pyright: ignore
    with pytest.raises(EngineFailed, match="ArithmeticError"):
        async for _ in client.viewport.stream():
            pass


async def test_a_slow_call_keeps_no_other_task_waiting(engine: SlowToy, client: AsyncClient) -> None:
    slow = asyncio.create_task(client.lidar.get_beam_angles())
    for _ in range(20):
        await client.agent.get_schema()
    assert not slow.done()
    engine.gate.set()
    assert_type(await slow, LidarBeamAnglesResponse)


async def test_a_stream_whose_opening_raised_raises_again(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for opener in (InprocTransport, typed):
        left, open_stream = iter([Busy("too many streams")]), opener.stream

        def once(*given: Any, left: Any = left, open_stream: Any = open_stream, **named: Any) -> Any:
            for error in left:
                raise error
            return open_stream(*given, **named)

        monkeypatch.setattr(opener, "stream", once)
    stream = client.viewport.stream()
    for _ in range(2):
        with pytest.raises(Busy, match="too many streams"):
            await anext(stream)


@pytest.mark.parametrize("engine", ["inproc"], indirect=True)
async def test_a_stream_that_may_skip_is_asked_only_when_somebody_waits(engine: SlowToy, client: AsyncClient) -> None:
    stream = client.camera.stream("front")
    for number in range(1, 6):
        assert (await anext(stream)).frame_number == number
        await asyncio.sleep(0.005)
        assert engine.looked == number
    stream.cancel()


async def test_leaving_a_loop_ends_the_stream_on_the_engines_side(engine: SlowToy, client: AsyncClient) -> None:
    async for frame in client.camera.stream("front", fps=30):
        assert_type(frame, ImageFrame)
        if frame.frame_number == 3:
            break
    gc.collect()
    await until_in_loop(lambda: engine.calls[0].is_over)


async def test_leaving_a_with_block_ends_the_stream(engine: SlowToy, client: AsyncClient) -> None:
    async with client.camera.stream("front") as stream:
        await anext(stream)
        assert stream.dropped == 0
    with pytest.raises(Cancelled):
        await anext(stream)
    await stream.aclose()
    await until_in_loop(lambda: engine.calls[0].is_over)


async def _next(stream: AsyncStream) -> Any:
    return await anext(stream)


async def test_a_transport_that_cannot_carry_the_calls_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    def refuse(self: Transport) -> None:
        raise NotReachable("no room for another client")

    def close(self: InprocTransport) -> None:
        closed.append(True)
        original(self)

    original = InprocTransport.close
    monkeypatch.setattr(InprocTransport, "async_calls", refuse)
    monkeypatch.setattr(InprocTransport, "close", close)
    with api.serve("toy", "inproc://refusing") as serving, pytest.raises(NotReachable, match="no room for another"):
        async with lucky_transport.connect_async(str(serving.endpoints[0])):
            pass
    assert closed == [True]


def test_a_client_belongs_to_the_loop_in_which_it_was_connected(engine: SlowToy) -> None:
    async def connect() -> AsyncClient:
        return await lucky_transport.connect_async(engine.endpoint)

    async def use(client: AsyncClient) -> None:
        with pytest.raises(LocalProtocolError, match="another event loop"):
            await client.agent.get_schema()
        await client.close()

    asyncio.run(use(asyncio.run(connect())))


async def test_before_it_is_connected_a_client_says_what_to_do(engine: SlowToy) -> None:
    client = lucky_transport.connect_async(engine.endpoint)
    assert repr(client) == "<asyncio client, not connected>"
    with pytest.raises(LocalProtocolError, match="async with"):
        await client.agent.get_schema()


async def test_what_connecting_raises_comes_from_connecting() -> None:
    with pytest.raises(NotReachable):
        await lucky_transport.connect_async("inproc://nowhere")
    with pytest.raises(ConfigError, match="no endpoint"):
        lucky_transport.connect_async()


@pytest.mark.parametrize("engine", ["inproc"], indirect=True)
async def test_it_shows_what_the_ordinary_client_shows(client: AsyncClient) -> None:
    assert dir(client) == sorted([*SERVICES, "close", "implemented", "spec", "transport"])
    assert repr(client).startswith("<asyncio client of engine 'toy' (2 envs) over inproc")
    found = client.implemented()
    assert found is not None
    assert "lidar.get_beam_angles" in found
    assert "list(*, timeout_s=None) -> ListCamerasResponse" in repr(client.camera)
    with pytest.raises(AttributeError, match="did you mean 'scene'"):
        getattr(client, "scen")  # noqa: B009


async def test_connecting_and_closing_use_no_executor_of_the_program(engine: SlowToy) -> None:
    async with full_executor(), lucky_transport.connect_async(engine.endpoint) as client:
        assert client.spec.num_envs == 2


async def test_a_stream_is_cancelled_from_another_thread(engine: SlowToy, client: AsyncClient) -> None:
    stream = client.camera.stream("stuck")
    await anext(stream)
    waiting = asyncio.create_task(_next(stream))
    await asyncio.sleep(0.01)
    threading.Thread(target=stream.cancel).start()
    with pytest.raises(Cancelled):
        await waiting
    await until_in_loop(lambda: engine.calls[0].is_over)


async def test_closing_ends_what_waits_and_leaves_no_thread_behind(engine: SlowToy, client: AsyncClient) -> None:
    slow = asyncio.create_task(client.lidar.get_beam_angles())
    stream = client.camera.stream("stuck")
    await anext(stream)
    waiting = asyncio.create_task(_next(stream))
    await asyncio.sleep(0.01)
    for _ in range(2):
        await client.close()
    for call in (slow, client.agent.get_schema()):
        with pytest.raises(ClosedError, match="connect again"):
            await call
    with pytest.raises(Cancelled):
        await waiting
    assert repr(client) == "<asyncio client, closed>"
    await until_in_loop(lambda: engine.calls[0].is_over)
    engine.gate.set()
    await until_in_loop(lambda: not threads_of("lucky_transport_"))
