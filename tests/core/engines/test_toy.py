"""The toy engine keeps the contract, answers a little of each kind of method, and its options do what they say."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lucky_transport.api import make_engine
from lucky_transport.call import Call
from lucky_transport.engine import RESET, Buffers, Engine
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import ConfigError, EngineFailed, SpecError, UnknownName
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetJointStateRequest,
    GetSceneInfoRequest,
    LidarSensorRequest,
    ListEntitiesRequest,
    SetResetOptionsRequest,
    SetSeedsRequest,
    SimulationContract,
    StartViewportStreamRequest,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import BY_NAME, method
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.dial import DialEngine
from tests.support.waiting import PATIENCE_S

_PREFIX = "/lucky_transport.v1.BatchService/"


class TestToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2)


class TestToyWithResetTicks(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, parallel_envs=2, reset_ticks=1)


class TestToyWithoutHold(EngineContract):
    hold = False

    def make_engine(self, num_envs: int) -> Engine:
        return ToyEngine(num_envs, episode_steps=25, hold=False)


class TestCompositeToy(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("toy:composite", num_envs, episode_steps=25)


class TestDial(EngineContract):
    random_start = False
    seeds = False

    def make_engine(self, num_envs: int) -> Engine:
        return DialEngine(num_envs)


def _bound(engine: Engine) -> Buffers:
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    return buffers


def _reset(engine: Engine) -> None:
    engine.step(np.full(engine.spec.num_envs, RESET, np.uint8))


def test_an_episode_terminates_when_it_leaves_the_middle() -> None:
    engine = ToyEngine(2)
    buffers = _bound(engine)
    _reset(engine)
    buffers.actions[0] = 1.0
    steps = 0
    while not buffers.terminated.any():
        engine.step(None)
        steps += 1
    assert buffers.terminated.tolist() == [1, 0]
    assert abs(buffers.observations[0, 0]) > 0.5
    assert 1 < steps < 100


def test_seeds_of_another_number_are_refused() -> None:
    answer = ToyEngine(3).services[_PREFIX + "SetSeeds"](SetSeedsRequest([1, 2]))
    assert (answer.success, answer.message) == (False, "2 seeds for 3 envs: expected one per env")


def test_it_fails_at_the_step_it_was_told_to() -> None:
    engine = ToyEngine(1, fail_at=2)
    _bound(engine)
    engine.step(None)
    with pytest.raises(ArithmeticError, match="fail at step 2"):
        engine.step(None)


def test_it_leaves_its_process_at_the_step_it_was_told_to() -> None:
    program = (
        "from lucky_transport.engines.toy import ToyEngine; from lucky_transport.engine import Buffers\n"
        "engine = ToyEngine(1, exit_at=2); engine.bind(Buffers.allocate(engine.spec))\n"
        "engine.step(None); print('one', flush=True); engine.step(None); print('two', flush=True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (3, "one\n")


@pytest.mark.parametrize("options", [{"obs_size": 0}, {"act_size": 0}, {"num_envs": 0}])
def test_empty_sizes_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SpecError, match="at least 1"):
        ToyEngine(**options)  # pyright: ignore[reportArgumentType]


def test_unknown_options_and_variants_are_refused_by_name() -> None:
    for variant in ("toy", "toy:idle", "toy:composite"):
        with pytest.raises(ConfigError, match=r"no option 'obs_szie'; did you mean 'obs_size'\? options: .*act_size, "):
            make_engine(variant, obs_szie=3)
    with pytest.raises(UnknownName, match=r"no variant 'idel'; did you mean 'toy:idle'\? use toy or toy:idle or "):
        make_engine("toy:idel")


def test_answers_show_where_the_points_are() -> None:
    engine = ToyEngine(3)
    host = Host(engine)
    buffers = Buffers.allocate(host.spec)
    buffers.actions[:] = 0.5
    host.drive("me", buffers).step(np.full(3, RESET, np.uint8))
    state = host.call(method("MujocoService/GetJointState"), GetJointStateRequest("agent_2")).state
    assert np.array_equal(np.float32(state.positions), buffers.observations[2])
    entities = host.call(method("SceneService/ListEntities"), ListEntitiesRequest(True, True)).entities
    assert [entity.name for entity in entities] == ["agent_0", "agent_1", "agent_2"]
    assert entities[1].transform.position.x == buffers.observations[1, 0]
    frame = next(host.stream(method("TelemetryService/StreamTelemetry"), StreamTelemetryRequest(), Call("me")))
    assert np.array_equal(np.float32(frame.observation_qpos), buffers.observations[0])
    assert frame.action_ctrl == [0.5, 0.5]
    info = host.call(method("SceneService/GetSceneInfo"), GetSceneInfoRequest())
    assert info.entity_count == len(entities)


def test_what_was_not_asked_for_is_not_served() -> None:
    awkward = {"GetLidarBeamAngles", "GetLidarBeamCount", "StreamViewport", "StreamPolicySlotState"}
    plain, asked = ToyEngine(), ToyEngine(answer_delay_s=0.01, faulty=True, slots=2)
    offered = {name.rpartition("/")[2] for name in (*plain.services, *plain.streams)}
    assert not offered & awkward
    assert {name.rpartition("/")[2] for name in (*asked.services, *asked.streams)} - offered == awkward
    assert set(asked.services) | set(asked.streams) <= set(BY_NAME)


def test_the_awkward_ones_do_what_their_options_say() -> None:
    host = Host(ToyEngine(answer_delay_s=0.01, faulty=True, slots=3))
    slow = method("LidarService/GetLidarBeamAngles")
    assert host.call(slow, LidarSensorRequest(4)).beams == 4
    with pytest.raises(EngineFailed, match="LookupError"):
        host.call(method("LidarService/GetLidarBeamCount"), LidarSensorRequest())
    frames = host.stream(method("ViewportService/StreamViewport"), StartViewportStreamRequest(), Call("me"))
    assert [next(frames).frame_number, next(frames).frame_number] == [0, 1]
    with pytest.raises(EngineFailed, match="ArithmeticError"):
        next(frames)
    slots = method("AgentService/StreamPolicySlotState")
    found = host.stream(slots, StreamPolicySlotStateRequest(), Call("me"))
    assert [slot.name for slot in found] == ["slot_0", "slot_1", "slot_2"]


def test_noise_comes_from_options_and_randomization_and_returns_where_they_say_nothing() -> None:
    def spread(*requests: SetResetOptionsRequest) -> float:
        host = Host(ToyEngine(64, obs_size=1))
        buffers = Buffers.allocate(host.spec)
        for request in requests:
            assert host.call(method("/lucky_transport.v1.BatchService/SetResetOptions"), request).success
        lease = host.drive("me", buffers)
        lease.step(np.full(64, RESET, np.uint8))
        start = buffers.observations.copy()
        lease.step()
        return float(np.abs(buffers.observations - start * np.float32(0.9)).max())

    quiet = SetResetOptionsRequest(None, '{"noise": 0}')
    loud = SetResetOptionsRequest(SimulationContract(joint_position_noise=0.5))
    assert spread(quiet, SetResetOptionsRequest()) == spread()
    assert spread(quiet) < 1e-6 < spread(loud) != spread()


def test_an_idle_engine_touches_nothing() -> None:
    engine = make_engine("toy:idle", 2)
    buffers = _bound(engine)
    engine.step(None)
    _reset(engine)
    assert not buffers.observations.any()
    assert not buffers.signals.any()


def test_a_copying_engine_copies_its_frame_with_the_number_of_the_step_at_both_ends() -> None:
    engine = make_engine("toy:copy", 2)
    buffers = _bound(engine)
    for number in (1, 2, 3):
        engine.step(None)
        values = buffers.observations.reshape(-1)
        assert values[0] == values[-1] == number
        assert (values[1:-1] == 0.5).all()
