"""AgentService's robot controllers: what is listed, what is refused, and what a watcher is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from lucky_transport.errors import UnknownName
from lucky_transport.messages import (
    ClearPolicyGainsRequest,
    EntityId,
    GetPolicyBasePoseRequest,
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    GetPolicyLastActionRequest,
    GetRobotControllerRequest,
    JointGainOverride,
    ListPolicyDescriptorsRequest,
    ListRobotControllersRequest,
    PolicyCommandType,
    SetPolicyActiveRequest,
    SetPolicyClampObservationRequest,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
    SetPolicyDescriptorRequest,
    SetPolicyDrivenJointsRequest,
    SetPolicyGainsRequest,
    SetPolicyPriorityRequest,
    StreamPolicySlotStateRequest,
    StreamRobotControllerRequest,
)

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

TROT, STAND, SWAY = 1, 2, 3
ROBOT = EntityId(1_000_000)
NOBODY = EntityId(1)


def agent(batch: Any, name: str, request: Any) -> Any:
    """Call a method of AgentService."""
    return batch.call("AgentService/" + name, request)


def controller(batch: Any, env: int = 0) -> Any:
    """Ask for the controller of an env's robot."""
    answer = agent(batch, "GetRobotController", GetRobotControllerRequest(EntityId(ROBOT.id + env)))
    assert answer.found
    return answer.controller


def test_every_robot_has_a_controller_with_a_slot_for_each_policy(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    listed = agent(batch, "ListRobotControllers", ListRobotControllersRequest()).controllers
    assert [each.entity for each in listed] == [EntityId(ROBOT.id + env) for env in range(3)]
    assert [each.entity_name for each in listed] == ["agent_0", "agent_1", "agent_2"]
    assert listed[1] == controller(batch, 1)
    slots = listed[0].slots
    assert [(slot.slot_id, slot.name, slot.active, slot.ready) for slot in slots] == [
        (TROT, "Trot", False, True),
        (STAND, "Stand", False, True),
        (SWAY, "Sway", False, True),
    ]
    assert slots[0].policy_joint_names == slots[0].driven_joints == list(batch.spec.action_names)
    assert slots[2].driven_joints == [f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR")]
    assert not listed[0].motion_graph_active


def test_the_entities_of_robots_are_those_of_the_scene(robots: Callable[..., Any]) -> None:
    from lucky_transport.messages import ListEntitiesRequest

    batch = robots(2)
    entities = batch.call("SceneService/ListEntities", ListEntitiesRequest()).entities
    named = {each.id.id: each.name for each in entities}
    for each in agent(batch, "ListRobotControllers", ListRobotControllersRequest()).controllers:
        assert named[each.entity.id] == each.entity_name


def test_descriptors_say_what_a_policy_drives_sees_and_understands(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    policies = agent(batch, "ListPolicyDescriptors", ListPolicyDescriptorsRequest()).policies
    assert [policy.policy_id for policy in policies] == ["trot", "stand", "sway"]
    trot = policies[0]
    assert trot.descriptor_path == controller(batch).slots[0].descriptor_path
    assert [(each.id, each.name, each.type) for each in trot.command_id_map] == [
        (1, "SetVx", PolicyCommandType.FLOAT),
        (2, "SetVy", PolicyCommandType.FLOAT),
        (3, "SetYawRate", PolicyCommandType.FLOAT),
        (4, "SetStandStill", PolicyCommandType.BOOL),
    ]
    assert trot.command_aliases["vx"] == "SetVx"
    assert [(each.name, each.size) for each in policies[1].observation_spec] == [
        ("projected_gravity", 3),
        ("joint_pos", 12),
    ]


@pytest.mark.parametrize("entity", [None, EntityId(0), NOBODY, EntityId(ROBOT.id + 2), EntityId(2**64 - 1)])
def test_no_other_entity_has_a_controller(robots: Callable[..., Any], entity: EntityId | None) -> None:
    answer = agent(robots(2), "GetRobotController", GetRobotControllerRequest(entity))
    assert not answer.found
    assert answer.controller is None


def test_what_is_set_is_what_the_next_answer_shows(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    for name, request in (
        ("SetPolicyActive", SetPolicyActiveRequest(ROBOT, STAND, True)),
        ("SetPolicyPriority", SetPolicyPriorityRequest(ROBOT, STAND, -3)),
        ("SetPolicyClampObservation", SetPolicyClampObservationRequest(ROBOT, STAND, True)),
        ("SetPolicyDrivenJoints", SetPolicyDrivenJointsRequest(ROBOT, STAND, ["RR_calf_joint", "FL_hip_joint"])),
        ("SetPolicyDescriptor", SetPolicyDescriptorRequest(ROBOT, SWAY, "policies/quadruped_trot.policy")),
    ):
        answer = agent(batch, name, request)
        assert (answer.success, answer.message) == (True, "")
    stand, sway = controller(batch).slots[1:]
    assert (stand.active, stand.priority, stand.clamp_observation_for_unclaimed_joints) == (True, -3, True)
    assert stand.driven_joints == ["FL_hip_joint", "RR_calf_joint"]  # in the robot's order
    assert (sway.active_policy_id, len(sway.driven_joints)) == ("trot", 12)
    assert not controller(batch, 1).slots[1].active


def test_a_slot_without_a_policy_is_neither_ready_nor_active(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    agent(batch, "SetPolicyActive", SetPolicyActiveRequest(ROBOT, TROT, True))
    assert agent(batch, "SetPolicyDescriptor", SetPolicyDescriptorRequest(ROBOT, TROT, "")).success
    slot = controller(batch).slots[0]
    assert (slot.ready, slot.active, slot.descriptor_path, slot.driven_joints) == (False, False, "", [])
    answer = agent(batch, "SetPolicyActive", SetPolicyActiveRequest(ROBOT, TROT, True))
    assert not answer.success
    assert answer.message == "slot 1 (Trot) holds no policy; give it one by SetPolicyDescriptor"
    batch.tick()


def test_commands_keep_what_was_set_and_a_bool_reads_as_a_number(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    agent(batch, "SetPolicyCommandFloat", SetPolicyCommandFloatRequest(ROBOT, TROT, 1, 7.5))
    agent(batch, "SetPolicyCommandBool", SetPolicyCommandBoolRequest(ROBOT, TROT, 4, True))
    read = [agent(batch, "GetPolicyCommandFloat", GetPolicyCommandFloatRequest(ROBOT, TROT, i)) for i in (1, 2, 4)]
    assert [(each.success, each.value) for each in read] == [(True, 7.5), (True, 0.0), (True, 1.0)]
    answer = agent(batch, "GetPolicyCommandBool", GetPolicyCommandBoolRequest(ROBOT, TROT, 4))
    assert (answer.success, answer.value) == (True, True)


SLOT_METHODS: dict[str, Callable[[EntityId, int], Any]] = {
    "SetPolicyActive": lambda entity, slot: SetPolicyActiveRequest(entity, slot, True),
    "SetPolicyDescriptor": lambda entity, slot: SetPolicyDescriptorRequest(entity, slot, ""),
    "SetPolicyDrivenJoints": lambda entity, slot: SetPolicyDrivenJointsRequest(entity, slot, []),
    "SetPolicyClampObservation": lambda entity, slot: SetPolicyClampObservationRequest(entity, slot, True),
    "SetPolicyPriority": lambda entity, slot: SetPolicyPriorityRequest(entity, slot, 1),
    "SetPolicyCommandFloat": lambda entity, slot: SetPolicyCommandFloatRequest(entity, slot, 1, 1.0),
    "SetPolicyCommandBool": lambda entity, slot: SetPolicyCommandBoolRequest(entity, slot, 4, True),
    "SetPolicyGains": lambda entity, slot: SetPolicyGainsRequest(entity, slot, []),
    "ClearPolicyGains": lambda entity, slot: ClearPolicyGainsRequest(entity, slot),
    "GetPolicyCommandFloat": lambda entity, slot: GetPolicyCommandFloatRequest(entity, slot, 1),
    "GetPolicyCommandBool": lambda entity, slot: GetPolicyCommandBoolRequest(entity, slot, 4),
    "GetPolicyBasePose": lambda entity, slot: GetPolicyBasePoseRequest(entity, slot),
    "GetPolicyLastAction": lambda entity, slot: GetPolicyLastActionRequest(entity, slot),
}


@pytest.mark.parametrize("name", SLOT_METHODS)
def test_an_unknown_robot_or_slot_is_refused_with_those_there_are(robots: Callable[..., Any], name: str) -> None:
    batch = robots(2)
    before = controller(batch)
    answer = agent(batch, name, SLOT_METHODS[name](NOBODY, TROT))
    assert not answer.success
    assert answer.message == "entity 1 has no robot controller; robots are entities 1000000 to 1000001"
    answer = agent(batch, name, SLOT_METHODS[name](ROBOT, 999))
    assert not answer.success
    assert answer.message == "no slot 999; there are 1 (Trot), 2 (Stand), 3 (Sway)"
    assert controller(batch) == before


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        (
            "SetPolicyDescriptor",
            SetPolicyDescriptorRequest(ROBOT, TROT, "policies/quadruped_trott.policy"),
            "did you mean 'policies/quadruped_trot.policy'?",
        ),
        (
            "SetPolicyDrivenJoints",
            SetPolicyDrivenJointsRequest(ROBOT, TROT, ["FL_hip_joint", "FL_hip"]),
            "policy 'trot' drives no joint 'FL_hip'; did you mean 'FL_hip_joint'?",
        ),
        (
            "SetPolicyDrivenJoints",
            SetPolicyDrivenJointsRequest(ROBOT, SWAY, ["FL_calf_joint"]),
            "policy 'sway' drives no joint 'FL_calf_joint'",
        ),
        (
            "SetPolicyDrivenJoints",
            SetPolicyDrivenJointsRequest(ROBOT, TROT, ["FL_hip_joint", "FL_hip_joint"]),
            "is named twice",
        ),
        ("SetPolicyCommandFloat", SetPolicyCommandFloatRequest(ROBOT, TROT, 1, math.nan), "expected a finite number"),
        ("SetPolicyCommandFloat", SetPolicyCommandFloatRequest(ROBOT, TROT, 4, 1.0), "is a bool; use the method for"),
        ("SetPolicyCommandFloat", SetPolicyCommandFloatRequest(ROBOT, TROT, 0, 1.0), "has no command 0; there are 1"),
        ("SetPolicyCommandBool", SetPolicyCommandBoolRequest(ROBOT, TROT, 1, True), "is a float; use the method for"),
        ("GetPolicyCommandBool", GetPolicyCommandBoolRequest(ROBOT, TROT, 1), "is a float"),
        ("GetPolicyCommandFloat", GetPolicyCommandFloatRequest(ROBOT, TROT, 9), "has no command 9"),
        (
            "SetPolicyGains",
            SetPolicyGainsRequest(ROBOT, TROT, [JointGainOverride("FL_hip_joint", kp=-1.0)]),
            "FL_hip_joint: kp -1.0, expected 0 to 10000 Nm/rad",
        ),
        (
            "SetPolicyGains",
            SetPolicyGainsRequest(ROBOT, TROT, [JointGainOverride("FL_hip_joint", default_pos=math.inf)]),
            "default_pos inf",
        ),
        ("GetPolicyBasePose", GetPolicyBasePoseRequest(ROBOT, TROT), "slot 1 (Trot) is not active"),
        ("GetPolicyLastAction", GetPolicyLastActionRequest(ROBOT, TROT), "slot 1 (Trot) is not active"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_do(
    robots: Callable[..., Any], name: str, request_: Any, text: str
) -> None:
    batch = robots(1)
    before = controller(batch)
    answer = agent(batch, name, request_)
    assert not answer.success
    assert text in answer.message
    assert controller(batch) == before


def test_the_base_pose_is_the_robots_in_both_frames(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    batch.randomize(pose_position_noise=[0.5, 0.5, 0.0], pose_orientation_noise=0.3)
    batch.reset()
    agent(batch, "SetPolicyActive", SetPolicyActiveRequest(ROBOT, TROT, True))
    pose = agent(batch, "GetPolicyBasePose", GetPolicyBasePoseRequest(ROBOT, TROT))
    w, x, y, z = batch.engine.physics.qpos[0, 3:7]
    assert (pose.x, pose.y) == tuple(batch.engine.physics.qpos[0, :2])
    assert pose.yaw == pytest.approx(math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    assert (pose.x_hz, pose.z_hz, pose.yaw_hz) == (pose.x, -pose.y, pose.yaw)


def test_a_watcher_is_told_the_state_and_every_change_after_it(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    with batch.stream("AgentService/StreamRobotController", StreamRobotControllerRequest(ROBOT, 50)) as stream:
        assert not next(stream).slots[0].active
        for active in (True, False, True):
            agent(batch, "SetPolicyActive", SetPolicyActiveRequest(ROBOT, TROT, active))
        agent(batch, "SetPolicyPriority", SetPolicyPriorityRequest(ROBOT, SWAY, 5))
        states: list[Any] = []
        while not states or states[-1].slots[2].priority != 5:
            states.append(next(stream))
    activity = [active for active, _ in groupby(state.slots[0].active for state in states)]
    assert activity[-3:] == [True, False, True]


def test_a_watcher_of_a_slot_gets_states_of_that_slot_without_any_change(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    with batch.stream("AgentService/StreamPolicySlotState", StreamPolicySlotStateRequest(ROBOT, SWAY, 200)) as stream:
        states = [next(stream) for _ in range(4)]
    assert all(state == controller(batch).slots[2] for state in states)


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        ("StreamRobotController", StreamRobotControllerRequest(NOBODY), "entity 1 has no robot controller"),
        ("StreamPolicySlotState", StreamPolicySlotStateRequest(ROBOT, 999), "no slot 999"),
    ],
)
def test_what_cannot_be_watched_is_refused(robots: Callable[..., Any], name: str, request_: Any, text: str) -> None:
    with robots(1).stream("AgentService/" + name, request_) as stream, pytest.raises(UnknownName, match=text):
        next(stream)


def test_a_watcher_that_left_is_forgotten(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    stream = batch.stream("AgentService/StreamRobotController", StreamRobotControllerRequest(ROBOT, 100))
    next(stream)
    watchers = batch.engine.world.controllers.of(0)._watchers
    assert len(watchers) == 1
    stream.cancel()
    del stream
    assert not watchers
