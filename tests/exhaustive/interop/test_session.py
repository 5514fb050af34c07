"""Session: the managed way in, with the package's health check repaired."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest


def test_it_connects_and_knows_the_robot(session: Any) -> None:
    assert session.engine_client.is_connected()
    assert session.engine_client.health_check()
    assert len(session.get_joint_state().state.positions) == 19


def test_start_waits_for_the_agents_and_negotiates(
    lucky: Any, port: int, repaired: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[dict[str, Any]] = []
    monkeypatch.setattr(lucky.session, "launch_luckyengine", lambda **options: launched.append(options) or True)
    session = lucky.Session(port=port)
    contract = {"rewards": {"engine_terms": [{"name": "alive"}]}}
    try:
        session.start(scene="flat", robot="quadruped", task="walk", timeout_s=20.0, task_contract=contract)
        session.reset()
        assert session.step([0.0] * 12).reward_signals.keys() == {"alive"}
    finally:
        session.close(stop_engine=False)
    assert [options["grpc_port"] for options in launched] == [port]


def test_reset_returns_the_first_observation_of_an_episode(session: Any) -> None:
    first = session.reset(randomization_cfg=SimpleNamespace(joint_position_noise=0.02))
    assert first.frame_number == 1
    assert len(first.observation) == 48
    second = session.step([0.1] * 12)
    assert second.frame_number == 2
    assert second.observation != first.observation


def test_a_reset_that_is_refused_raises_the_engines_words(session: Any) -> None:
    with pytest.raises(RuntimeError, match="Reset failed: no agent 'agent_4'"):
        session.reset(agent_name="agent_4")


def test_action_groups_make_up_a_step(session: Any) -> None:
    session.reset()
    groups = [
        {"group_name": "front_left", "actions": [0.1, 0.2, 0.3], "action_indices": [0, 1, 2]},
        {"group_name": "rear_right", "actions": [0.5], "action_indices": [11]},
    ]
    assert session.step(action_groups=groups).actions == pytest.approx([0.1, 0.2, 0.3] + [0.0] * 8 + [0.5])
    assert session.set_action_group("hips", [0.25] * 4, [0, 3, 6, 9])


def test_scene_and_simulation_mode_are_asked_for_and_set(session: Any) -> None:
    info = session.get_scene_info()
    assert info["entity_count"] == len(session.list_entities())
    assert session.get_simulation_mode() == "deterministic"
    assert session.set_simulation_mode("fast").success
    assert session.get_simulation_mode() == "fast"
    refused = session.set_simulation_mode("realtime")
    assert not refused.success
    assert "realtime" in refused.message
    assert session.set_simulation_mode("deterministic").success


def test_play_mode_is_left_and_entered_again(session: Any) -> None:
    assert session.exit_play_mode().success
    assert session.enter_play_mode().success
    assert session.engine_client.get_agent_schema().schema.observation_size == 48


def test_its_forwards_reach_the_services(session: Any) -> None:
    assert session.get_model_info().nu == 12
    assert session.get_full_state().qpos.shape == (19,)
    assert len(session.get_actuator_gains()) == 12
    assert session.get_telemetry_schema()["nq"] == 19
    assert session.get_viewport_info()["available_viewports"] == ["Main"]
    assert [camera["name"] for camera in session.list_cameras()] == ["track", "front", "top"]
    assert session.has_rpc("hazel.rpc.AgentService/SetPolicyDrivenJoints")
    assert session.validate_task_contract({})["is_valid"]
    session.report_progress(run_id="7", finished=True)


def test_reset_scene_puts_the_robot_up_again(session: Any) -> None:
    session.reset()
    for _ in range(5):
        session.step([0.3] * 12)
    assert session.reset_scene().success
    state = session.get_full_state()
    assert state.qpos[:3] == pytest.approx([0.0, 0.0, 0.28], abs=0.01)
    assert state.time == 0.0


def test_a_session_can_be_opened_again_as_soon_as_it_was_closed(lucky: Any, port: int, repaired: None) -> None:
    for _ in range(3):
        session = lucky.Session(port=port)
        session.connect(timeout_s=20.0, robot="quadruped")
        assert session.reset().frame_number == 1
        session.close(stop_engine=False)
