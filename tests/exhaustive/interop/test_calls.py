"""Every method, called as luckyrobots calls it: the engine answers what it answers to our typed call, or refuses."""

# pyright: basic
# Reason: luckyrobots ships no types.

import re
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest

import lucky_transport
from lucky_transport.messages.methods import METHODS, Effect, Method, method

LEGACY = {row.name.rpartition(".")[2]: row for row in METHODS if row.name.startswith("/hazel.rpc.")}
CONTRACT = {"rewards": {"engine_terms": [{"name": "alive"}]}, "terminations": {"terms": [{"name": "time_out"}]}}
POSE = {"position": (1.0, -2.0, 0.5), "rotation": (0.0, 0.0, 0.6, 0.8)}

#: What luckyrobots has for a method: a wrapper or, where it has none, the stub.
CALLS: dict[str, Callable[[Any], object]] = {
    "AgentService/GetAgentSchema": lambda at: at.client.get_agent_schema(),
    "AgentService/ResetAgent": lambda at: at.client.reset_agent(),
    "AgentService/Step": lambda at: at.client.step([0.0] * 12),
    "AgentService/SetActionGroup": lambda at: at.client.set_action_group("front_left", [0.5], [0]),
    "AgentService/ReportProgress": lambda at: at.client.report_progress(run_id="7", finished=True),
    "AgentService/GetCapabilityManifest": lambda at: at.client.get_capability_manifest(),
    "AgentService/ValidateTaskContract": lambda at: at.client.validate_task_contract(CONTRACT),
    "AgentService/NegotiateTask": lambda at: at.client.negotiate_task(CONTRACT),
    "AgentService/ListRobotControllers": lambda at: at.lucky.list_robot_controllers(at.session),
    "AgentService/GetRobotController": lambda at: at.robot.get_state(),
    "AgentService/ListPolicyDescriptors": lambda at: at.lucky.list_policy_descriptors(at.session),
    "AgentService/SetPolicyActive": lambda at: at.robot.set_policy_active("Trot", True),
    "AgentService/SetPolicyDescriptor": lambda at: at.robot.set_policy_descriptor(
        "Sway", at.robot.get_state().slot("Sway").descriptor_path
    ),
    "AgentService/SetPolicyDrivenJoints": lambda at: at.robot.set_driven_joints("Sway", ["FL_hip_joint"]),
    "AgentService/SetPolicyClampObservation": lambda at: at.robot.set_policy_clamp_observation("Sway", True),
    "AgentService/SetPolicyPriority": lambda at: at.robot.set_policy_priority("Sway", 3),
    "AgentService/SetPolicyCommandFloat": lambda at: at.robot.set_command_float("Trot", 1, 0.5),
    "AgentService/SetPolicyCommandBool": lambda at: at.robot.set_command_bool("Trot", 4, True),
    "AgentService/SetPolicyGains": lambda at: at.robot.set_policy_gains("Sway", {"FL_hip_joint": {"kp": 60.0}}),
    "AgentService/ClearPolicyGains": lambda at: at.robot.clear_policy_gains("Sway"),
    "AgentService/GetPolicyCommandFloat": lambda at: at.robot.get_command_float("Trot", 1),
    "AgentService/GetPolicyCommandBool": lambda at: at.robot.get_command_bool("Trot", 4),
    "AgentService/SetMotionGraphActive": lambda at: at.robot.set_motion_graph_active(True),
    "AgentService/GetMotionGraphActive": lambda at: (at.robot.motion_graph_active,),
    "AgentService/SetMotionGraphInput": lambda at: [at.robot.set_motion_graph_input(1, value) for value in (0.5, 1)],
    "AgentService/GetMotionGraphInput": lambda at: at.robot.get_motion_graph_input(1, "float"),
    "AgentService/FireMotionGraphTrigger": lambda at: at.robot.fire_motion_graph_trigger(5),
    "AgentService/GetPolicyBasePose": lambda at: at.of_active("Trot", at.robot.get_base_pose),
    "AgentService/GetPolicyLastAction": lambda at: at.of_active("Sway", at.robot.get_last_action),
    "AgentService/StreamPolicySlotState": lambda at: next(at.robot.stream_slot_state("Sway", target_fps=100)),
    "AgentService/StreamRobotController": lambda at: next(at.robot.stream_state(target_fps=100)),
    "MujocoService/GetJointState": lambda at: at.client.get_joint_state(),
    "MujocoService/GetMujocoInfo": lambda at: at.client.get_mujoco_info(),
    "MujocoService/StreamJointState": lambda at: at.first(at.client.stream_joint_state()),
    "MujocoSceneService/GetModelInfo": lambda at: at.scene.model_info(refresh=True),
    "MujocoSceneService/GetFullState": lambda at: at.scene.state(filter={"filter_by_slot_id": 2}),
    "MujocoSceneService/StreamFullState": lambda at: at.first(at.client.stream_full_state(target_fps=100)),
    "MujocoSceneService/SetControl": lambda at: at.scene.set_control(named={"FL_hip_joint": 0.25}, indexed={3: -0.25}),
    "MujocoSceneService/SetQpos": lambda at: (
        at.scene.set_qpos(indexed={2: 0.5}, force=True),
        at.lucky.set_robot_pose(at.scene, base_xyz=(0, 1, 0.4), joint_angles={"FL_calf_joint": -1.25}, force=True),
    ),
    "MujocoSceneService/GetActuatorGains": lambda at: at.scene.actuator_gains(),
    "MujocoSceneService/ResetScene": lambda at: at.session.reset_scene(preserve_time=True),
    "SceneService/GetSceneInfo": lambda at: at.client.get_scene_info(),
    "SceneService/ListEntities": lambda at: at.client.list_entities(include_transforms=True, include_components=True),
    "SceneService/GetEntity": lambda at: at.client.get_entity(name="agent_0"),
    "SceneService/SetEntityTransform": lambda at: at.client.set_entity_transform(at.robot.entity_id, **POSE),
    "SceneService/SetSimulationMode": lambda at: at.client.set_simulation_mode("fast"),
    "SceneService/GetSimulationMode": lambda at: at.client.get_simulation_mode(),
    "SceneService/EnterPlayMode": lambda at: at.session.enter_play_mode(),
    "SceneService/ExitPlayMode": lambda at: at.session.exit_play_mode(),
    "CameraService/ListCameras": lambda at: at.client.list_cameras(),
    "CameraService/StreamCamera": lambda at: at.first(at.client.stream_camera(name="front", width=64, height=48)),
    "CameraService/GetCameraConfig": lambda at: at.client.get_camera_config("front"),
    "CameraService/SetCameraConfig": lambda at: at.client.set_camera_config(
        "front", at.client.get_camera_config("front").config
    ),
    "TelemetryService/GetTelemetrySchema": lambda at: at.client.get_telemetry_schema(),
    "TelemetryService/StreamTelemetry": lambda at: at.first(at.client.stream_telemetry(target_fps=200)),
    "ViewportService/GetViewportInfo": lambda at: at.client.get_viewport_info(),
    "ViewportService/StreamViewport": lambda at: at.first(at.client.stream_viewport(width=96, height=64)),
    "DebugService/Draw": lambda at: (
        at.lucky.debug.draw_line(at.client, (-1, 0, 0.6), (1, 0, 0.6)),
        at.lucky.debug.draw_arrow(at.client, (0, 0, 0.5), (0, 0, 1), clear_previous=True),
        at.lucky.debug.draw_velocity_command(at.client, (0, 0, 0.4), 1.0, 0.2, 0.5),
    ),
    "LidarService/SetLidarLive": lambda at: at.client.set_lidar_live(True),
    "LidarService/SetLidarConfig": lambda at: at.lidar(
        "SetLidarConfig", at.lidar("GetLidarConfig", "LidarSensorRequest"), channels=8
    ),
    "LidarService/GetLidarConfig": lambda at: at.lidar("GetLidarConfig", "LidarSensorRequest"),
    "LidarService/SetLidarReturnParams": lambda at: at.lidar(
        "SetLidarReturnParams", at.lidar("GetLidarReturnParams"), retro_gain=2.0
    ),
    "LidarService/GetLidarReturnParams": lambda at: at.lidar("GetLidarReturnParams"),
    "LidarService/SetLidarPreset": lambda at: at.lidar("SetLidarPreset"),
    "LidarService/SetLidarSecondaryCapture": lambda at: at.client.set_lidar_secondary_capture(capture=0),
    "LidarService/GetLidarScan": lambda at: (at.client.set_lidar_live(True), at.client.get_lidar_scan()),
    "LidarService/GetLidarBeamCount": lambda at: at.client.get_lidar_beam_count(),
    "LidarService/GetLidarBeamAngles": lambda at: at.lidar("GetLidarBeamAngles", "LidarSensorRequest"),
}

#: What is refused: the call, and words of what it raises.
REFUSALS: list[tuple[Callable[[Any], object], str]] = [
    (lambda at: at.client.step([0.0] * 3), "actions have shape (1, 3), expected (1, 12)"),
    (lambda at: at.client.step([0.0] * 12, agent_name="agent_7"), "no agent 'agent_7'"),
    (lambda at: at.session.reset(agent_name="agent_4"), "Reset failed: no agent 'agent_4'"),
    (
        lambda at: at.client.negotiate_task({"rewards": {"engine_terms": [{"name": "torque"}]}}),
        "did you mean 'torques'",
    ),
    (lambda at: at.lucky.RobotController(at.session, 1).get_state(), "No RobotControllerComponent on entity 1"),
    (lambda at: at.robot.set_policy_active(999, True), "no slot 999; there are 1"),
    (lambda at: at.robot.set_command_float("Trot", 4, 1.0), "use the method for Bool"),
    (lambda at: at.robot.get_command_float("Trot", 99), "has no command 99"),
    (lambda at: at.robot.get_last_action("Sway"), "not active"),
    (lambda at: at.robot.get_base_pose("Sway"), "not active"),
    (lambda at: at.robot.set_driven_joints("Sway", ["FL_hip_join"]), "did you mean 'FL_hip_joint'"),
    (lambda at: at.robot.set_policy_descriptor("Sway", "policies/unknown.policy"), "no policy descriptor"),
    (lambda at: at.robot.set_policy_gains("Sway", {"FL_hip_joint": {"kp": -1.0}}), "kp"),
    (lambda at: at.robot.fire_motion_graph_trigger(12), "no input 12"),
    (lambda at: at.robot.set_motion_graph_input(1, True), "takes float_val, not bool_val"),
    (lambda at: at.robot.set_motion_graph_input(1, (0.01, 0.0, 0.02)), "takes float_val, not vec3_val"),
    (lambda at: at.scene.state(filter={"filter_by_slot_id": 77}), "filter_by_slot_id 77: there are slots 1, 2"),
    (lambda at: at.scene.set_control(named={"FL_hip_joints": 0.1}), "did you mean 'FL_hip_joint'"),
    (lambda at: next(at.client.stream_camera(name="fornt")), "did you mean 'front'"),
    (lambda at: (at.client.configure_cameras([{"name": "rear"}]), at.client.step([0.0] * 12)), "no camera 'rear'"),
    (lambda at: at.client.bake_lidar_material(), "bakes no lidar materials"),
    (lambda at: at.client.get_lidar_bake_status(), "bakes no lidar materials"),
    (lambda at: at.lidar("LoadLidarBake"), "bakes no lidar materials"),
    (lambda at: at.lidar("SaveLidarBake"), "bakes no lidar materials"),
]

#: What is refused in its answer.
REFUSED: dict[str, Callable[[Any], object]] = {
    "a contract": lambda at: at.client.reset_agent(randomization_cfg=SimpleNamespace(mass_scale_range=(9, 10))).success,
    "a robot": lambda at: at.client.get_joint_state("unitreego2").success,
    "an action group": lambda at: at.client.set_action_group("front_left", [0.5], [40]),
    "the floor": lambda at: at.client.set_entity_transform(at.client.get_entity(name="floor")["id"], **POSE),
    "an entity": lambda at: at.client.get_entity(name="nobody"),
    "real time": lambda at: at.client.set_simulation_mode("realtime").success,
    "a camera": lambda at: at.client.get_camera_config("bottom").found,
    "a drawing": lambda at: at.lucky.debug.draw_line(at.client, (float("nan"), 0, 0), (1, 0, 0)),
}


class At:
    """What luckyrobots has to call an engine by, and its calls, as our own client makes them again."""

    def __init__(self, lucky: Any, session: Any, robot: Any) -> None:
        self.lucky, self.session, self.robot = lucky, session, robot
        self.client, self.scene = session.engine_client, session.scene

    def of_active(self, slot: str, call: Callable[[str], object]) -> object:
        with self.robot.policy_slot(slot):
            return call(slot)

    def first(self, stream: Any) -> Any:
        item = next(stream)
        stream.cancel()
        return item

    def lidar(self, name: str, given: Any = "", **changes: Any) -> Any:
        """Call a method that has no wrapper, with a request of that name, or with what was found and these changes."""
        pb = self.client.pb.lidar
        request = getattr(pb, given if given and isinstance(given, str) else f"{name}Request")()
        for field in request.DESCRIPTOR.fields_by_name:
            if not isinstance(given, str) and field in given.DESCRIPTOR.fields_by_name:
                setattr(request, field, changes.get(field, getattr(given, field)))
        return getattr(self.client.lidar, name)(request)


@pytest.fixture
def heard(lucky: Any, engine: Any, monkeypatch: pytest.MonkeyPatch) -> Generator[list[tuple[Method, Any, Any]]]:
    """Every call from now on: its method, its answer, and what our own client gets to the same request after it."""
    from lucky_transport_grpc.codec import request_in, response_in

    grpc, calls = lucky.client.grpc, list[tuple[Method, Any, Any]]()
    plain = grpc.insecure_channel

    class Compare(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            call, row = continuation(client_call_details, request), LEGACY.get(self._name(client_call_details))
            if row is not None and call.exception() is None:
                again = (
                    client.transport.call(row, request_in(row, request.SerializeToString())) if _reads(row) else None
                )
                calls.append((row, response_in(row, call.result().SerializeToString()), again))
            return call

        def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            row = LEGACY.get(self._name(client_call_details))
            if row is not None:
                calls.append((row, None, None))
            return continuation(client_call_details, request)

        def _name(self, details: Any) -> str:
            return details.method.rpartition(".")[2]

    with lucky_transport.connect(str(engine.endpoints[0])) as client:
        monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **k: grpc.intercept_channel(plain(*a, **k), Compare()))
        yield calls


def _reads(row: Method) -> bool:
    return row.effect is Effect.READ and row.stream is None


@pytest.fixture
def at(lucky: Any, heard: Any, session: Any, robot: Any) -> Generator[At]:
    """A session, all of whose calls are heard; the robot stands again afterwards."""
    yield At(lucky, session, robot)
    session.engine_client.configure_cameras([])
    session.reset()
    session.reset_scene()


@pytest.mark.parametrize("name", [name for name in LEGACY if "Bake" not in name])
def test_a_method_answers_luckyrobots_as_it_answers_a_typed_call(name: str, at: At, heard: Any) -> None:
    heard.clear()
    assert CALLS[name](at) is not False
    assert method(name) in [row for row, _, _ in heard]
    for row, answer, again in heard:
        assert answer == again if _reads(row) else getattr(answer, "success", getattr(answer, "ok", True)), row.name


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_what_is_refused_is_raised_with_the_engines_words(lucky: Any, at: At, call: Any, words: str) -> None:
    before = at.robot.get_state()
    with pytest.raises((RuntimeError, LookupError, lucky.client.grpc.RpcError), match=re.escape(words)):
        call(at)
    assert at.robot.get_state() == before


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_its_answer_is_no_success(at: At, what: str) -> None:
    assert not REFUSED[what](at)
