"""Typed methods: action groups, joint state, the model's facts and the capability manifest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport.messages import (
    ActionGroupEntry,
    GetCapabilityManifestRequest,
    GetJointStateRequest,
    GetMujocoInfoRequest,
    SetActionGroupRequest,
)

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

LEG = [0.1, 0.2, -0.3]


def put(batch: Any, agent: str, *group: Any) -> Any:
    """Send SetActionGroup with an ActionGroupEntry of these fields."""
    return batch.call("AgentService/SetActionGroup", SetActionGroupRequest(agent, ActionGroupEntry(*group)))


def test_the_groups_are_legs_kinds_of_joints_and_everything(robots: Callable[..., Any]) -> None:
    groups = dict(robots(1).spec.action_groups)
    assert groups["front_left"] == (0, 1, 2)
    assert groups["rear_right"] == (9, 10, 11)
    assert groups["calves"] == (2, 5, 8, 11)
    assert groups["all"] == tuple(range(12))
    assert len(groups) == 8


def test_a_group_lies_on_top_of_the_next_actions_of_its_agent_alone(robots: Callable[..., Any]) -> None:
    grouped, plain = robots(2), robots(2)
    actions = np.full((2, 12), 0.5, np.float32)
    for batch in (grouped, plain):
        batch.reset()
    assert put(grouped, "agent_1", "front_right", LEG).success
    merged = actions.copy()
    merged[1, 3:6] = LEG
    assert grouped.step(actions).observations.tobytes() == plain.step(merged).observations.tobytes()
    assert grouped.step(actions).observations.tobytes() == plain.step(actions).observations.tobytes()


def test_indices_and_several_groups_add_up_and_the_later_value_wins(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    batch.reset()
    put(batch, "", "hips", [0.1, 0.1, 0.1, 0.1])
    put(batch, "agent_0", "mine", [0.7, 0.8], [3, 11])
    expected = np.zeros(12, np.float32)
    expected[[0, 3, 6, 9, 11]] = [0.1, 0.7, 0.1, 0.1, 0.8]
    assert batch.seen(batch.step(), "last_action")[0] == pytest.approx(expected)


def test_a_group_waits_while_its_agent_holds_and_is_forgotten_by_a_reset(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    batch.reset()
    put(batch, "agent_0", "front_left", LEG)
    put(batch, "agent_1", "front_left", LEG)
    batch.reset(1)  # agent_0 holds
    seen = batch.seen(batch.step(), "last_action")
    assert seen[0, :3] == pytest.approx(LEG)
    assert not seen[1].any()


@pytest.mark.parametrize(
    ("agent", "group", "text"),
    [
        ("agent_2", ("all", [0.0] * 12), "no agent 'agent_2'; there are agent_0 to agent_1"),
        ("agent_0", ("tail", [0.0]), "no action group 'tail'; there are: front_left, front_right"),
        ("agent_0", ("", []), "no action group ''"),
        ("agent_0", ("hips", [0.0, 0.0]), "2 actions for the 4 indices [0, 3, 6, 9]"),
        ("agent_0", ("", [0.0, 0.0], [1]), "2 actions for the 1 indices [1]"),
        ("agent_0", ("", [0.0], [12]), "action_indices [12]: expected different numbers from 0 to 11"),
        ("agent_0", ("", [0.0], [-1]), "action_indices [-1]"),
        ("agent_0", ("", [0.0, 0.0], [3, 3]), "action_indices [3, 3]"),
        ("agent_0", ("front_left", [0.0, float("nan"), 0.0]), "are not finite"),
    ],
)
def test_a_wrong_group_is_refused_with_what_would_do(
    robots: Callable[..., Any], agent: str, group: tuple[Any, ...], text: str
) -> None:
    batch = robots(2)
    batch.reset()
    answer = put(batch, agent, *group)
    assert not answer.success
    assert text in answer.message
    assert not batch.seen(batch.step(), "last_action").any()


@pytest.mark.parametrize(("robot", "env"), [("", 0), ("quadruped", 0), ("agent_0", 0), ("agent_2", 2)])
def test_the_joint_state_is_the_state_of_the_physics(robots: Callable[..., Any], robot: str, env: int) -> None:
    batch = robots(3)
    batch.reset()
    batch.step(np.random.default_rng(0).uniform(-1, 1, (3, 12)))
    answer = batch.call("MujocoService/GetJointState", GetJointStateRequest(robot))
    assert answer.success
    assert answer.state.positions == batch.engine.physics.qpos[env].tolist()
    assert answer.state.velocities == batch.engine.physics.qvel[env].tolist()
    assert (answer.state.nq, answer.state.nv) == (19, 18)


def test_the_models_facts_name_joints_and_actuators(robots: Callable[..., Any]) -> None:
    info = robots(1).call("MujocoService/GetMujocoInfo", GetMujocoInfoRequest("quadruped"))
    assert info.success
    assert (info.nq, info.nv, info.nu) == (19, 18, 12)
    assert len(info.joint_names) == 12
    assert info.joint_names[-1] == "RR_calf_joint"
    assert info.actuator_names == info.joint_names


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("MujocoService/GetJointState", GetJointStateRequest("agent_9")),
        ("MujocoService/GetMujocoInfo", GetMujocoInfoRequest("biped")),
    ],
)
def test_an_unknown_robot_is_refused_by_name(robots: Callable[..., Any], name: str, request_: Any) -> None:
    answer = robots(2).call(name, request_)
    assert not answer.success
    assert f"no robot {request_.robot_name!r}; there are 'quadruped' and agent_0 to agent_1" == answer.message


def test_the_manifest_describes_robot_terms_and_randomisations(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    manifest = batch.call("AgentService/GetCapabilityManifest", GetCapabilityManifestRequest()).manifest
    assert [component.name for component in manifest.rewards] == list(batch.spec.reward_terms)
    assert all(component.description for component in (*manifest.rewards, *manifest.terminations))
    robot = manifest.robot_info
    assert robot.name == "quadruped"
    assert robot.joint_names == list(batch.spec.action_names)
    assert "trunk" in robot.body_names
    assert robot.available_scenes == ["flat", "rough", "slope"]
    knee = robot.actuator_limits[2]
    assert (knee.lower, knee.upper, knee.default_value, knee.scale) == (-2.7, -0.6, -1.6, 0.5)
    friction = next(each for each in manifest.randomizations if each.base.name == "friction_range")
    assert (friction.default_range_min, friction.default_range_max) == (1, 1)
    assert friction.engine_target == "geom_friction"
    assert friction.base.params_schema["friction_range"].range_max == 5
    noise = next(each for each in manifest.randomizations if each.base.name == "joint_position_noise")
    assert (noise.default_range_min, noise.default_range_max) == (0, 0.05)
