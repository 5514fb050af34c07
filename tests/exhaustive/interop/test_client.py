"""LuckyEngineClient: what it makes of steps, groups, contracts, images and the scene; test_calls.py has each method."""

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


def test_a_step_tells_what_was_done_and_what_is_seen_by_name(client: Any) -> None:
    schema = client.get_agent_schema().schema
    assert len(schema.observation_names) == schema.observation_size == 48
    assert len(schema.action_names) == schema.action_size == 12
    assert client.reset_agent().success
    found = client.step([0.125] * 12)
    assert (found.actions, len(found.observation), found.agent_name) == ([0.125] * 12, 48, "agent_0")
    assert found.to_dict()["last_action/FL_hip_joint"] == found.actions_to_dict()["RR_calf_joint"] == 0.125
    assert found["joint_pos/FL_hip_joint"] == found.observation[12]
    assert found.timestamp_ms > 1_600_000_000_000
    assert (found.frame_number, found.terminated, found.truncated) == (2, False, False)


def test_action_groups_lie_on_top_of_the_step_that_they_come_with_or_before(client: Any) -> None:
    client.get_agent_schema()
    client.reset_agent()
    client.step([0.0] * 12)
    groups = [{"group_name": "front_left", "actions": [0.5, 0.25, 0.125], "action_indices": [0, 1, 2]}]
    assert client.step([0.0] * 12, action_groups=groups).actions == [0.5, 0.25, 0.125] + [0.0] * 9
    assert client.set_action_group("locomotion", [0.5, 0.0, 0.1], [0, 1, 2])
    assert client.set_action_group("arm", [0.25, 0.3], [3, 4])
    found = client.step().to_dict()
    taken = [value for name, value in found.items() if name.startswith("last_action/")]
    assert taken == pytest.approx([0.5, 0.0, 0.1, 0.25, 0.3] + [0.0] * 7)


def test_a_reset_contract_is_obeyed(client: Any) -> None:
    assert client.reset_agent(randomization_cfg=SimpleNamespace(vel_command_x_range=(0.75, 0.75))).success
    client.get_agent_schema()
    assert client.step([0.0] * 12).to_dict()["velocity_command/x"] in (0.75, 0.0)  # 0: a command to stand


def test_a_contract_is_validated_and_then_negotiated(client: Any) -> None:
    found = client.validate_task_contract(CONTRACT)
    assert (found["is_valid"], found["errors"]) == (True, [])
    assert (found["resolved_optionals"], found["unresolved_optionals"]) == (["base_lin_vel"], ["smell"])
    negotiated = client.negotiate_task(CONTRACT)
    assert (negotiated["reward_terms"], negotiated["termination_terms"]) == (["alive", "torques"], ["time_out"])
    assert [warning["term_name"] for warning in negotiated["warnings"]] == ["smell"]
    client.reset_agent()
    found = client.step([0.0] * 12)
    assert (found.reward_signals.keys(), found.termination_flags.keys()) == ({"alive", "torques"}, {"time_out"})


def test_streams_follow_the_steps_that_are_made_meanwhile(client: Any) -> None:
    client.reset_agent()
    streams = (client.stream_telemetry(target_fps=500), client.stream_full_state(target_fps=500))
    before = [next(stream) for stream in streams]
    for _ in range(3):
        client.step([0.1] * 12)
    frame = next(one for one in streams[0] if one.frame_number >= before[0].frame_number + 3)
    state = next(one.state for one in streams[1] if one.state.frame_number >= before[1].state.frame_number + 3)
    for stream in streams:
        stream.cancel()
    assert np.allclose(frame.action_ctrl, client.get_full_state().state.ctrl)
    assert state.time == pytest.approx(before[1].state.time + 3 * 0.02)


def test_its_benchmark_runs(lucky: Any, client: Any) -> None:
    client.reset_agent()
    result = client.benchmark(duration_seconds=0.1, method="step")
    assert isinstance(result, lucky.BenchmarkResult)
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


# --- images ---


def test_a_step_brings_the_images_that_were_asked_for_in_order(client: Any) -> None:
    client.configure_cameras(
        [
            {"name": "top", "width": 64, "height": 48, "kind": "depth"},
            {"name": "front", "width": 16, "height": 24},
        ]
    )
    client.reset_scene()
    depth, colour = client.step().camera_frames
    assert [(one.name, one.width, one.height, one.channels) for one in (depth, colour)] == [
        ("top", 64, 48, 1),
        ("front", 16, 24, 4),
    ]
    metres = np.frombuffer(depth.data, "<u2").reshape(48, 64) * depth.depth_scale
    height = client.get_entity(name="top")["transform"]["position"][2]
    assert metres[0, 0] == pytest.approx(height, rel=0.02)  # the ground, whose depth is the camera's height
    assert metres[24, 32] < height - 0.2  # the robot's back
    client.configure_cameras([])
    assert client.step([0.0] * 12).camera_frames == []


def test_a_camera_is_streamed_by_name_and_by_id_in_the_size_that_was_set(client: Any) -> None:
    before = client.get_camera_config("front")
    changed = client.pb.camera.CameraConfig()
    changed.CopyFrom(before.config)
    changed.width, changed.height = 80, 60
    assert client.set_camera_config("front", changed).ok
    entity_id = next(camera["id"] for camera in client.list_cameras() if camera["name"] == "front")
    for wanted in ({"name": "front"}, {"entity_id": entity_id}):
        stream = client.stream_camera(**wanted, target_fps=60)
        frames = list(itertools.islice(stream, 3))
        stream.cancel()
        assert [(frame.width, frame.height, len(frame.data)) for frame in frames] == [(80, 60, 80 * 60 * 4)] * 3
        assert frames[0].frame_number < frames[1].frame_number < frames[2].frame_number
    assert client.set_camera_config("front", before.config).ok


def test_what_is_drawn_shows_in_the_viewport(client: Any, lucky: Any) -> None:
    debug = lucky.debug

    def view() -> np.ndarray:
        stream = client.stream_viewport(width=160, height=90)
        frame = next(stream)
        stream.cancel()
        return np.frombuffer(frame.data, np.uint8)

    client.debug.Draw(client.pb.debug.DebugDrawRequest(clear_previous=True))
    before = view()
    magenta = (1.0, 0.0, 1.0, 1.0)
    for draw in (
        lambda: debug.draw_line(client, (-1, 0, 0.6), (1, 0, 0.6), color=magenta),
        lambda: debug.draw_arrow(client, (0, 0, 0.5), (0, 0, 1), color=magenta, clear_previous=True),
        lambda: debug.draw_velocity_command(client, (0, 0, 0.4), 1.0, 0.2, 0.5),
    ):
        assert draw()
        assert (view() != before).any()
    assert client.debug.Draw(client.pb.debug.DebugDrawRequest(clear_previous=True)).success
    assert (view() == before).all()


# --- the scene ---


def test_an_entity_is_found_by_name_and_by_id_and_where_it_was_put(client: Any) -> None:
    robot = client.get_entity(name="agent_0")
    assert robot == client.get_entity(entity_id=robot["id"])
    turned = (0.0, 0.0, 0.70710678, 0.70710678)
    assert client.set_entity_transform(robot["id"], position=(1.0, -2.0, 0.5), rotation=turned)
    found = client.get_entity(entity_id=robot["id"])["transform"]
    assert (found["position"], found["rotation"]) == (pytest.approx((1.0, -2.0, 0.5)), pytest.approx(turned))
    assert list(client.get_joint_state().state.positions[:3]) == pytest.approx([1.0, -2.0, 0.5])
    assert client.reset_scene().success


def test_controls_and_positions_are_written_by_name_index_or_all_at_once(lucky: Any, session: Any) -> None:
    session.reset()
    session.step()  # without actions: from here on nobody drives
    session.reset_scene()
    scene = session.scene
    answer = scene.set_control(named={"FL_hip_joint": 0.25}, indexed={3: -0.25})
    assert (answer.success, answer.actuators_written, list(answer.rejected_actuators)) == (True, 2, [])
    assert scene.state().ctrl[[0, 3]].tolist() == [0.25, -0.25]
    bulk = np.linspace(-0.1, 0.1, 12)
    scene.set_control(bulk=bulk, skip_range_clamp=True)
    assert np.allclose(scene.state().ctrl, bulk)
    lucky.set_robot_pose(
        scene, base_xyz=(0.0, 1.0, 0.4), base_quat=(1.0, 0.0, 0.0, 0.0), joint_angles={"FL_calf_joint": -1.25}
    )
    after = scene.state().qpos
    assert after[:7].tolist() == pytest.approx([0.0, 1.0, 0.4, 1.0, 0.0, 0.0, 0.0])
    assert after[scene.joint("FL_calf_joint").qpos_adr] == -1.25
    scene.reset()
    assert scene.state().time == 0.0


def test_state_is_filtered_by_slot(session: Any, robot: Any) -> None:
    hips = session.scene.state(filter={"filter_by_slot_id": robot.get_state().slot("Sway").slot_id})
    assert (hips.qpos.shape, hips.qvel.shape, hips.ctrl.shape) == ((4,), (4,), (4,))
    assert [session.scene.joint(int(index)).name for index in hips.included_joint_indices] == [
        f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR")
    ]
