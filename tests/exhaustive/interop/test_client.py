"""What luckyrobots makes of an engine's answers: steps, images, reflection, validation, recordings.

test_calls.py has each method.
"""

# pyright: basic
# Reason: luckyrobots ships no types.

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_transport
from lucky_transport.errors import Busy

SERVICES = ("Agent", "Camera", "Debug", "Lidar", "MujocoScene", "Mujoco", "Scene", "Telemetry", "Viewport")


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


# --- what it says of itself ---


def test_all_nine_services_are_advertised(lucky: Any, client: Any) -> None:
    advertised = client.discover_services()
    assert {f"hazel.rpc.{name}Service" for name in SERVICES} <= set(advertised)
    assert set(advertised) == lucky.supported_services(client.channel)


@pytest.mark.parametrize("name", SERVICES)
def test_a_services_methods_and_messages_are_those_the_package_was_made_for(lucky: Any, client: Any, name: str) -> None:
    theirs = {
        service.full_name: service
        for module in vars(client.pb).values()
        for service in module.DESCRIPTOR.services_by_name.values()
    }[f"hazel.rpc.{name}Service"]
    ours = lucky.reflection.describe_service(client.channel, theirs.full_name)
    assert [_signature(method) for method in ours.methods] == [_signature(method) for method in theirs.methods]
    assert lucky.supported_methods(client.channel, theirs.full_name) == set(theirs.methods_by_name)


def _signature(method: Any) -> tuple[Any, ...]:
    messages = (method.input_type, method.output_type)
    fields = [[(field.name, field.number, field.type) for field in message.fields] for message in messages]
    return method.name, method.client_streaming, method.server_streaming, fields


def test_a_method_is_found_in_both_spellings_and_an_unknown_one_is_not(lucky: Any, client: Any) -> None:
    assert lucky.has_rpc(client.channel, "hazel.rpc.AgentService/SetPolicyDrivenJoints")
    assert lucky.has_rpc(client.channel, "hazel.rpc.AgentService.Step")
    assert not lucky.has_rpc(client.channel, "hazel.rpc.AgentService/Fly")
    assert not lucky.has_rpc(client.channel, "hazel.rpc.SkyService/Fly")
    with pytest.raises(KeyError, match="SkyService"):
        lucky.reflection.describe_service(client.channel, "hazel.rpc.SkyService")
    assert lucky.reflection.describe_all(client.channel).keys() == set(client.discover_services())


def test_a_stub_of_ones_own_is_attached_to_the_channel(lucky: Any, client: Any) -> None:
    client.register_stub("my_scene", lucky.client.scene_pb2_grpc.SceneServiceStub)
    info = client.my_scene.GetSceneInfo(client.pb.scene.GetSceneInfoRequest(), timeout=5.0)
    assert info.scene_name == client.get_scene_info()["scene_name"]


def test_validation_finds_nothing_wrong(lucky: Any, session: Any) -> None:
    assert lucky.validate_session(session) == session.validate() == []


def test_validation_sees_slots_that_compete(session: Any, robot: Any) -> None:
    with robot.policy_slot("Trot"), robot.policy_slot("Sway"):
        (warning,) = session.validate()
    assert (warning.code, warning.entity_id) == ("duplicate_slot_priority", robot.entity_id)
    assert "[1, 2] share priority 0" in warning.message


def test_inspect_prints_what_there_is(
    lucky: Any, session: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # as shipped it stops at the missing robot name: what comes after that works
    connected = type("Connected", (lucky.Session,), {"connect": _with_robot(lucky), "close": _engine_lives(lucky)})
    monkeypatch.setattr(lucky, "Session", connected)
    assert lucky.cli.inspect_main("127.0.0.1", session.port) == 0
    printed = capsys.readouterr().out
    assert "Policy RPC support: available" in printed
    assert "name='agent_0'" in printed
    assert "nq=19 nv=18 nu=12 njnt=13" in printed
    assert "slot 1 'Trot' active=False ready=True driven=12" in printed


def _with_robot(lucky: Any) -> Any:
    connect = lucky.Session.connect
    return lambda self, timeout_s: connect(self, timeout_s, robot="quadruped")


def _engine_lives(lucky: Any) -> Any:
    close = lucky.Session.close
    return lambda self, stop_engine=True: close(self, stop_engine=False)


def test_calls_are_recorded_and_saved(lucky: Any, session: Any, robot: Any, tmp_path: Path) -> None:
    session.reset()
    with session.record() as recording:
        robot.set_policy_active("Sway", True)
        robot.commands("Sway")["SetAmplitude"] = 0.25
        session.step([0.0] * 12)
        session.get_full_state()
    session.get_scene_info()  # no longer recorded
    assert [event.rpc for event in recording.events] == [
        "AgentService.SetPolicyActive",
        "AgentService.GetRobotController",
        "AgentService.SetPolicyCommandFloat",
        "AgentService.Step",
        "MujocoSceneService.GetFullState",
    ]
    step = json.loads(recording.events[3].response_json)
    assert (step["success"], len(step["observation"]["observations"])) == (True, 48)
    path = str(tmp_path / "episode.jsonl")
    recording.save(path)
    assert lucky.SessionRecording.load(path).events == recording.events
    robot.commands("Sway")["SetAmplitude"] = 0.2
