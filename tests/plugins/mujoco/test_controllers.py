"""AgentService's robot controllers: what is listed and told, and a robot's motion graph."""

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from lucky_transport import messages as m
from tests.plugins.mujoco.conftest import ROBOT, SWAY, TROT

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


def controller(batch: Any, env: int = 0) -> Any:
    """Ask for the controller of an env's robot."""
    answer = batch.ask(m.GetRobotControllerRequest(m.EntityId(ROBOT.id + env)))
    assert answer.found
    return answer.controller


def test_every_robot_has_a_controller_with_a_slot_for_each_policy(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    listed = batch.ask(m.ListRobotControllersRequest()).controllers
    assert [each.entity for each in listed] == [m.EntityId(ROBOT.id + env) for env in range(3)]
    assert [each.entity_name for each in listed] == ["agent_0", "agent_1", "agent_2"]
    assert listed[1] == controller(batch, 1)
    slots = listed[0].slots
    assert [(slot.slot_id, slot.name, slot.active, slot.ready) for slot in slots] == [
        (TROT, "Trot", False, True),
        (SWAY, "Sway", False, True),
    ]
    assert slots[0].policy_joint_names == slots[0].driven_joints == list(batch.spec.action_names)
    assert slots[1].driven_joints == [f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR")]
    assert not listed[0].motion_graph_active


def test_the_entities_of_robots_are_those_of_the_scene(pair: Any) -> None:

    entities = pair.ask(m.ListEntitiesRequest()).entities
    named = {each.id.id: each.name for each in entities}
    for each in pair.ask(m.ListRobotControllersRequest()).controllers:
        assert named[each.entity.id] == each.entity_name


def test_descriptors_say_what_a_policy_drives_sees_and_understands(single: Any) -> None:
    policies = single.ask(m.ListPolicyDescriptorsRequest()).policies
    assert [policy.policy_id for policy in policies] == ["trot", "sway"]
    trot = policies[0]
    assert trot.descriptor_path == controller(single).slots[0].descriptor_path
    assert [(each.id, each.name, each.type) for each in trot.command_id_map] == [
        (1, "SetVx", m.PolicyCommandType.FLOAT),
        (2, "SetVy", m.PolicyCommandType.FLOAT),
        (3, "SetYawRate", m.PolicyCommandType.FLOAT),
        (4, "SetStandStill", m.PolicyCommandType.BOOL),
    ]
    assert trot.command_aliases["vx"] == "SetVx"
    assert [(each.name, each.size) for each in trot.observation_spec] == [
        ("base_lin_vel", 3),
        ("base_ang_vel", 3),
        ("projected_gravity", 3),
    ]


def test_what_is_set_is_what_the_next_answer_shows(pair: Any) -> None:
    for request in (
        m.SetPolicyActiveRequest(ROBOT, TROT, True),
        m.SetPolicyPriorityRequest(ROBOT, TROT, -3),
        m.SetPolicyClampObservationRequest(ROBOT, TROT, True),
        m.SetPolicyDrivenJointsRequest(ROBOT, TROT, ["RR_calf_joint", "FL_hip_joint"]),
        m.SetPolicyDescriptorRequest(ROBOT, SWAY, "policies/quadruped_trot.policy"),
    ):
        pair.change(request)
    trot, sway = controller(pair).slots
    assert (trot.active, trot.priority, trot.clamp_observation_for_unclaimed_joints) == (True, -3, True)
    assert trot.driven_joints == ["FL_hip_joint", "RR_calf_joint"]  # in the robot's order
    assert (sway.active_policy_id, len(sway.driven_joints)) == ("trot", 12)
    assert not controller(pair, 1).slots[0].active


def test_a_slot_without_a_policy_is_neither_ready_nor_active(single: Any) -> None:
    single.ask(m.SetPolicyActiveRequest(ROBOT, TROT, True))
    single.change(m.SetPolicyDescriptorRequest(ROBOT, TROT, ""))
    slot = controller(single).slots[0]
    assert (slot.ready, slot.active, slot.descriptor_path, slot.driven_joints) == (False, False, "", [])
    answer = single.ask(m.SetPolicyActiveRequest(ROBOT, TROT, True))
    assert not answer.success
    assert answer.message == "slot 1 (Trot) holds no policy; give it one by SetPolicyDescriptor"
    single.tick()


def test_commands_keep_what_was_set_and_a_bool_reads_as_a_number(single: Any) -> None:
    single.ask(m.SetPolicyCommandFloatRequest(ROBOT, TROT, 1, 7.5))
    single.ask(m.SetPolicyCommandBoolRequest(ROBOT, TROT, 4, True))
    read = [single.ask(m.GetPolicyCommandFloatRequest(ROBOT, TROT, i)) for i in (1, 2, 4)]
    assert [(each.success, each.value) for each in read] == [(True, 7.5), (True, 0.0), (True, 1.0)]
    answer = single.ask(m.GetPolicyCommandBoolRequest(ROBOT, TROT, 4))
    assert (answer.success, answer.value) == (True, True)


def test_the_base_pose_is_the_robots_in_both_frames(single: Any) -> None:
    single.randomize(pose_position_noise=[0.5, 0.5, 0.0], pose_orientation_noise=0.3)
    single.reset()
    single.ask(m.SetPolicyActiveRequest(ROBOT, TROT, True))
    pose = single.ask(m.GetPolicyBasePoseRequest(ROBOT, TROT))
    w, x, y, z = single.engine.physics.qpos[0, 3:7]
    assert (pose.x, pose.y) == tuple(single.engine.physics.qpos[0, :2])
    assert pose.yaw == pytest.approx(math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    assert (pose.x_hz, pose.z_hz, pose.yaw_hz) == (pose.x, -pose.y, pose.yaw)


def test_a_watcher_is_told_the_state_and_every_change_after_it(single: Any) -> None:
    with single.stream("AgentService/StreamRobotController", m.StreamRobotControllerRequest(ROBOT, 50)) as stream:
        assert not next(stream).slots[0].active
        for active in (True, False, True):
            single.ask(m.SetPolicyActiveRequest(ROBOT, TROT, active))
        single.ask(m.SetPolicyPriorityRequest(ROBOT, SWAY, 5))
        states: list[Any] = []
        while not states or states[-1].slots[1].priority != 5:
            states.append(next(stream))
    activity = [active for active, _ in groupby(state.slots[0].active for state in states)]
    assert activity[-3:] == [True, False, True]


def test_a_watcher_of_a_slot_gets_states_of_that_slot_without_any_change(single: Any) -> None:
    with single.stream(
        "AgentService/StreamPolicySlotState", m.StreamPolicySlotStateRequest(ROBOT, SWAY, 200)
    ) as stream:
        states = [next(stream) for _ in range(4)]
    assert all(state == controller(single).slots[1] for state in states)


def test_a_watcher_that_left_is_forgotten(single: Any) -> None:
    stream = single.stream("AgentService/StreamRobotController", m.StreamRobotControllerRequest(ROBOT, 100))
    next(stream)
    watchers = single.engine.world.controllers.of(0)._watchers
    assert len(watchers) == 1
    stream.cancel()
    del stream
    assert not watchers


# --- the motion graph ---


CROUCH, BOW = 1, 5
HIP, KNEE = slice(0, None, 3), slice(2, None, 3)


def start(batch: Any) -> Any:
    """Put the robot into the standing pose and activate its graph; return where its joints then are to be."""
    batch.still().change(m.SetMotionGraphActiveRequest(ROBOT, True))
    batch.tick(20)
    return batch.engine.world.ctrl[0].copy()


def wanted(batch: Any, ticks: int) -> Any:
    """Return where the joints of agent_0's robot are to be in each of these ticks."""
    return np.array([batch.tick() and batch.engine.world.ctrl[0].copy() for _ in range(ticks)])


@pytest.mark.parametrize("given", [{"float_val": 1.0}, {"int_val": 1, "float_val": math.nan}])
def test_an_input_is_kept_while_the_graph_is_inactive_and_moves_the_robot_while_it_is_active(
    single: Any, given: Any
) -> None:
    for active in (False, True):
        single.change(m.SetMotionGraphActiveRequest(ROBOT, active))
        assert single.ask(m.GetMotionGraphActiveRequest(ROBOT)).active == active
    rest = start(single)
    single.change(m.SetMotionGraphInputRequest(ROBOT, CROUCH, m.MotionGraphInputValue(**given)))
    assert (wanted(single, 30) - rest)[:, KNEE].min() < -0.3
    single.change(m.SetMotionGraphActiveRequest(ROBOT, False))
    single.reset()
    assert single.ask(m.GetMotionGraphInputRequest(ROBOT, CROUCH)).value == m.MotionGraphInputValue(float_val=1.0)
    assert (wanted(single, 30) == rest).all()


def bows(batch: Any) -> bool:
    return bool(batch.ask(m.GetMotionGraphInputRequest(ROBOT, BOW)).value.trigger)


def test_a_trigger_plays_its_move_once(single: Any) -> None:
    rest = start(single)
    single.change(m.FireMotionGraphTriggerRequest(ROBOT, BOW))
    assert bows(single)
    moves = wanted(single, 52)
    assert np.abs(moves - rest).max() > 0.3
    assert moves[-1] == pytest.approx(rest, abs=1e-6)
    assert not bows(single)


def test_a_trigger_is_fired_by_its_input_and_ended_by_a_reset(single: Any) -> None:
    for fires in (False, True):
        single.change(m.SetMotionGraphInputRequest(ROBOT, BOW, m.MotionGraphInputValue(trigger=fires)))
        assert bows(single) == fires
    single.reset()
    assert not bows(single)


def test_a_policy_drives_over_the_graph(single: Any) -> None:
    rest = start(single)
    single.change(m.SetMotionGraphInputRequest(ROBOT, CROUCH, m.MotionGraphInputValue(float_val=1.0)))
    single.activate(SWAY)  # the hips
    control = wanted(single, 40)[-1]
    assert np.abs(control[HIP]).min() > 0.05
    assert (control[KNEE] < rest[KNEE] - 0.3).all()
