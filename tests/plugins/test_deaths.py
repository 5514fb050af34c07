"""A process dies, leaves, closes or stands still while another one depends on it: the other is told, and goes on.

Which dies, by what deed, and what the other one waits for; each over every transport that has it.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET, Engine
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport.messages import StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.client import SessionClient
from lucky_transport.testing.images_contract import ImageEngine
from lucky_transport_migration.bench.echo_engine import shade
from tests.support.forked_programs import Programs
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S, call_later, suspend, until, until_none_left

pytestmark = pytest.mark.usefixtures("forked_engines")

SCHEMA = method("AgentService/GetAgentSchema")
TELEMETRY = method("TelemetryService/StreamTelemetry")
CAMERA = method("CameraService/StreamCamera")
ENDLESS = {"initial_angle": 0, "max_ticks": 1_000_000_000}
NUM_ENVS = 2
#: Transport -> where an engine is served, and the words that a client reads when that engine has died.
TRANSPORTS = {
    "shm": ("shm://{name}", "pid {pid}.*(ended|closed the connection)|ended"),
    "grpc": ("grpc://127.0.0.1:0", "start the engine again, then connect again|the engine is gone"),
}


class At:
    """An engine in a process of its own, and a client of it, which drives it unless another one does."""

    def __init__(self, stack: contextlib.ExitStack, transport: str, engine: str = "toy", **options: Any) -> None:
        self._transport, _, self._kind = transport.partition(" ")
        place, self.words = TRANSPORTS[self._transport]
        if self._kind == "agent":  # the reset of each agent is an exchange of its own
            options = {name: at and at + NUM_ENVS - 1 for name, at in options.items()}
        self.process = EngineProcess(engine, [place.format(name=unique_name())], num_envs=NUM_ENVS, options=options)
        stack.callback(self.process.stop)
        self.endpoint = str(self.process.endpoints[0])
        if self._kind == "command client":
            stack.enter_context(api.open_transport(self.endpoint))
        service = f"?service={self._kind}" if self._transport == "grpc" else ""
        self.client: Any = stack.enter_context(api.open_transport(self.endpoint + service))
        self.waits = threading.Event()

    def reset(self) -> Any:
        return self.client.step(self.client.actions, np.full(NUM_ENVS, RESET, np.uint8))

    def sessions(self) -> SessionClient:
        return SessionClient(self.client)


def _frame(at: At) -> object:
    at.client.send(at.client.actions)
    return at.client.recv()


def _calls(at: At) -> object:
    while True:
        at.client.call(SCHEMA, SCHEMA.request())


def _stream(at: At) -> object:
    return list(at.client.stream(TELEMETRY, TELEMETRY.request(target_fps=5)))


def _images(at: At) -> None:
    """What was shown last stays readable; whoever asked for the next one has let the engine write there."""
    stream = at.client.stream(CAMERA, StreamCameraRequest(name="x"), copy=False)
    seen = next(stream)
    at.waits.set()
    try:
        while True:
            seen = next(stream)
    finally:
        shades = {shade(seen.frame_number + later) for later in range(4)}
        assert {*np.unique(np.frombuffer(seen.data, np.uint8)).tolist()} <= shades


def _first_image(at: At) -> object:
    """It was sent, and whoever cleans up behind the engine removes where it lies."""
    images = f"{at.endpoint.removeprefix('shm://')}.images"
    stream = at.client.stream(CAMERA, StreamCameraRequest(name="x"))
    until(lambda: _files(images))
    at.client.call(SCHEMA, SCHEMA.request())
    at.process.kill()
    at.process.stop()
    until_none_left(lambda: _files(images))
    at.waits.set()
    return next(stream)


def _envs(at: At) -> None:
    """What was published before comes still."""
    at.client.send_envs(np.zeros((NUM_ENVS, 2), np.float32))
    while True:
        ids, _ = at.client.recv_envs(1)
        at.client.send_envs(np.zeros((len(ids), 2), np.float32), ids)


def _sessions(at: At) -> object:
    sessions = at.sessions()
    turns = [AdvanceRequest(sessions.create(options=ENDLESS), 1_000_000_000) for _ in range(5)]
    at.waits.set()
    return sessions.advance_all(turns, Deadline(PATIENCE_S))


def _tasks(at: At) -> None:
    """A call and a stream of one loop."""

    async def main() -> None:
        async def call() -> None:
            while True:
                await client.agent.get_schema()

        async def stream() -> None:
            async for _ in client.telemetry.stream(fps=5):
                at.waits.set()

        async with lucky_transport.connect_async(at.endpoint) as client:
            ends = await asyncio.gather(call(), stream(), return_exceptions=True)
            assert {type(end) for end in ends} == {PeerDied}
            await client.agent.get_schema()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


#: What a client waits for -> how, the engine that lets it wait, and its options.
WAITS: dict[str, tuple[Callable[[At], object], str, dict[str, Any]]] = {
    "a step": (lambda at: at.client.step(at.client.actions), "toy", {"hang_at": 2}),
    "a frame": (_frame, "toy", {"hang_at": 2}),
    "calls": (_calls, "toy", {}),
    "a stream": (_stream, "toy", {}),
    "sessions": (_sessions, "cartpole", {}),
    "images": (_images, "echo", {"width": 320, "height": 240}),
    "a first image": (_first_image, "echo", {"width": 320, "height": 240}),
    "envs": (_envs, "toy", {"parallel_envs": NUM_ENVS, "delays_s": [0.001, 0.02]}),
    "tasks": (_tasks, "toy", {}),
}
STEPS = ("a step", "a frame", "envs")
IMAGES = ("images", "a first image")
DRIVERS = ["shm", "grpc batch", "grpc agent"]
KILLED = [
    *(("shm", wait) for wait in WAITS),
    *(("shm command client", wait) for wait in WAITS if wait not in (*STEPS, "tasks")),
    *(("grpc batch", wait) for wait in WAITS if wait not in (*IMAGES, "envs")),
    ("grpc agent", "a step"),
    ("grpc agent", "a frame"),
]


@pytest.fixture
def stack(request: pytest.FixtureRequest) -> Iterator[contextlib.ExitStack]:
    if "grpc" in request.node.name:
        pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.mark.parametrize(("transport", "wait"), KILLED)
def test_an_engine_that_is_killed_ends_the_wait(stack: contextlib.ExitStack, transport: str, wait: str) -> None:
    waits, engine, options = WAITS[wait]
    at = At(stack, transport, engine, **options)
    if wait in STEPS:
        at.reset()
    if wait not in (*IMAGES, "sessions", "tasks"):
        at.waits.set()
    killer = call_later(lambda: (at.waits.wait(PATIENCE_S), at.process.kill()))
    with pytest.raises(PeerDied, match=at.words.format(pid=at.process.pid)):
        waits(at)
    killer.join()
    with pytest.raises(PeerDied, match="connect again"):
        at.client.call(SCHEMA, SCHEMA.request())
    if wait in STEPS:
        with pytest.raises(PeerDied, match="connect again"):
            at.client.send(at.client.actions)


@pytest.mark.parametrize("transport", DRIVERS)
@pytest.mark.parametrize("deed", ["leaves in a step", "is killed between steps"])
def test_an_engine_that_has_gone_is_noticed_by_the_next_step(
    stack: contextlib.ExitStack, transport: str, deed: str
) -> None:
    at = At(stack, transport, exit_at=2 if deed == "leaves in a step" else 0)
    frame = at.reset()
    shown = frame.observations.copy()
    if deed == "is killed between steps":
        at.process.kill()
    for _ in range(2):
        with pytest.raises(PeerDied):
            at.client.step(at.client.actions)
    at.client.close()
    assert np.array_equal(frame.observations, shown)


@pytest.mark.parametrize("transport", DRIVERS)
def test_an_engine_that_closes_in_order_says_so(stack: contextlib.ExitStack, transport: str) -> None:
    at = At(stack, transport)
    at.reset()
    assert at.process.stop() == 0
    error, words = (ClosedError, "the engine closed; start it") if transport == "shm" else (PeerDied, at.words)
    for _ in range(2):
        with pytest.raises(error, match=words):
            at.client.step(at.client.actions)


def test_an_engine_that_is_stopped_is_late_and_not_dead(stack: contextlib.ExitStack) -> None:
    at = At(stack, "shm", "cartpole")
    at.reset()
    suspend(at.process.pid)
    try:
        with pytest.raises(PeerTimeout, match=f"pid {at.process.pid}, stopped"):
            at.client.step(at.client.actions, deadline=Deadline(0.1))
    finally:
        os.kill(at.process.pid, signal.SIGCONT)
    assert at.client.recv().seq == 2


# --- a client ---


def _watched(ended: threading.Event) -> Engine:
    """An engine that notes that a stream has ended."""

    def watch(request: Any, call: Any) -> Iterator[Any]:
        call.on_end(ended.set)
        yield TELEMETRY.response()
        while call.wait(PATIENCE_S):
            pass

    return ScriptedEngine(NUM_ENVS, parallel_envs=NUM_ENVS, streams={TELEMETRY.name: watch})


_CLIENT = """
import sys, time
import numpy as np
from lucky_transport import api
from lucky_transport.messages import StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.sessions.client import SessionClient
client = api.open_transport(sys.argv[1])
sessions = lambda: SessionClient(client)
telemetry, camera = method("TelemetryService/StreamTelemetry"), method("CameraService/StreamCamera")
def step():
    client.step(client.actions, np.ones(client.spec.num_envs, np.uint8))
"""
#: What the client does when it is killed -> the end of its program, and the engine.
DOINGS: dict[str, tuple[str, Callable[[threading.Event], str | Engine]]] = {
    "it drives": ("step()", _watched),
    "a frame is outstanding": ("step()\nclient.send(client.actions)", _watched),
    "envs are under way": ("client.send_envs(client.actions)", _watched),
    "it reads a stream": ("stream = client.stream(telemetry, telemetry.request())\nnext(stream)", _watched),
    "it holds an image": (
        'stream = client.stream(camera, StreamCameraRequest(name="endless"), copy=False)\nframe = next(stream)',
        lambda _: ImageEngine(),
    ),
    "it has sessions": ("for _ in range(3): sessions().create()", lambda _: "cartpole"),
}
COMMANDS = [doing for doing in DOINGS if "it" in doing and doing != "it drives"]
LEFT = [
    *(("shm", doing) for doing in DOINGS),
    *(("shm command client", doing) for doing in COMMANDS),
    *(
        ("grpc batch", doing)
        for doing in ("it drives", "a frame is outstanding", "it reads a stream", "it has sessions")
    ),
    ("grpc agent", "it drives"),
]


@pytest.mark.parametrize(("transport", "doing"), LEFT)
def test_a_client_that_is_killed_leaves_nothing_and_makes_room_for_the_next(
    stack: contextlib.ExitStack, served_programs: Programs, transport: str, doing: str
) -> None:
    (scheme, _, kind), (program, make) = transport.partition(" "), DOINGS[doing]
    ended, name = threading.Event(), unique_name()
    engine = make(ended)
    serving = stack.enter_context(api.serve(engine, TRANSPORTS[scheme][0].format(name=name), num_envs=NUM_ENVS))
    endpoint = f"{serving.endpoints[0]}{f'?service={kind}' if scheme == 'grpc' else ''}"
    first = stack.enter_context(api.open_transport(endpoint)) if kind == "command client" else None
    before = set(_files(name))
    ready = "\nprint('ready', flush=True)\ntime.sleep(600)\n"
    with served_programs.start(["-c", _CLIENT + program + ready, endpoint]) as client:
        assert client.stdout.readline() == "ready\n", client.communicate()
        assert f"pid {client.pid}" in serving.host.driver or doing not in ("it drives", "a frame is outstanding")
        client.kill()
        client.wait()
    until_none_left(lambda: set(_files(name)) - before)
    until(lambda: not serving.host.driver)
    if doing == "it reads a stream":
        assert ended.wait(PATIENCE_S)
    with contextlib.nullcontext(first) if first else api.open_transport(endpoint, load_settings()) as following:
        assert following.step(following.actions, np.ones(following.spec.num_envs, np.uint8)).seq == 1
        if doing == "envs are under way":
            following.send_envs(following.actions)
            assert following.recv_envs(NUM_ENVS, Deadline(PATIENCE_S))[0].tolist() == list(range(NUM_ENVS))
        if engine == "cartpole":
            until(lambda: SessionClient(following).ids() == [])
        else:
            assert following.call(SCHEMA, SCHEMA.request()).schema.action_size > 0


def _files(name: str) -> list[str]:
    return [path.name for path in Path("/dev/shm").glob(f"{name}*")]
