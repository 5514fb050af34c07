"""MujocoSceneService: model, full state, filters; and the streams of states, joints and telemetry."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport import messages as m
from tests.plugins.mujoco.conftest import SWAY, TROT

mujoco: Any = pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


def moved(batch: Any) -> Any:
    """Reset and step the batch, so that nothing is zero."""
    batch.reset()
    batch.step(np.random.default_rng(0).uniform(-1, 1, batch.spec.action_shape))
    return batch


def model_info(batch: Any) -> Any:
    """Ask for the model."""
    return batch.ask(m.GetModelInfoRequest())


def full_state(batch: Any, *flags: bool, **conditions: Any) -> Any:
    """Ask for the state; `conditions` make a filter."""
    wanted = m.StateFilter(**conditions) if conditions else None
    qpos, qvel, ctrl = flags or (True, True, True)
    return batch.ask(m.GetFullStateRequest(qpos, qvel, ctrl, wanted))


def test_the_model_is_described_as_mujoco_has_it(pair: Any) -> None:
    info, model = model_info(pair), pair.engine.physics.models[0]
    assert info.success
    assert (info.nq, info.nv, info.nu, info.njnt) == (model.nq, model.nv, model.nu, model.njnt)
    for joint in info.joints:
        same = model.joint(joint.index)
        assert (joint.name, int(joint.type)) == (same.name, int(same.type[0]))
        assert (joint.qpos_adr, joint.qvel_adr) == (int(same.qposadr[0]), int(same.dofadr[0]))
        assert joint.limited == bool(same.limited[0])
        assert [joint.range_lo, joint.range_hi] == same.range.tolist()
    assert [info.joints[0].type, info.joints[1].type] == [m.MjJointType.FREE, m.MjJointType.HINGE]
    for actuator in info.actuators:
        same = model.actuator(actuator.index)
        assert actuator.name == same.name
        assert actuator.target_joint_index == int(same.trnid[0])
        assert actuator.ctrl_limited
        assert [actuator.ctrl_range_lo, actuator.ctrl_range_hi] == same.ctrlrange.tolist()


def test_the_model_says_who_drives_which_joint(single: Any) -> None:
    single.activate(SWAY)
    info = model_info(single)
    assert [joint.claimed_by_policy_slot_id for joint in info.joints] == [0, *[SWAY, 0, 0] * 4]
    assert [actuator.claimed_by_policy_slot_id for actuator in info.actuators] == [SWAY, 0, 0] * 4
    assert not any(each.claimed_by_rl_agent for each in (*info.joints, *info.actuators))


def test_an_agent_owns_the_robot_from_its_actions_until_a_step_without_a_reset_or_its_leaving(
    single: Any,
) -> None:

    def owned() -> set[bool]:
        info = model_info(single)
        assert not info.joints[0].claimed_by_rl_agent  # nobody drives the base itself
        return {each.claimed_by_rl_agent for each in (*info.joints[1:], *info.actuators)}

    assert owned() == {False}
    for release in (single.tick, single.reset):
        single.step()
        assert owned() == {True}
        release()
        assert owned() == {False}
    single.step()
    single.client.close()
    assert not single.engine.world.agent_drives.any()


def test_the_full_state_is_the_state_of_the_shown_world(robots: Callable[..., Any]) -> None:
    batch = moved(robots(2))
    answer, physics = full_state(batch), batch.engine.physics
    assert answer.success
    assert answer.state.qpos == physics.qpos[0].tolist()
    assert answer.state.qvel == physics.qvel[0].tolist()
    actions = batch.engine.world.actions[0].astype(float)
    targets = physics.models[0].key_ctrl[0] + 0.5 * actions  # what the motors were given
    assert answer.state.ctrl == pytest.approx(targets.tolist(), abs=1e-12)
    assert answer.state.time == pytest.approx(0.04)  # the tick of the reset, and one step
    assert answer.state.frame_number == 2
    for each in (answer, full_state(batch, filter_by_slot_id=0)):
        assert (each.included_joint_indices, each.included_actuator_indices) == ([], [])
    assert full_state(batch, include_only_unclaimed_joints=True).included_joint_indices == [0]  # of the agent's


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ((True, False, False), (19, 0, 0)),
        ((False, True, False), (0, 18, 0)),
        ((False, False, True), (0, 0, 12)),
        ((True, True, True), (19, 18, 12)),
        ((False, False, False), (19, 18, 12)),
    ],
)
def test_only_what_is_asked_for_is_sent_and_everything_when_nothing_is(
    robots: Callable[..., Any], flags: tuple[bool, bool, bool], sizes: tuple[int, int, int]
) -> None:
    state = full_state(robots(1), *flags).state
    assert (len(state.qpos), len(state.qvel), len(state.ctrl)) == sizes


def test_filters_leave_the_joints_that_pass_in_the_models_order(robots: Callable[..., Any]) -> None:
    batch = moved(robots(1))
    batch.activate(SWAY)
    batch.tick()
    qpos, qvel = batch.engine.physics.qpos[0], batch.engine.physics.qvel[0]
    claimed = full_state(batch, include_only_policy_claimed_joints=True)
    assert claimed.included_joint_indices == [1, 4, 7, 10]
    assert claimed.included_actuator_indices == [0, 3, 6, 9]
    assert claimed.state.qpos == qpos[[7, 10, 13, 16]].tolist()
    assert claimed.state.qvel == qvel[[6, 9, 12, 15]].tolist()
    assert claimed.state.ctrl == batch.engine.world.ctrl[0, 0::3].tolist()
    free = full_state(batch, include_only_unclaimed_joints=True)
    assert free.included_joint_indices == [0, 2, 3, 5, 6, 8, 9, 11, 12]
    assert free.state.qpos[:7] == qpos[:7].tolist()
    assert len(free.state.qvel) == 6 + 8
    both = full_state(batch, include_only_unclaimed_joints=True, include_only_policy_claimed_joints=True)
    assert both.included_joint_indices == list(range(13))


def test_a_slots_filter_leaves_the_joints_it_drives_active_or_not(single: Any) -> None:
    assert full_state(single, filter_by_slot_id=SWAY).included_joint_indices == [1, 4, 7, 10]
    single.activate(TROT, joints=["RR_calf_joint"])
    assert full_state(single, filter_by_slot_id=TROT).included_joint_indices == [12]
    assert full_state(single, include_only_policy_claimed_joints=True).included_joint_indices == [12]


def test_a_stream_of_states_follows_the_world(single: Any) -> None:
    request = m.StreamFullStateRequest(200, True, False, False, m.StateFilter(filter_by_slot_id=SWAY))
    with single.stream("MujocoSceneService/StreamFullState", request) as stream:
        first = next(stream)
        assert (first.state.frame_number, len(first.state.qpos), first.state.qvel) == (0, 4, [])
        single.reset()
        later = [next(stream) for _ in range(3)]
    assert later[-1].state.frame_number == 1
    assert later[-1].state.qpos == single.engine.physics.qpos[0, [7, 10, 13, 16]].tolist()


def test_a_stream_of_joints_is_of_the_robot_that_was_named(robots: Callable[..., Any]) -> None:
    batch = moved(robots(2))
    with batch.stream("MujocoService/StreamJointState", m.GetJointStateRequest("agent_1")) as stream:
        item = next(stream)
        assert item.state.positions == batch.engine.physics.qpos[1].tolist()
        batch.reset()
        for _ in range(2):  # one may have been made before the reset
            item = next(stream)
    assert item.state.velocities == batch.engine.physics.qvel[1].tolist()


def test_telemetry_has_a_name_for_every_value(robots: Callable[..., Any]) -> None:
    batch = moved(robots(1))
    schema = batch.ask(m.GetTelemetrySchemaRequest()).schema
    assert (schema.nq, schema.nu) == (len(schema.observation_names), len(schema.action_names)) == (19, 12)
    assert len(set(schema.observation_names)) == 19
    assert schema.action_names == list(batch.spec.action_names)
    with batch.stream("TelemetryService/StreamTelemetry", m.StreamTelemetryRequest(100)) as stream:
        frame = next(stream)
    assert frame.observation_qpos == batch.engine.physics.qpos[0].tolist()
    assert frame.action_ctrl == batch.engine.world.ctrl[0].tolist()
    assert frame.frame_number == 2
    assert frame.timestamp_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("target_fps", [0, 1000, 2**32 - 1])
def test_any_rate_can_be_wished_for(robots: Callable[..., Any], target_fps: int) -> None:
    with robots(1).stream("TelemetryService/StreamTelemetry", m.StreamTelemetryRequest(target_fps)) as stream:
        assert len([next(stream) for _ in range(3)]) == 3


def test_data_for_queries_is_where_mujoco_itself_puts_the_bodies(robots: Callable[..., Any]) -> None:
    batch = moved(robots(2))
    world, model = batch.engine.world, batch.engine.physics.models[1]
    expected = mujoco.MjData(model)
    expected.qpos[:] = world.qpos(1)
    mujoco.mj_forward(model, expected)
    data = world.data_of(1)
    assert np.array_equal(data.xpos, expected.xpos)
    assert np.array_equal(data.cam_xpos, expected.cam_xpos)
    assert data.time == world.time(1)
