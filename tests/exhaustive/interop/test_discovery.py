"""Reflection, validation, `luckyrobots inspect`, recording and stubs of one's own."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SERVICES = ("Agent", "Camera", "Debug", "Lidar", "MujocoScene", "Mujoco", "Scene", "Telemetry", "Viewport")


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
    with robot.policy_slot("Trot"), robot.policy_slot("Stand"):
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
