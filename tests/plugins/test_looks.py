"""A side that waits sleeps in slices, and looks after each whether the other one lives; or its end wakes it.

So a death is noticed in time, whatever the side waits for. How long that takes is the machine's matter.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerDied, PeerTimeout
from lucky_transport.messages import GetSceneInfoRequest, ImageFrame, StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.slot_files.image_store import ImageStream
from lucky_transport.shm.timing import LOOP_SLICE_NS
from lucky_transport.testing.images_contract import ImageEngine
from lucky_transport.transport import Transport
from tests.support.scripted_engine import ScriptedEngine
from tests.support.sleeps import Slices, slept_ns, wakers
from tests.support.waiting import PATIENCE_S, until

SCENE, CAMERA = method("SceneService/GetSceneInfo"), method("CameraService/StreamCamera")
#: Longer than three slices by far: a side that does not look gets a timeout.
LONG_NS = 20_000_000_000
#: The longest sleep of a side that is owed an answer, and of one that waits for free space.
ANSWER_NS, ROOM_NS = 30_000_000, 50_000_000
ACTIONS = np.zeros((2, 2), np.float32)


class Silent(ScriptedEngine):
    """Nothing of it comes before `release`: no frame, no answer and no item."""

    def __init__(self) -> None:
        def answer(request: Any) -> Any:
            self.release.wait(PATIENCE_S)
            return SCENE.response()

        def items(request: Any, call: Any) -> Iterator[Any]:
            self.release.wait(PATIENCE_S)
            yield ImageFrame(b"", 1, 1, 4, request.name, frame_number=7)

        offers: Any = {"services": {SCENE.name: answer}, "streams": {CAMERA.name: items}}
        super().__init__(2, on_step=answer, parallel_envs=2, **offers)
        self.release = threading.Event()

    def step_env(self, env: int, control: int) -> None:
        self.release.wait(PATIENCE_S)
        super().step_env(env, control)


#: What a client begins, and what it then waits for.
WAITS: dict[str, tuple[Callable[[Transport], object], Callable[[Transport], object]]] = {
    "a step": (lambda client: None, lambda client: client.step(ACTIONS)),
    "a frame": (lambda client: client.send(ACTIONS), lambda client: client.recv()),
    "a frame until a deadline": (
        lambda client: client.send(ACTIONS),
        lambda client: client.recv(Deadline(LONG_NS / 1e9)),
    ),
    "envs": (lambda client: client.send_envs(ACTIONS), lambda client: client.recv_envs(2)),
    "a call": (lambda client: None, lambda client: client.call(SCENE, GetSceneInfoRequest())),
    "a stream": (lambda client: None, lambda client: next(client.stream(CAMERA, StreamCameraRequest(name="one")))),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_side_looks_at_its_peer_after_each_slice_of_its_wait(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices, engine, name = Slices(monkeypatch), Silent(), f"shm://{unique_name()}"
    begin, wait_for = WAITS[wait]
    with api.serve(engine, name), api.open_transport(name) as client, ExitStack() as stack:
        stack.callback(engine.release.set)
        begin(client)
        with slices.dies(), pytest.raises(PeerDied):
            wait_for(client)
    assert len(slices.between) > slices.LOOKS
    assert 0 < max(slices.between) <= ANSWER_NS, slices.between


def test_an_engine_that_waits_for_its_images_looks_after_each_slice_whether_the_stream_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait, slices = ImageStream.wait_for_room, list[int]()
    monkeypatch.setattr(ImageStream, "wait_for_room", lambda images, ns: (slices.append(ns), wait(images, ns)))
    name = f"shm://{unique_name()}"
    with api.serve(ImageEngine(), name), api.open_transport(name) as transport:
        with transport.stream(CAMERA, StreamCameraRequest(name="endless")) as items:
            next(items)
            until(lambda: len(slices) > Slices.LOOKS)
        assert max(slices) <= ROOM_NS


#: By the server, how the name of the thread begins that finds its next client.
IDLE = {"shm": "shm server ", "holodeck": "holodeck watch ", "pipe": "pipe "}


@pytest.mark.parametrize("scheme", IDLE)
def test_a_server_without_a_client_sleeps_until_one_comes(scheme: str) -> None:
    if scheme == "holodeck":
        pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")
    name = unique_name()
    with api.serve("cartpole", f"{scheme}://{name}"):
        [thread] = [each for each in threading.enumerate() if each.name.startswith(IDLE[scheme]) and name in each.name]
        until(lambda: slept_ns(thread) > LOOP_SLICE_NS / 2 if scheme == "shm" else "inotify" in wakers(thread))


class Ends:
    """Each method makes a call, on this thread, of a server in shared memory that does not answer before `release`."""

    def __init__(self) -> None:
        self.name = unique_name()
        self.release = threading.Event()

    def typed(self) -> None:
        with self._engine(), api.connect(f"shm://{self.name}") as client:
            assert len(list(client.camera.stream("one"))) == 1

    def typed_in_a_loop(self) -> None:
        async def call() -> None:
            async with lucky_transport.connect_async(f"shm://{self.name}") as client:
                assert len([item async for item in client.camera.stream("one")]) == 1

        with self._engine():
            asyncio.run(call())

    def stub(self) -> None:
        import lucky_transport_stubs

        def answer(request: bytes, _: Any) -> bytes:
            self.release.wait(PATIENCE_S)
            return request

        with ThreadPoolExecutor(1) as pool:
            server = lucky_transport_stubs.server(pool, handlers=(_handler(answer),))
            server.add_insecure_port(f"shm://{self.name}")
            server.start()
            with lucky_transport_stubs.channel(f"shm://{self.name}") as channel:
                channel.unary_unary("/t.Test/Call")(b"")
            server.stop(None).wait(PATIENCE_S)

    def stub_in_a_loop(self) -> None:
        import lucky_transport_stubs

        async def answer(request: bytes, _: Any) -> bytes:
            await asyncio.to_thread(self.release.wait, PATIENCE_S)
            return request

        async def serve(has_started: threading.Event) -> None:
            server = lucky_transport_stubs.aio_server(handlers=(_handler(answer),))
            server.add_insecure_port(f"shm://{self.name}")
            await server.start()
            has_started.set()
            await asyncio.to_thread(self.release.wait, PATIENCE_S)
            await server.stop(PATIENCE_S)

        async def call() -> None:
            async with lucky_transport_stubs.aio_channel(f"shm://{self.name}") as channel:
                await channel.unary_unary("/t.Test/Call")(b"")

        has_started = threading.Event()
        serving = threading.Thread(target=lambda: asyncio.run(serve(has_started)), name=f"loop {self.name}")
        serving.start()
        has_started.wait(PATIENCE_S)
        asyncio.run(call())
        serving.join()

    @contextlib.contextmanager
    def _engine(self) -> Iterator[None]:
        engine = Silent()
        engine.release = self.release
        with api.serve(engine, f"shm://{self.name}"), api.open_transport(f"shm://{self.name}"):
            yield  # further clients connect to its listener


def _handler(behaviour: Any) -> Any:
    import grpc

    return grpc.method_handlers_generic_handler("t.Test", {"Call": grpc.unary_unary_rpc_method_handler(behaviour)})


#: By the call, how the name of the server's thread begins.
SERVERS = {
    "typed": "shm commands ",
    "typed_in_a_loop": "shm commands ",
    "stub": "grpc server shm://",
    "stub_in_a_loop": "loop ",
}


@pytest.mark.parametrize("call", SERVERS)
def test_the_end_of_either_process_wakes_the_other_one_from_a_call(call: str) -> None:
    if call.startswith("stub"):
        pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    ends = Ends()
    caller = threading.Thread(target=getattr(ends, call), name="caller", daemon=True)
    caller.start()
    try:
        for begins in ("caller", f"{SERVERS[call]}{ends.name}"):
            until(lambda begins=begins: _is_woken_by_a_death(begins))
    finally:
        ends.release.set()
        caller.join(PATIENCE_S)


def _is_woken_by_a_death(begins: str) -> bool:
    """True while a thread whose name begins so sleeps until something comes or another process ends."""
    return any(thread.name.startswith(begins) and "pidfd" in wakers(thread) for thread in threading.enumerate())


@pytest.mark.parametrize("scheme", ["shm", "grpc"])
def test_a_call_ends_by_the_setting_and_a_stream_without_a_deadline_waits_on(scheme: str) -> None:
    if scheme == "grpc":
        pytest.importorskip("grpc")
    engine = Silent()
    place = "127.0.0.1:0" if scheme == "grpc" else unique_name()
    with (
        api.serve(engine, f"{scheme}://{place}") as serving,
        api.connect(str(serving.endpoints[0]), command_timeout_s=0.2) as client,
    ):
        waiting = client.camera.stream("one")
        limited = client.camera.stream("other", timeout_s=0.2)
        with pytest.raises(PeerTimeout):
            client.scene.get_scene_info()
        with pytest.raises(PeerTimeout):
            next(limited)
        engine.release.set()
        assert next(waiting).frame_number == 7
