"""The toy engine answers a little of each kind of method, and is slow or fails only where it was asked to."""

from __future__ import annotations

import numpy as np
import pytest

from lucky_transport.call import Call
from lucky_transport.engine import RESET, Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import EngineFailed
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetJointStateRequest,
    GetSceneInfoRequest,
    LidarSensorRequest,
    ListEntitiesRequest,
    SetResetOptionsRequest,
    StartViewportStreamRequest,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import BY_NAME, method


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


def test_reset_options_that_say_nothing_restore_the_noise() -> None:
    def spread(*requests: SetResetOptionsRequest) -> float:
        host = Host(ToyEngine(64, obs_size=1))
        buffers = Buffers.allocate(host.spec)
        for request in requests:
            assert host.call(method("/lucky_transport.v1.BatchService/SetResetOptions"), request).success
        lease = host.drive("me", buffers)
        lease.step(np.full(64, RESET, np.uint8))
        lease.step()
        return float(buffers.observations.std())

    quiet = SetResetOptionsRequest(None, '{"noise": 0}')
    assert spread(quiet, SetResetOptionsRequest()) == spread()
    assert spread(quiet) != spread()
