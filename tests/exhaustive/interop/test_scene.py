"""The scene's entities, as LuckyEngineClient lists, finds and moves them."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

from typing import Any

import pytest


def test_every_entity_is_listed_with_what_was_asked_for(client: Any) -> None:
    plain = client.list_entities()
    full = client.list_entities(include_transforms=True, include_components=True)
    assert len(plain) == len(full) == client.get_scene_info()["entity_count"]
    assert [entry.keys() for entry in plain] == [{"id", "name"}] * len(plain)
    for entry in full:
        assert entry["transform"]["scale"] == (1.0, 1.0, 1.0)
        assert sum(value * value for value in entry["transform"]["rotation"]) == pytest.approx(1.0, abs=1e-5)
        assert "Transform" in entry["components"]
    assert len({entry["id"] for entry in full}) == len(full)


def test_an_entity_is_found_by_name_and_by_id(client: Any) -> None:
    robot = client.get_entity(name="agent_0")
    assert robot == client.get_entity(entity_id=robot["id"])
    assert "Robot" in robot["components"]
    assert client.get_entity(name="nobody") is None
    assert client.get_entity(entity_id=999_999) is None


def test_a_robot_is_moved_and_found_where_it_was_put(client: Any) -> None:
    robot = client.get_entity(name="agent_0")["id"]
    turned = (0.0, 0.0, 0.70710678, 0.70710678)
    assert client.set_entity_transform(robot, position=(1.0, -2.0, 0.5), rotation=turned)
    found = client.get_entity(entity_id=robot)["transform"]
    assert found["position"] == pytest.approx((1.0, -2.0, 0.5))
    assert found["rotation"] == pytest.approx(turned)
    assert list(client.get_joint_state().state.positions[:3]) == pytest.approx([1.0, -2.0, 0.5])
    assert client.reset_scene().success


def test_what_cannot_be_moved_stays(client: Any) -> None:
    floor = client.get_entity(name="floor")
    assert not client.set_entity_transform(floor["id"], position=(0.0, 0.0, 1.0))
    assert client.get_entity(name="floor") == floor
    assert not client.set_entity_transform(424_242, position=(0.0, 0.0, 1.0))


@pytest.mark.parametrize("mode", ["deterministic", "fast"])
def test_a_simulation_mode_is_kept(client: Any, mode: str) -> None:
    assert client.set_simulation_mode(mode).success
    assert client.get_simulation_mode() == mode


def test_realtime_is_refused_while_a_client_is_connected(client: Any) -> None:
    before = client.get_simulation_mode()
    answer = client.set_simulation_mode("realtime")
    assert not answer.success
    assert "deterministic" in answer.message
    assert client.get_simulation_mode() == before


def test_play_mode_calls_answer_at_once(client: Any) -> None:
    assert client.exit_play_mode().success
    assert client.enter_play_mode().success
    assert client.get_model_info().success
