"""Commands, streams and images of each kit's example are those of the same engine in Python."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lucky_transport import errors
from lucky_transport import messages as m
from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.transport import Transport
from tests.support.kit_engine import KitEngine
from tests.support.waiting import PATIENCE_S, until, until_none_left

NUM_ENVS = 4
ENGINE = (NUM_ENVS,)
SHM = Path("/dev/shm")
JOINTS, STREAM_JOINTS = method("MujocoService/GetJointState"), method("MujocoService/StreamJointState")
CAMERA, SEEDS = method("CameraService/StreamCamera"), method("BatchService/SetSeeds")
#: Longer than the longest record of the example's rings, shorter than the longest message.
LONG = 300_000


def begun(client: Transport) -> Transport:
    """Return the client after some steps, the same for each client."""
    client.call(SEEDS, m.SetSeedsRequest(list(range(NUM_ENVS))))
    client.step(np.zeros((NUM_ENVS, 1), np.float32), np.full(NUM_ENVS, RESET, np.uint8))
    for torque in (1.0, -2.0, 0.5):
        client.step(np.full((NUM_ENVS, 1), torque, np.float32))
    return client


@pytest.fixture
def actual(engine: KitEngine) -> Iterator[Transport]:
    with engine.connect() as client:
        yield begun(client)


@pytest.fixture
def expected() -> Iterator[Transport]:
    with InprocTransport(Host(PendulumEngine(NUM_ENVS))) as client:
        yield begun(client)


# commands


@pytest.mark.parametrize("robot", ["", "agent_0", "agent_3", "agent_4", "agent_-1", "nobody", "Übermut"])
def test_a_command_is_answered_as_in_python(actual: Transport, expected: Transport, robot: str) -> None:
    request = m.GetJointStateRequest(robot)
    assert actual.call(JOINTS, request) == expected.call(JOINTS, request)


@pytest.mark.parametrize(
    "request_",
    [m.SetSeedsRequest([1]), m.SetSeedsRequest([1, 2, 3, 2**64 - 1], b"\1\0"), m.SetSeedsRequest([0] * 4, b"\1" * 4)],
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
    begun = [actual.begin(JOINTS, m.GetJointStateRequest(f"agent_{i % 6}")) for i in range(500)]
    assert [one.result().success for one in begun] == [i % 6 < NUM_ENVS for i in range(500)]


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
            actual.step(np.zeros((NUM_ENVS, 1), np.float32))
        assert actual.call(JOINTS, m.GetJointStateRequest()).success


def test_one_that_is_no_stream_is_not_opened_as_one(actual: Transport) -> None:
    with pytest.raises(errors.LocalProtocolError):
        actual.call(STREAM_JOINTS, m.GetJointStateRequest())


# images


@pytest.mark.parametrize("name", ["nope", "agent_4/front", "agent_1/nope", "front/agent_0"])
def test_a_camera_that_is_none_is_refused_as_in_python(actual: Transport, expected: Transport, name: str) -> None:
    said: list[str] = []
    for client in (actual, expected):
        with (
            client.stream(CAMERA, m.StreamCameraRequest(name=name)) as stream,
            pytest.raises(errors.UnknownName) as refused,
        ):
            next(stream)
        said.append(str(refused.value))
    assert said == [f"no camera '{name}'; there are agent_0/front to agent_3/front"] * 2


def test_render_shows_each_env_as_in_python(engine: KitEngine) -> None:
    images: list[tuple[bytes, ...]] = []
    for client in (engine.connect(), InprocTransport(Host(PendulumEngine(NUM_ENVS)))):
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
