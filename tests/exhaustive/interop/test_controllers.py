"""RobotController: policy slots, commands, gains, motion graph and what is streamed of them."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import itertools
from typing import Any

import pytest


def test_controllers_are_listed_and_found_by_id_and_name(lucky: Any, session: Any) -> None:
    (state,) = lucky.list_robot_controllers(session)
    assert isinstance(state, lucky.RobotControllerState)
    assert state.entity_name == "agent_0"
    assert [slot.name for slot in state.slots] == ["Trot", "Stand", "Sway"]
    assert session.get_robot_controller(state.entity_id) == state
    assert session.robot(state.entity_id).get_state() == state
    assert session.robot("agent_0").entity_id == state.entity_id
    with pytest.raises(KeyError):
        session.robot("agent_9")
    assert session.get_entity(entity_id=state.entity_id)["name"] == "agent_0"


def test_every_slot_holds_a_policy_of_the_registry(lucky: Any, session: Any) -> None:
    entries = {entry.descriptor_path: entry for entry in lucky.list_policy_descriptors(session)}
    assert {entry.policy_id for entry in entries.values()} == {"trot", "stand", "sway"}
    for slot in session.list_robot_controllers()[0].slots:
        entry = entries[slot.descriptor_path]
        assert slot.active_policy_id == entry.policy_id
        assert set(slot.driven_joints) <= set(slot.policy_joint_names) == set(entry.joints)
        assert slot.command_id_map == entry.command_id_map
        assert set(entry.command_aliases.values()) == {command.name for command in entry.command_id_map}


def test_an_entity_without_a_controller_is_not_found(lucky: Any, session: Any) -> None:
    with pytest.raises(LookupError, match="No RobotControllerComponent on entity 1"):
        lucky.RobotController(session, 1).get_state()


def test_a_slot_that_is_not_there_is_refused(robot: Any) -> None:
    with pytest.raises(RuntimeError, match="no slot 999; there are 1"):
        robot.set_policy_active(999, True)
    with pytest.raises(KeyError):
        robot.set_policy_active("Moonwalk", True)


def test_activating_a_slot_shows_in_the_next_answer(robot: Any) -> None:
    assert not robot.get_state().slot("Trot").active
    robot.set_policy_active("Trot", True)
    assert robot.get_state().slot("Trot").active
    robot.set_policy_active(1, False)
    assert not robot.get_state().slot("Trot").active


def test_a_slot_is_active_for_a_block(robot: Any) -> None:
    with robot.policy_slot("Stand"):
        assert robot.get_state().slot("Stand").active
        with robot.policy_slot("Stand"):
            pass
        assert robot.get_state().slot("Stand").active
    assert not robot.get_state().slot("Stand").active


def test_commands_are_written_and_read_by_name(robot: Any) -> None:
    commands = robot.commands("Trot")
    commands["SetVx"] = 0.5
    commands["SetStandStill"] = True
    assert commands["SetVx"] == 0.5
    assert commands.get_bool("SetStandStill")
    assert "SetVx" in commands
    assert "SetVz" not in commands
    assert commands.keys() == ["SetVx", "SetVy", "SetYawRate", "SetStandStill"]
    assert dict(commands.items()) == {"SetVx": 0.5, "SetVy": 0.0, "SetYawRate": 0.0, "SetStandStill": 1.0}
    commands["SetVx"] = 0.0
    commands["SetStandStill"] = False


def test_a_command_of_another_type_or_number_is_refused(robot: Any) -> None:
    with pytest.raises(RuntimeError, match="use the method for Bool"):
        robot.set_command_float("Trot", 4, 1.0)
    with pytest.raises(RuntimeError, match="has no command 99"):
        robot.get_command_float("Trot", 99)


def test_an_active_policy_walks_the_robot_in_steps_without_actions(session: Any, robot: Any) -> None:
    session.reset()
    with robot.policy_slot("Trot"):
        robot.commands("Trot")["SetVx"] = 0.5
        for _ in range(100):
            session.step()
        pose = robot.get_base_pose("Trot")
        action, names = robot.get_last_action("Trot")
    robot.commands("Trot")["SetVx"] = 0.0
    assert pose["x"] > 0.2
    assert (pose["x_hz"], pose["z_hz"], pose["yaw_hz"]) == (pose["x"], -pose["y"], pose["yaw"])
    assert (action.dtype, action.shape) == ("float32", (12,))
    assert abs(action).max() > 0
    assert names == list(session.engine_client.get_mujoco_info().joint_names)


def test_pose_and_last_action_are_there_as_soon_as_a_slot_is_active_and_only_then(robot: Any) -> None:
    with pytest.raises(LookupError, match="not active"):
        robot.get_last_action("Sway")
    with pytest.raises(LookupError, match="not active"):
        robot.get_base_pose("Sway")
    with robot.policy_slot("Sway"):
        assert robot.get_last_action("Sway")[0].shape == (4,)
        assert robot.get_base_pose("Sway").keys() == {"x", "y", "yaw", "x_hz", "z_hz", "yaw_hz"}


def test_a_slot_drives_the_joints_it_was_given(robot: Any) -> None:
    robot.set_driven_joints("Sway", ["FL_hip_joint", "RR_hip_joint"])
    assert robot.get_state().slot("Sway").driven_joints == ("FL_hip_joint", "RR_hip_joint")
    with pytest.raises(RuntimeError, match="did you mean 'FL_hip_joint'"):
        robot.set_driven_joints("Sway", ["FL_hip_join"])
    robot.set_driven_joints("Sway", robot.get_state().slot("Sway").policy_joint_names)


def test_priority_and_clamping_are_kept(robot: Any) -> None:
    robot.set_policy_priority("Stand", 3)
    robot.set_policy_clamp_observation("Stand", True)
    found = robot.get_state().slot("Stand")
    assert (found.priority, found.clamp_observation_for_unclaimed_joints) == (3, True)
    robot.set_policy_priority("Stand", 0)
    robot.set_policy_clamp_observation("Stand", False)


def test_a_slot_is_given_another_policy(lucky: Any, session: Any, robot: Any) -> None:
    paths = {entry.policy_id: entry.descriptor_path for entry in lucky.list_policy_descriptors(session)}
    robot.set_policy_descriptor("Sway", paths["stand"])
    assert robot.get_state().slot("Sway").active_policy_id == "stand"
    with pytest.raises(RuntimeError, match="no policy descriptor"):
        robot.set_policy_descriptor("Sway", "policies/unknown.policy")
    robot.set_policy_descriptor("Sway", paths["sway"])


def test_gains_are_overridden_and_cleared(session: Any, robot: Any) -> None:
    def gain() -> float:
        return session.get_actuator_gains()[0].gain_prm_0

    authored = gain()
    with robot.policy_slot("Stand"):
        robot.set_policy_gains("Stand", {"FL_hip_joint": {"kp": 2 * authored, "kd": None}, "tail": {"kp": 1.0}})
        assert gain() == 2 * authored
        robot.clear_policy_gains("Stand")
        assert gain() == authored
        with pytest.raises(RuntimeError, match="kp"):
            robot.set_policy_gains("Stand", {"FL_hip_joint": {"kp": -1.0}})


def test_the_motion_graph_is_switched_and_fed(robot: Any) -> None:
    robot.set_motion_graph_active(True)
    assert robot.motion_graph_active
    with robot.motion_graph_disabled():
        assert not robot.motion_graph_active
    assert robot.motion_graph_active
    for number, value, hint in ((1, 0.5, "float"), (2, True, "bool"), (3, 2, "int"), (4, (0.01, 0.0, 0.02), "vec3")):
        robot.set_motion_graph_input(number, value)
        assert robot.get_motion_graph_input(number, hint) == pytest.approx(value)
    robot.fire_motion_graph_trigger(5)
    assert robot.get_motion_graph_input(5) is True
    with pytest.raises(RuntimeError, match="no input 12"):
        robot.fire_motion_graph_trigger(12)
    for number, value in ((1, 0.0), (2, False), (3, 0), (4, (0.0, 0.0, 0.0))):
        robot.set_motion_graph_input(number, value)


def test_states_are_streamed_and_show_changes(robot: Any) -> None:
    stream = robot.stream_state(target_fps=100)
    assert not next(stream).slot("Sway").active
    with robot.policy_slot("Sway"):
        assert next(state for state in stream if state.slot("Sway").active).entity_id == robot.entity_id
    stream.close()


def test_one_slots_states_are_streamed(robot: Any) -> None:
    stream = robot.stream_slot_state("Stand", target_fps=100)
    assert [state.name for state in itertools.islice(stream, 3)] == ["Stand"] * 3
    stream.close()
