"""LuckyEngineClient: stepping, action groups, task contracts, joint state, progress, benchmark."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport.errors import Busy

CONTRACT = {
    "task_id": "walk",
    "robot": "quadruped",
    "scene": "flat",
    "observations": {"required": [{"name": "joint_pos"}], "optional": [{"name": "base_lin_vel"}, {"name": "smell"}]},
    "rewards": {"engine_terms": [{"name": "alive"}, {"name": "torques", "weight": 2.0}]},
    "terminations": {"terms": [{"name": "time_out", "is_timeout": True}]},
    "actions": {"terms": [{"type": "joint_position"}]},
    "randomization": {"custom_randomizations": [{"name": "friction_range", "range_min": 0.5, "range_max": 1.0}]},
    "auxiliary_data": [{"name": "contacts"}],
}


def test_the_schema_names_every_element_of_observations_and_actions(client: Any) -> None:
    schema = client.get_agent_schema().schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == ("agent_0", 48, 12)
    assert len(schema.observation_names) == 48
    assert list(schema.action_names) == list(client.get_mujoco_info().actuator_names)


def test_a_step_tells_what_was_done_and_what_is_seen(client: Any) -> None:
    client.get_agent_schema()
    assert client.reset_agent().success
    found = client.step([0.125] * 12)
    assert found.actions == [0.125] * 12
    assert len(found.observation) == len(found.observation_names) == 48
    assert found.to_dict()["last_action/FL_hip_joint"] == 0.125
    assert found.actions_to_dict()["RR_calf_joint"] == 0.125
    assert found.agent_name == "agent_0"
    assert found.timestamp_ms > 1_600_000_000_000
    assert found.frame_number == 2
    assert not found.terminated
    assert not found.truncated


def test_names_give_single_elements_of_an_observation(client: Any) -> None:
    client.get_agent_schema()
    client.reset_agent()
    found = client.step([0.0] * 12)
    assert found["joint_pos/FL_hip_joint"] == found.observation[12]
    assert found.get("joint_pos") is None


def test_a_step_with_too_few_actions_is_refused_with_both_numbers(client: Any) -> None:
    client.reset_agent()
    with pytest.raises(RuntimeError, match=r"actions have shape \(1, 3\), expected \(1, 12\)"):
        client.step([0.0] * 3)


def test_a_step_without_actions_ticks(client: Any) -> None:
    client.reset_agent()
    first = client.step([0.0] * 12)
    second = client.step()
    assert second.frame_number == first.frame_number + 1
    assert second.observation != first.observation


def test_an_action_group_lies_on_top_of_the_step_it_comes_with(client: Any) -> None:
    client.reset_agent()
    client.step([0.0] * 12)
    groups = [{"group_name": "front_left", "actions": [0.5, 0.25, 0.125], "action_indices": [0, 1, 2]}]
    assert client.step([0.0] * 12, action_groups=groups).actions == [0.5, 0.25, 0.125] + [0.0] * 9


def test_a_preloaded_action_group_lies_on_top_of_the_next_step(client: Any) -> None:
    client.reset_agent()
    client.step([0.0] * 12)
    client.get_agent_schema()
    assert client.set_action_group("front_left", [0.5, 0.25], [0, 2])
    found = client.step([0.0] * 12).to_dict()
    assert [found[f"last_action/FL_{part}_joint"] for part in ("hip", "thigh", "calf")] == [0.5, 0.0, 0.25]
    assert client.step([0.0] * 12).to_dict()["last_action/FL_hip_joint"] == 0.0
    assert not client.set_action_group("front_left", [0.5], [40])


def test_groups_preloaded_by_several_policies_fire_in_one_step_without_actions(client: Any) -> None:
    client.get_agent_schema()
    client.reset_agent()
    client.step([0.0] * 12)
    assert client.set_action_group("locomotion", [0.5, 0.0, 0.1], [0, 1, 2])
    assert client.set_action_group("arm", [0.25, 0.3], [3, 4])
    found = client.step().to_dict()
    taken = [value for name, value in found.items() if name.startswith("last_action/")]
    assert taken == pytest.approx([0.5, 0.0, 0.1, 0.25, 0.3] + [0.0] * 7)


def test_a_reset_contract_is_obeyed_and_an_impossible_one_refused(client: Any) -> None:
    assert client.reset_agent(randomization_cfg=SimpleNamespace(vel_command_x_range=(0.75, 0.75))).success
    client.get_agent_schema()
    assert client.step([0.0] * 12).to_dict()["velocity_command/x"] in (0.75, 0.0)  # 0: a command to stand
    refused = client.reset_agent(randomization_cfg=SimpleNamespace(mass_scale_range=(9.0, 10.0)))
    assert not refused.success
    assert "mass_scale_range" in refused.message


def test_an_agent_that_does_not_exist_is_refused_by_name(client: Any) -> None:
    refused = client.reset_agent(agent_name="agent_7")
    assert not refused.success
    assert "no agent 'agent_7'; there are agent_0" in refused.message
    with pytest.raises(RuntimeError, match="no agent 'agent_7'"):
        client.step([0.0] * 12, agent_name="agent_7")


def test_the_manifest_lists_what_a_contract_may_ask_for(client: Any) -> None:
    manifest = client.get_capability_manifest()
    assert {"alive", "torques"} <= {term["name"] for term in manifest["rewards"]}
    assert {"fell_over", "time_out"} <= {term["name"] for term in manifest["terminations"]}
    assert {"joint_pos", "projected_gravity"} <= {term["name"] for term in manifest["observations"]}
    friction = next(term for term in manifest["randomizations"] if term["name"] == "friction_range")
    assert friction["engine_target"] == "geom_friction"
    assert all(term["description"] for term in manifest["rewards"])


def test_a_contract_is_validated_and_then_negotiated(client: Any) -> None:
    found = client.validate_task_contract(CONTRACT)
    assert (found["is_valid"], found["errors"]) == (True, [])
    assert (found["resolved_optionals"], found["unresolved_optionals"]) == (["base_lin_vel"], ["smell"])
    assert [warning["term_name"] for warning in found["warnings"]] == ["smell"]
    negotiated = client.negotiate_task(CONTRACT)
    assert negotiated["session_id"]
    assert (negotiated["reward_terms"], negotiated["termination_terms"]) == (["alive", "torques"], ["time_out"])
    assert [warning["term_name"] for warning in negotiated["warnings"]] == ["smell"]
    client.reset_agent()
    found = client.step([0.0] * 12)
    assert (found.reward_signals.keys(), found.termination_flags.keys()) == ({"alive", "torques"}, {"time_out"})


def test_a_contract_with_a_slip_is_refused_with_the_nearest_name(client: Any) -> None:
    contract = {"rewards": {"engine_terms": [{"name": "torque"}]}}
    found = client.validate_task_contract(contract)
    assert not found["is_valid"]
    (error,) = found["errors"]
    assert (error["component"], error["term_name"]) == ("reward", "torque")
    assert error["suggestion"] == "did you mean 'torques'?"
    with pytest.raises(RuntimeError, match="did you mean 'torques'"):
        client.negotiate_task(contract)


def test_joint_state_has_the_sizes_that_the_model_says(client: Any) -> None:
    info = client.get_mujoco_info()
    assert (info.success, len(info.joint_names), len(info.actuator_names)) == (True, 12, 12)
    state = client.get_joint_state().state
    assert (len(state.positions), len(state.velocities)) == (info.nq, info.nv) == (19, 18)
    assert (state.nq, state.nv) == (19, 18)
    refused = client.get_joint_state("unitreego2")
    assert not refused.success
    assert "'unitreego2'" in refused.message


def test_joint_state_is_streamed_until_the_reader_stops(client: Any) -> None:
    stream = client.stream_joint_state()
    items = list(itertools.islice(stream, 3))
    stream.cancel()
    assert [len(item.state.positions) for item in items] == [19] * 3


def test_telemetry_carries_what_its_schema_names(client: Any) -> None:
    schema = client.get_telemetry_schema()
    assert (schema["nq"], schema["nu"]) == (19, 12)
    assert (len(schema["observation_names"]), len(schema["action_names"])) == (19, 12)
    stream = client.stream_telemetry(target_fps=200)
    frames = list(itertools.islice(stream, 3))
    stream.cancel()
    for frame in frames:
        assert (len(frame.observation_qpos), len(frame.action_ctrl)) == (19, 12)
        assert frame.timestamp_ms > 1_600_000_000_000


def test_telemetry_follows_the_steps_that_are_made_meanwhile(client: Any) -> None:
    client.reset_agent()
    client.step([0.0] * 12)
    stream = client.stream_telemetry(target_fps=500)
    before = next(stream).frame_number
    for _ in range(3):
        client.step([0.1] * 12)
    after = next(frame for frame in stream if frame.frame_number >= before + 3)
    stream.cancel()
    assert np.allclose(after.action_ctrl, client.get_full_state().state.ctrl)


def test_its_benchmark_runs(lucky: Any, client: Any) -> None:
    client.reset_agent()
    result = client.benchmark(duration_seconds=0.1, method="step")
    assert isinstance(result, lucky.BenchmarkResult)
    assert result.frame_count > 0
    assert result.min_latency_ms <= result.p50_latency_ms <= result.p99_latency_ms <= result.max_latency_ms


def test_a_finished_run_gives_the_robot_to_whoever_comes_next(client: Any, port: int) -> None:
    client.reset_agent()
    with lucky_transport.make(endpoint=f"grpc://127.0.0.1:{port}") as env:
        with pytest.raises(Busy, match=r"is driven by (grpc|shm) client"):
            env.reset()
        client.report_progress(run_id="1", task_name="walk", phase="train", current_step=5, max_steps=10)
        with pytest.raises(Busy, match=r"is driven by (grpc|shm) client"):
            env.reset()
        client.report_progress(run_id="1", finished=True)
        env.reset()
        assert env.step(np.zeros((1, 12), np.float32))[0].shape == (1, 48)
