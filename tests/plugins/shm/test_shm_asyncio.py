"""The asyncio client over shared memory: its event loop reads the connection, and no thread waits for a call."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport import messages as m
from lucky_transport.call import Call
from lucky_transport.client import AsyncClient
from lucky_transport.client.threads import ThreadedCalls
from lucky_transport.errors import ClosedError, NotReachable, PeerTimeout
from lucky_transport.messages.methods import method
from lucky_transport.rpc.async_calls import LoopCalls
from lucky_transport_shm import command_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, until_in_loop

CALLS = 200


class Gated(ScriptedEngine):
    """An engine whose beam angles come when `gate` opens."""

    def __init__(self) -> None:
        streams = {
            "/hazel.rpc.TelemetryService/StreamTelemetry": self._stuck,
            "/hazel.rpc.CameraService/StreamCamera": self._images,
        }
        angles = {"/hazel.rpc.LidarService/GetLidarBeamAngles": self._list}
        super().__init__(2, slots=3, services=angles, streams=streams)
        self.gate = threading.Event()
        self.streams_seen: list[Call] = []

    def _list(self, _: m.LidarSensorRequest) -> m.LidarBeamAnglesResponse:
        assert self.gate.wait(PATIENCE_S)
        return m.LidarBeamAnglesResponse()

    def _stuck(self, _: Any, call: Call) -> Iterator[Any]:
        self.streams_seen.append(call)
        while call.wait(PATIENCE_S):
            pass
        yield from ()

    def _images(self, request: m.StreamCameraRequest, call: Call) -> Iterator[m.ImageFrame]:
        for number in range(20):
            image = call.image_buffer(64)
            image[:] = bytes([number]) * 64
            yield m.ImageFrame(width=4, height=4, channels=4, frame_number=number, data=image)


@pytest.fixture
def engine() -> Iterator[Gated]:
    made = Gated()
    yield made
    made.gate.set()


@pytest.fixture
def endpoint(engine: Gated) -> Iterator[str]:
    with api.serve(engine, f"shm://asyncio_{os.getpid()}") as serving:
        yield str(serving.endpoints[0])


def client_threads() -> set[threading.Thread]:
    """Threads of this process without those of the engine, which answers in it too."""
    ours = ("command handlers", "streams", "shm ")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(ours)}


def calls_of(client: AsyncClient) -> Any:
    return client._connection.calls  # pyright: ignore[reportPrivateUsage]


async def test_many_calls_at_once_make_no_thread(engine: Gated, endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        await client.agent.get_schema()
        before = client_threads()
        slow = [asyncio.create_task(client.lidar.get_beam_angles()) for _ in range(CALLS)]
        assert len(await asyncio.gather(*(client.agent.get_schema() for _ in range(CALLS)))) == CALLS
        assert not any(task.done() for task in slow)
        assert not client_threads() - before  # a thread of an earlier test may end meanwhile
        engine.gate.set()
        assert len(await asyncio.gather(*slow)) == CALLS
        assert not client_threads() - before  # a thread of an earlier test may end meanwhile


async def test_a_deadline_ends_the_call_and_the_stream_alone(endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        slow = asyncio.create_task(client.lidar.get_beam_angles())
        with pytest.raises(PeerTimeout, match=r"did not end within 0\.05 s"):
            await client.lidar.get_beam_angles(timeout_s=0.05)
        with pytest.raises(PeerTimeout, match=r"did not end within 0\.05 s"):
            await anext(client.telemetry.stream(timeout_s=0.05))
        assert not slow.done()
        slow.cancel()


async def test_a_stream_refuses_the_request_of_another_method_when_it_is_asked_for(endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        with pytest.raises(TypeError, match="StreamCameraRequest"):
            calls_of(client).stream(method("CameraService/StreamCamera"), m.LidarSensorRequest())


async def test_a_cancelled_task_leaves_no_open_call(engine: Gated, endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        calls: Any = calls_of(client)
        slow = [asyncio.create_task(client.lidar.get_beam_angles()) for _ in range(20)]
        streams = [asyncio.create_task(_first(client.telemetry.stream())) for _ in range(5)]
        await until_in_loop(lambda: len(engine.streams_seen) == len(streams))
        for task in (*slow, *streams):
            task.cancel()
        ends = await asyncio.gather(*slow, *streams, return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        assert not calls._calls.open_calls
        await until_in_loop(lambda: all(call.is_over for call in engine.streams_seen))
        assert (await client.agent.get_schema()).schema is not None


async def _first(stream: Any) -> Any:
    return await anext(stream)


async def test_a_client_that_is_dropped_closes_its_connection(endpoint: str) -> None:
    client = await lucky_transport.connect_async(endpoint)
    await client.agent.get_schema()
    calls: Any = calls_of(client)
    connection = calls._calls
    del client, calls

    def has_ended() -> bool:
        gc.collect()
        return connection.error is not None

    await until_in_loop(has_ended)  # the loop's last callbacks may hold the client for a moment
    with pytest.raises(ClosedError):
        connection.check()


def test_loops_in_several_threads_each_have_their_own_client(endpoint: str) -> None:
    async def main() -> int:
        async with lucky_transport.connect_async(endpoint) as client:
            found = await asyncio.gather(*(client.agent.get_schema(f"agent_{n % 2}") for n in range(50)))
            items = [item async for item in client.agent.stream_policy_slot_state(1)]
        return sum(one.schema is not None for one in found) + len(items)

    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(asyncio.run(main()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert results == [53] * 4


async def test_images_come_as_bytes_or_as_views(endpoint: str) -> None:
    async with lucky_transport.connect_async(endpoint) as client:
        copies = [frame async for frame in client.camera.stream("front")]
        assert [bytes(frame.data) for frame in copies] == [bytes([number]) * 64 for number in range(20)]
        assert {type(frame.data) for frame in copies} == {bytes}
        views = client.camera.stream("front", copy=False)
        for number in range(20):
            frame: Any = await anext(views)
            assert type(frame.data) is memoryview
            assert frame.data == bytes([number]) * 64


async def test_an_engine_that_takes_no_further_client_is_called_by_threads(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise NotReachable("nobody listens", backend="shm")

    async with lucky_transport.connect_async(endpoint) as client:
        assert isinstance(calls_of(client), LoopCalls)
    monkeypatch.setattr(command_client, "connect_pipe", refuse)
    async with lucky_transport.connect_async(endpoint) as client:
        assert isinstance(calls_of(client), ThreadedCalls)
        assert (await client.agent.get_schema()).schema is not None
