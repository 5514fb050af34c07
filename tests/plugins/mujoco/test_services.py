"""Typed methods of model and scene: action groups, joint state, the manifest, entities, modes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport import messages as m
from lucky_transport.messages.methods import METHODS

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


LEG = [0.1, 0.2, -0.3]


def test_every_method_of_lucky_engine_is_answered(robots: Callable[..., Any]) -> None:
    client, engine = robots(1).client, robots(1).engine
    rows = [row for row in METHODS if row.service.startswith("hazel.rpc.")]
    assert len(rows) == 72
    assert [row.name for row in rows if not client.implements(row)] == []
    of_the_agents = {"GetAgentSchema", "ResetAgent", "Step", "ReportProgress", "ValidateTaskContract", "NegotiateTask"}
    answered = engine.services.keys() | engine.streams.keys()
    assert {row.short_name for row in rows if row.name not in answered} == of_the_agents


def put(batch: Any, agent: str, *group: Any) -> Any:
    """Send SetActionGroup with an ActionGroupEntry of these fields."""
    return batch.ask(m.SetActionGroupRequest(agent, m.ActionGroupEntry(*group)))


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


def test_indices_and_several_groups_add_up_and_the_later_value_wins(single: Any) -> None:
    single.reset()
    put(single, "", "hips", [0.1, 0.1, 0.1, 0.1])
    put(single, "agent_0", "mine", [0.7, 0.8], [3, 11])
    expected = np.zeros(12, np.float32)
    expected[[0, 3, 6, 9, 11]] = [0.1, 0.7, 0.1, 0.1, 0.8]
    assert single.seen(single.step(), "last_action")[0] == pytest.approx(expected)


def test_a_group_waits_while_its_agent_holds_and_is_forgotten_by_a_reset(pair: Any) -> None:
    pair.reset()
    put(pair, "agent_0", "front_left", LEG)
    put(pair, "agent_1", "front_left", LEG)
    pair.reset(1)  # agent_0 holds
    seen = pair.seen(pair.step(), "last_action")
    assert seen[0, :3] == pytest.approx(LEG)
    assert not seen[1].any()


@pytest.mark.parametrize(("robot", "env"), [("", 0), ("quadruped", 0), ("agent_0", 0), ("agent_2", 2)])
def test_the_joint_state_is_the_state_of_the_physics(robots: Callable[..., Any], robot: str, env: int) -> None:
    batch = robots(3)
    batch.reset()
    batch.step(np.random.default_rng(0).uniform(-1, 1, (3, 12)))
    answer = batch.ask(m.GetJointStateRequest(robot))
    assert answer.success
    assert answer.state.positions == batch.engine.physics.qpos[env].tolist()
    assert answer.state.velocities == batch.engine.physics.qvel[env].tolist()
    assert (answer.state.nq, answer.state.nv) == (19, 18)


def test_the_models_facts_name_joints_and_actuators(robots: Callable[..., Any]) -> None:
    info = robots(1).ask(m.GetMujocoInfoRequest("quadruped"))
    assert info.success
    assert (info.nq, info.nv, info.nu) == (19, 18, 12)
    assert len(info.joint_names) == 12
    assert info.joint_names[-1] == "RR_calf_joint"
    assert info.actuator_names == info.joint_names


def test_the_manifest_describes_robot_terms_and_randomisations(single: Any) -> None:
    manifest = single.ask(m.GetCapabilityManifestRequest()).manifest
    assert [component.name for component in manifest.rewards] == list(single.spec.reward_terms)
    assert all(component.description for component in (*manifest.rewards, *manifest.terminations))
    robot = manifest.robot_info
    assert robot.name == "quadruped"
    assert robot.joint_names == list(single.spec.action_names)
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


# --- the scene ---


UNIT = m.Vec3(1.0, 1.0, 1.0)


def entities(batch: Any, **include: bool) -> dict[str, Any]:
    """Return the entities by name."""
    found = batch.ask(m.ListEntitiesRequest(**include)).entities
    return {entity.name: entity for entity in found}


def test_the_list_has_all_robots_and_the_parts_of_the_shown_world(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    found = batch.ask(m.ListEntitiesRequest()).entities
    assert [entity.name for entity in found[:3]] == ["agent_0", "agent_1", "agent_2"]
    assert {"FL_hip", "RR_calf", "floor", "sun", "front", "track", "top"} <= {entity.name for entity in found}
    assert len({entity.id.id for entity in found}) == len({entity.name for entity in found}) == len(found)
    info = batch.ask(m.GetSceneInfoRequest())
    assert info.entity_count == len(found)
    assert info.scene_name == "quadruped"


def test_transforms_and_components_come_only_when_asked_for(single: Any) -> None:
    assert all(row.transform is None and not row.components for row in entities(single).values())
    full = entities(single, include_transforms=True, include_components=True)
    assert all(row.transform is not None and "Transform" in row.components for row in full.values())
    assert "Robot" in full["agent_0"].components
    assert "Camera" in full["front"].components


def test_transforms_are_where_mujoco_has_things(pair: Any) -> None:
    pair.reset()
    for _ in range(5):
        pair.step(0.3)
    found = entities(pair, include_transforms=True)
    for env in range(2):
        seen = found[f"agent_{env}"].transform
        qpos = pair.engine.world.qpos(env)
        assert (seen.position.x, seen.position.y, seen.position.z) == pytest.approx(tuple(qpos[:3]))
        turn = seen.rotation
        assert (turn.w, turn.x, turn.y, turn.z) == pytest.approx(tuple(qpos[3:7]))
    hip, calf = found["FL_hip"].transform.position, found["FL_calf"].transform.position
    assert np.hypot(hip.x - calf.x, hip.z - calf.z) < 0.45
    assert calf.z < hip.z
    assert found["floor"].transform.position == m.Vec3()
    assert found["floor"].transform.scale == UNIT


def test_an_entity_is_found_by_id_and_by_name_and_the_id_counts(pair: Any) -> None:
    for name, listed in entities(pair, include_transforms=True, include_components=True).items():
        for request in (m.GetEntityRequest(name=name), m.GetEntityRequest(m.EntityId(listed.id.id), "nonsense")):
            answer = pair.ask(request)
            assert answer.found
            assert answer.entity == listed


def test_a_robot_that_is_placed_is_there_in_the_next_step_and_the_others_stay(robots: Callable[..., Any]) -> None:
    batch, untouched = robots(2), robots(2)
    for each in (batch, untouched):
        each.reset()
        each.step()
    robot = entities(batch)["agent_1"].id.id
    half = np.sqrt(0.5)
    there = m.Transform(m.Vec3(2.0, -1.0, 0.4), m.Quat(0.0, 0.0, 2 * half, 2 * half), UNIT)
    batch.change(m.SetEntityTransformRequest(m.EntityId(robot), there))
    qpos = batch.engine.world.qpos(1)
    assert qpos[:3] == pytest.approx([2.0, -1.0, 0.4])
    assert qpos[3:7] == pytest.approx([half, 0, 0, half])  # made a unit quaternion
    moved, plain = batch.step(), untouched.step()
    assert batch.engine.world.qpos(1)[:2] == pytest.approx([2.0, -1.0], abs=0.05)
    assert moved.observations[0].tobytes() == plain.observations[0].tobytes()
    assert moved.observations[1].tobytes() != plain.observations[1].tobytes()


def test_simulation_mode_is_deterministic_until_another_is_chosen(single: Any) -> None:
    assert single.ask(m.GetSimulationModeRequest()).mode == m.SimulationMode.DETERMINISTIC
    single.change(m.SetSimulationModeRequest(m.SimulationMode.FAST))
    refused = single.ask(m.SetSimulationModeRequest(m.SimulationMode.REALTIME))
    assert refused.current_mode == single.ask(m.GetSimulationModeRequest()).mode == m.SimulationMode.FAST


def test_play_mode_is_entered_and_left_any_number_of_times_and_never_stops_a_step(single: Any) -> None:
    enter, leave = m.EnterPlayModeRequest(), m.ExitPlayModeRequest()
    answers = [single.ask(which) for which in (enter, enter, leave, leave, enter)]
    assert all(answer.success for answer in answers)
    assert [answer.message.partition(";")[0] for answer in answers] == [
        "already in play mode",
        "already in play mode",
        "left play mode",
        "not in play mode",
        "in play mode",
    ]
    single.ask(leave)
    single.reset()
    assert np.isfinite(single.step().observations).all()
