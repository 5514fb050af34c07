"""SceneService: entities, moving them, simulation mode and play mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.messages import (
    EnterPlayModeRequest,
    EntityId,
    ExitPlayModeRequest,
    GetEntityRequest,
    GetSceneInfoRequest,
    GetSimulationModeRequest,
    ListEntitiesRequest,
    Quat,
    SetEntityTransformRequest,
    SetSimulationModeRequest,
    SimulationMode,
    Transform,
    Vec3,
)

UNIT = Vec3(1.0, 1.0, 1.0)
STRAIGHT = Quat(0.0, 0.0, 0.0, 1.0)


def entities(batch: Any, **include: bool) -> dict[str, Any]:
    """Return the entities by name."""
    found = batch.call("SceneService/ListEntities", ListEntitiesRequest(**include)).entities
    return {entity.name: entity for entity in found}


def place(batch: Any, entity: int | None, transform: Transform | None) -> Any:
    """Send SetEntityTransform."""
    id = None if entity is None else EntityId(entity)
    return batch.call("SceneService/SetEntityTransform", SetEntityTransformRequest(id, transform))


def test_the_list_has_all_robots_and_the_parts_of_the_shown_world(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    found = batch.call("SceneService/ListEntities", ListEntitiesRequest()).entities
    assert [entity.name for entity in found[:3]] == ["agent_0", "agent_1", "agent_2"]
    assert {"FL_hip", "RR_calf", "floor", "sun", "front", "track", "top"} <= {entity.name for entity in found}
    assert len({entity.id.id for entity in found}) == len({entity.name for entity in found}) == len(found)
    info = batch.call("SceneService/GetSceneInfo", GetSceneInfoRequest())
    assert info.entity_count == len(found)
    assert info.scene_name == "quadruped"


def test_transforms_and_components_come_only_when_asked_for(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    assert all(row.transform is None and not row.components for row in entities(batch).values())
    full = entities(batch, include_transforms=True, include_components=True)
    assert all(row.transform is not None and "Transform" in row.components for row in full.values())
    assert "Robot" in full["agent_0"].components
    assert "Camera" in full["front"].components


def test_transforms_are_where_mujoco_has_things(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    batch.reset()
    for _ in range(5):
        batch.step(0.3)
    found = entities(batch, include_transforms=True)
    for env in range(2):
        seen = found[f"agent_{env}"].transform
        qpos = batch.engine.world.qpos(env)
        assert (seen.position.x, seen.position.y, seen.position.z) == pytest.approx(tuple(qpos[:3]))
        turn = seen.rotation
        assert (turn.w, turn.x, turn.y, turn.z) == pytest.approx(tuple(qpos[3:7]))
    hip, calf = found["FL_hip"].transform.position, found["FL_calf"].transform.position
    assert np.hypot(hip.x - calf.x, hip.z - calf.z) < 0.45
    assert calf.z < hip.z
    assert found["floor"].transform.position == Vec3()
    assert found["floor"].transform.scale == UNIT


def test_an_entity_is_found_by_id_and_by_name_and_the_id_counts(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    for name, listed in entities(batch, include_transforms=True, include_components=True).items():
        for request in (GetEntityRequest(name=name), GetEntityRequest(EntityId(listed.id.id), "nonsense")):
            answer = batch.call("SceneService/GetEntity", request)
            assert answer.found
            assert answer.entity == listed


@pytest.mark.parametrize(
    "request_", [GetEntityRequest(), GetEntityRequest(name="dog"), GetEntityRequest(EntityId(777))]
)
def test_what_is_not_there_is_not_found(robots: Callable[..., Any], request_: GetEntityRequest) -> None:
    answer = robots(1).call("SceneService/GetEntity", request_)
    assert not answer.found
    assert answer.entity is None


def test_a_robot_that_is_placed_is_there_in_the_next_step_and_the_others_stay(robots: Callable[..., Any]) -> None:
    batch, untouched = robots(2), robots(2)
    for each in (batch, untouched):
        each.reset()
        each.step()
    robot = entities(batch)["agent_1"].id.id
    half = np.sqrt(0.5)
    answer = place(batch, robot, Transform(Vec3(2.0, -1.0, 0.4), Quat(0.0, 0.0, 2 * half, 2 * half), UNIT))
    assert (answer.success, answer.message) == (True, "")
    qpos = batch.engine.world.qpos(1)
    assert qpos[:3] == pytest.approx([2.0, -1.0, 0.4])
    assert qpos[3:7] == pytest.approx([half, 0, 0, half])  # made a unit quaternion
    moved, plain = batch.step(), untouched.step()
    assert batch.engine.world.qpos(1)[:2] == pytest.approx([2.0, -1.0], abs=0.05)
    assert moved.observations[0].tobytes() == plain.observations[0].tobytes()
    assert moved.observations[1].tobytes() != plain.observations[1].tobytes()


@pytest.mark.parametrize(
    ("name", "transform", "words"),
    [
        ("FL_calf", Transform(Vec3(), STRAIGHT, UNIT), "FL_calf.*cannot be moved.*agent_0"),
        ("front", Transform(Vec3(), STRAIGHT, UNIT), "camera.*cannot be moved"),
        ("agent_0", None, "position or rotation"),
        ("agent_0", Transform(Vec3(), None, UNIT), "position or rotation"),
        ("agent_0", Transform(Vec3(float("nan"), 0, 0), STRAIGHT, UNIT), "nan.*expected finite"),
        ("agent_0", Transform(Vec3(2e6, 0, 0), STRAIGHT, UNIT), "2000000.*within 1000 m"),
        ("agent_0", Transform(Vec3(), Quat(), UNIT), r"rotation.*\[0.0, 0.0, 0.0, 0.0\].*unit quaternion"),
        ("agent_0", Transform(Vec3(), STRAIGHT, Vec3(2.0, 1.0, 1.0)), "scale 2 1 1.*1 1 1"),
    ],
)
def test_what_cannot_be_placed_says_why_and_stays(
    robots: Callable[..., Any], name: str, transform: Transform | None, words: str
) -> None:
    batch = robots(1)
    before = batch.engine.world.qpos().copy()
    answer = place(batch, entities(batch)[name].id.id, transform)
    assert not answer.success
    assert re.search(words, answer.message), answer.message
    assert np.array_equal(batch.engine.world.qpos(), before)


def test_an_unknown_or_missing_id_is_refused(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    assert "no entity 77" in place(batch, 77, Transform(Vec3(), STRAIGHT, UNIT)).message
    assert "no id" in place(batch, None, Transform(Vec3(), STRAIGHT, UNIT)).message


def test_simulation_mode_is_deterministic_or_fast_and_realtime_is_refused(robots: Callable[..., Any]) -> None:
    batch = robots(1)

    def choose(mode: int) -> Any:
        return batch.call("SceneService/SetSimulationMode", SetSimulationModeRequest(mode))  # type: ignore[arg-type]

    def chosen() -> int:
        return batch.call("SceneService/GetSimulationMode", GetSimulationModeRequest()).mode

    assert chosen() == SimulationMode.DETERMINISTIC
    assert choose(SimulationMode.FAST).success
    refused = choose(SimulationMode.REALTIME)
    assert not refused.success
    assert "while a client is connected" in refused.message
    assert refused.current_mode == chosen() == SimulationMode.FAST
    assert "expected 1 (deterministic) or 2 (fast)" in choose(7).message


def test_play_mode_is_entered_and_left_any_number_of_times_and_never_stops_a_step(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    enter = ("SceneService/EnterPlayMode", EnterPlayModeRequest())
    leave = ("SceneService/ExitPlayMode", ExitPlayModeRequest())
    answers = [batch.call(*which) for which in (enter, enter, leave, leave, enter)]
    assert all(answer.success for answer in answers)
    assert [answer.message.partition(";")[0] for answer in answers] == [
        "already in play mode",
        "already in play mode",
        "left play mode",
        "not in play mode",
        "in play mode",
    ]
    batch.call(*leave)
    batch.reset()
    assert np.isfinite(batch.step().observations).all()
