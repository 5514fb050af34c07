"""The example engine of each kit steps, answers, shows images and ends as the same engine in Python does."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport import errors
from lucky_transport import messages as m
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.shm.segment.segment_files import remove_stale
from lucky_transport.transport import Transport
from tests.support.kit_engine import KitEngine
from tests.support.resources import voluntary_switches
from tests.support.waiting import PATIENCE_S, until, until_none_left

NUM_ENVS, MAX_TICKS = 8, 25
ENGINE, REST = (NUM_ENVS, MAX_TICKS), np.zeros((NUM_ENVS, 1), np.float32)
SHM = Path("/dev/shm")

JOINTS, STREAM_JOINTS = method("MujocoService/GetJointState"), method("MujocoService/StreamJointState")
CAMERA, SEEDS = method("CameraService/StreamCamera"), method("BatchService/SetSeeds")
#: Longer than the longest record of the example's rings, shorter than the longest message.
LONG = 300_000

Start = Callable[[], KitEngine]


@pytest.fixture
def start(pendulum: list[str]) -> Iterator[Start]:
    """Start engines that a test may end; all of them have one name."""
    name, started = unique_name(), list[KitEngine]()

    def start_one() -> KitEngine:
        started.append(KitEngine(pendulum, name, NUM_ENVS, MAX_TICKS))
        return started[-1]

    yield start_one
    for one in started:
        one.close()
    remove_stale()
    until_none_left(lambda: list(SHM.glob(f"{name}*")))


def in_python() -> Transport:
    """Return the same engine in this process."""
    return InprocTransport(Host(PendulumEngine(NUM_ENVS, max_ticks=MAX_TICKS)))


def same(one: Any, other: Any) -> bool:
    """True for the same bits, whatever holds them."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


# lock-step


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_it_steps_as_the_engine_in_python_does_bit_for_bit(engine: KitEngine, mode: str) -> None:
    random = np.random.default_rng(0)
    actual, expected = engine.connect(), in_python()
    assert actual.spec == expected.spec
    with VectorEnv(actual, autoreset_mode=mode) as ours, VectorEnv(expected, autoreset_mode=mode) as theirs:
        assert same(ours.reset(seed=5), theirs.reset(seed=5))
        for _ in range(3 * MAX_TICKS):
            actions = random.uniform(-3, 3, (NUM_ENVS, 1)).astype(np.float32)
            assert same(ours.step(actions), theirs.step(actions))


def test_it_does_with_control_bytes_what_the_engine_in_python_does(engine: KitEngine) -> None:
    random = np.random.default_rng(1)
    with engine.connect() as actual, in_python() as expected:
        for client in (actual, expected):
            seeds = m.SetSeedsRequest([7 * env for env in range(NUM_ENVS)])
            assert client.call(SEEDS, seeds) == m.SetSeedsResponse(True)
            client.step(REST, np.full(NUM_ENVS, RESET, np.uint8))
        for _ in range(2 * MAX_TICKS):
            actions = random.uniform(-3, 3, (NUM_ENVS, 1)).astype(np.float32)
            control = random.choice([0, 0, RESET, HOLD, RESET | HOLD], NUM_ENVS).astype(np.uint8)
            one, other = actual.step(actions, control), expected.step(actions, control)
            for array in ("observations", "rewards", "terminated", "truncated", "signals"):
                assert same(getattr(one, array), getattr(other, array)), array


def test_the_next_client_finds_it_free_and_a_second_one_may_not_step(engine: KitEngine) -> None:
    for _ in range(3):
        with engine.connect() as client:
            client.step(REST)
            with pytest.raises(errors.Busy, match="has a client already"):
                engine.connect(connect_timeout_s=0.1)


def test_without_a_client_each_of_its_threads_wakes_once_a_second_at_most(engine: KitEngine) -> None:
    with engine.connect() as client:
        client.step(REST)
    time.sleep(0.5)  # what the client leaves to be done
    before = {thread: voluntary_switches(int(thread)) for thread in os.listdir(f"/proc/{engine.process.pid}/task")}
    time.sleep(3)
    found = {thread: voluntary_switches(int(thread)) - count for thread, count in before.items()}
    assert max(found.values()) <= 4, found


# how it ends


def test_one_that_is_killed_is_noticed_and_the_next_one_takes_its_segment_over(start: Start) -> None:
    first = start()
    client = first.connect()
    client.step(REST)
    first.signal(signal.SIGKILL)
    with pytest.raises(errors.PeerDied, match="ended"):
        client.step(REST)
    second = start()
    second.wait()  # a client that closes removes what no engine holds
    client.close()
    with second.connect() as again:
        again.step(REST)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_client_and_leaves_nothing(start: Start, number: signal.Signals) -> None:
    engine = start()
    client = engine.connect()
    client.step(REST)
    assert engine.signal(number) == (0, "")
    assert not list(SHM.glob(f"{engine.name}*"))
    with pytest.raises(errors.ClosedError, match="the engine is closing"):
        client.call(SEEDS, m.SetSeedsRequest([0] * NUM_ENVS))
    for _ in range(2):
        with pytest.raises(errors.ClosedError, match="the engine closed"):
            client.step(REST)
    client.close()


def test_a_second_engine_of_its_name_is_refused(start: Start) -> None:
    with start().connect():
        second = start()
        _, errors = second.process.communicate(timeout=PATIENCE_S)
        assert second.process.returncode == 1
        assert "Busy: segment" in errors


# commands


def begun(client: Transport) -> Transport:
    """Return the client after some steps, the same for each client."""
    client.call(SEEDS, m.SetSeedsRequest(list(range(NUM_ENVS))))
    client.step(REST, np.full(NUM_ENVS, RESET, np.uint8))
    for torque in (1.0, -2.0, 0.5):
        client.step(np.full((NUM_ENVS, 1), torque, np.float32))
    return client


@pytest.fixture
def actual(engine: KitEngine) -> Iterator[Transport]:
    with engine.connect() as client:
        yield begun(client)


@pytest.fixture
def expected() -> Iterator[Transport]:
    with in_python() as client:
        yield begun(client)


# commands


@pytest.mark.parametrize("robot", ["", "agent_0", "agent_7", "agent_8", "agent_-1", "nobody", "Übermut"])
def test_a_command_is_answered_as_in_python(actual: Transport, expected: Transport, robot: str) -> None:
    request = m.GetJointStateRequest(robot)
    assert actual.call(JOINTS, request) == expected.call(JOINTS, request)


@pytest.mark.parametrize(
    "request_",
    [
        m.SetSeedsRequest([1]),
        m.SetSeedsRequest([2**64 - 1] * NUM_ENVS, b"\1\0"),
        m.SetSeedsRequest([2**64 - 1] * NUM_ENVS, b"\1" * NUM_ENVS),
    ],
)
def test_seeds_are_taken_or_refused_as_in_python(
    actual: Transport, expected: Transport, request_: m.SetSeedsRequest
) -> None:
    assert actual.call(SEEDS, request_) == expected.call(SEEDS, request_)


def test_messages_that_are_longer_than_a_record_travel_in_fragments(actual: Transport) -> None:
    answer = actual.call(JOINTS, m.GetJointStateRequest("x" * LONG))
    assert answer == m.GetJointStateResponse(False, f"no robot '{'x' * LONG}'")


def test_a_message_beyond_the_limit_is_refused_by_itself(engine: KitEngine) -> None:
    with engine.connect(max_message_bytes=16 << 20) as client:
        with pytest.raises(errors.SpecError, match="the limit is 4194304"):
            client.call(JOINTS, m.GetJointStateRequest("x" * (5 << 20)))
        assert client.call(JOINTS, m.GetJointStateRequest()).success


def test_many_commands_at_once_are_all_answered(actual: Transport) -> None:
    begun = [actual.begin(JOINTS, m.GetJointStateRequest(f"agent_{i % 12}")) for i in range(500)]
    assert [one.result().success for one in begun] == [i % 12 < NUM_ENVS for i in range(500)]


def test_a_method_without_a_handler_is_unimplemented(actual: Transport) -> None:
    with pytest.raises(
        errors.Unimplemented, match=r"engine 'pendulum' does not implement /hazel.rpc.MujocoService/GetMujocoInfo"
    ):
        actual.call(method("MujocoService/GetMujocoInfo"), m.GetMujocoInfoRequest())


# streams


def test_a_stream_ends_where_its_handler_ends_it(actual: Transport, expected: Transport) -> None:
    request = m.GetJointStateRequest("nobody")
    with actual.stream(STREAM_JOINTS, request) as ours, expected.stream(STREAM_JOINTS, request) as theirs:
        assert list(ours) == list(theirs)


def test_a_stream_shows_the_world_between_the_steps(actual: Transport) -> None:
    with actual.stream(STREAM_JOINTS, m.GetJointStateRequest("agent_1")) as stream:
        seen = [next(stream)]
        for _ in range(2000):
            actual.step(np.ones((NUM_ENVS, 1), np.float32))
        seen.append(until(lambda: _other(next(stream), seen[0])))
    assert seen[0] != seen[1]
    assert actual.call(JOINTS, m.GetJointStateRequest()).success


def _other(state: m.GetJointStateResponse, last: m.GetJointStateResponse) -> m.GetJointStateResponse | None:
    return state if state != last else None


def test_a_stream_ends_by_its_deadline(actual: Transport) -> None:
    with (
        actual.stream(STREAM_JOINTS, m.GetJointStateRequest(), Deadline(0.1)) as stream,
        pytest.raises(errors.PeerTimeout),
    ):
        list(stream)


def test_a_stream_that_its_client_does_not_read_holds_up_neither_steps_nor_commands(actual: Transport) -> None:
    request = m.StreamCameraRequest(name="front", target_fps=1000)
    with actual.stream(CAMERA, request):
        for _ in range(50):
            actual.step(REST)
        assert actual.call(JOINTS, m.GetJointStateRequest()).success


def test_one_that_is_no_stream_is_not_opened_as_one(actual: Transport) -> None:
    with pytest.raises(errors.LocalProtocolError):
        actual.call(STREAM_JOINTS, m.GetJointStateRequest())


# images


@pytest.mark.parametrize("name", ["nope", "agent_8/front", "agent_1/nope", "front/agent_0"])
def test_a_camera_that_is_none_is_refused_as_in_python(actual: Transport, expected: Transport, name: str) -> None:
    said: list[str] = []
    for client in (actual, expected):
        with (
            client.stream(CAMERA, m.StreamCameraRequest(name=name)) as stream,
            pytest.raises(errors.UnknownName) as refused,
        ):
            next(stream)
        said.append(str(refused.value))
    assert said == [f"no camera '{name}'; there are agent_0/front to agent_7/front"] * 2


def test_render_shows_each_env_as_in_python(engine: KitEngine) -> None:
    images: list[tuple[bytes, ...]] = []
    for client in (engine.connect(), in_python()):
        with VectorEnv(client, render_mode="rgb_array") as env:
            env.reset(seed=3)
            images.append(tuple(image.tobytes() for image in env.render()))
    assert images[0] == images[1]
    assert len(set(images[0])) == NUM_ENVS


@pytest.mark.parametrize("copy", [True, False])
def test_images_are_those_of_python_and_lie_beside_the_segment(
    engine: KitEngine, actual: Transport, expected: Transport, copy: bool
) -> None:
    request = m.StreamCameraRequest(name="agent_2/front", target_fps=500)
    with expected.stream(CAMERA, request) as stream:
        picture = bytes(next(stream).data)
    with actual.stream(CAMERA, request, copy=copy) as stream:
        for number in range(20):
            frame = next(stream)
            assert bytes(frame.data) == picture
            assert (frame.width, frame.height, frame.channels, frame.format) == (64, 64, 4, "raw")
            assert frame.frame_number >= number
        assert len(list(SHM.glob(f"{engine.name}.images.*"))) == 1
    until_none_left(lambda: list(SHM.glob(f"{engine.name}.images.*")))


def test_the_files_of_a_client_that_leaves_in_the_middle_go_with_it(engine: KitEngine, actual: Transport) -> None:
    streams = [actual.stream(CAMERA, m.StreamCameraRequest(target_fps=500), copy=False) for _ in range(3)]
    for stream in streams:
        next(stream)
    actual.close()
    until_none_left(lambda: list(SHM.glob(f"{engine.name}.images.*")))
    with engine.connect() as again:
        assert again.call(JOINTS, m.GetJointStateRequest()).success


def test_an_engine_that_is_stopped_tells_those_who_wait(pendulum: list[str]) -> None:
    with KitEngine(pendulum, unique_name()) as engine:
        client = engine.connect()
        stream = client.stream(STREAM_JOINTS, m.GetJointStateRequest())
        next(stream)
        engine.process.terminate()
        with pytest.raises(errors.TransportError, match=r"closing|ended|closed"):
            list(stream)
        client.close()
        # `close` would send a second signal, which ends an engine that is in the middle of its own end.
        assert engine.process.wait(PATIENCE_S) == os.EX_OK
    assert not list(SHM.glob(f"{engine.name}*"))
