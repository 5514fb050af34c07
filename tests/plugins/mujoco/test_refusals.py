"""What the services of the quadruped refuse: the words that say why, and that nothing changes by it."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from lucky_transport import messages as m
from lucky_transport.errors import TransportError
from lucky_transport.messages.methods import METHODS, method
from tests.plugins.mujoco.conftest import ROBOT, SWAY, TROT

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


CROUCH, BOW = 1, 5
NOBODY = m.EntityId(1)
UNIT, STRAIGHT = m.Vec3(1.0, 1.0, 1.0), m.Quat(0.0, 0.0, 0.0, 1.0)
HIP = "FL_hip_joint"
TROTT = "policies/quadruped_trott.policy"
SEVEN: Any = 7
NO_SLOT = m.StateFilter(filter_by_slot_id=9)


def asking(kind: str, **changes: Any) -> Callable[[Any], Any]:
    """Return what makes a request of the configuration that the engine has now: `Robots.camera` and so on."""
    return lambda batch: getattr(batch, kind)(**changes)


def placed(name: str, *transform: Any) -> Callable[[Any], Any]:
    def make(batch: Any) -> Any:
        found = batch.ask(m.GetEntityRequest(name=name)).entity
        return m.SetEntityTransformRequest(m.EntityId(found.id.id), m.Transform(*transform) if transform else None)

    return make


def contract(**fields: Any) -> Any:
    return m.SetResetOptionsRequest(m.SimulationContract(**fields))


def group(agent: str, *entry: Any) -> Any:
    return m.SetActionGroupRequest(agent, m.ActionGroupEntry(*entry))


def graph(number: int, **value: Any) -> Any:
    return m.SetMotionGraphInputRequest(ROBOT, number, m.MotionGraphInputValue(**value))


def gains(**override: Any) -> Any:
    return m.SetPolicyGainsRequest(ROBOT, TROT, [m.JointGainOverride(HIP, **override)])


def driven(slot: int, *joints: str) -> Any:
    return m.SetPolicyDrivenJointsRequest(ROBOT, slot, list(joints))


def command(number: int, value: float) -> Any:
    return m.SetPolicyCommandFloatRequest(ROBOT, TROT, number, value)


def moved(*entries: tuple[int, float], bulk: Any = ()) -> Any:
    return m.SetQposRequest(list(bulk), [m.IndexedQposEntry(*each) for each in entries], force=True)


def lines(count: int, **point: float) -> Any:
    line = m.DebugLine(m.DebugVector3(0, 0, 1), m.DebugVector3(1, 0, 1), m.DebugColor(1, 0, 0, 1))
    return m.DebugDrawRequest([line] * count + [m.DebugLine(m.DebugVector3(**point), m.DebugVector3())] * bool(point))


#: Methods of a slot, which refuse an unknown robot and an unknown slot.
SLOT_METHODS = [row for row in METHODS if any(item.name == "slot_id" for item in fields(row.request))]

#: Service -> (method, request or what makes it, words of the refusal; those that are raised begin with their class).
REFUSALS: dict[str, list[tuple[str, Any, str]]] = {
    "AgentService": [
        *(
            (row.short_name, row.request(NOBODY, TROT), "no robot controller; robots are entities 1000000 to 1000001")
            for row in SLOT_METHODS
        ),
        *((row.short_name, row.request(ROBOT, 999), "no slot 999; there are 1 (Trot), 2") for row in SLOT_METHODS),
        ("StreamRobotController", m.StreamRobotControllerRequest(NOBODY), "UnknownName: entity 1 has no robot"),
        ("SetPolicyDescriptor", m.SetPolicyDescriptorRequest(ROBOT, TROT, TROTT), "mean 'policies/quadruped_trot."),
        ("SetPolicyDrivenJoints", driven(TROT, HIP, "FL_hip"), "drives no joint 'FL_hip'; did you mean 'FL_hip_joint"),
        ("SetPolicyDrivenJoints", driven(SWAY, "FL_calf_joint"), "policy 'sway' drives no joint 'FL_calf_joint'"),
        ("SetPolicyDrivenJoints", driven(TROT, HIP, HIP), "is named twice"),
        ("SetPolicyCommandFloat", command(1, math.nan), "expected a finite number"),
        ("SetPolicyCommandFloat", command(4, 1.0), "is a bool; use the method for"),
        ("SetPolicyCommandFloat", command(0, 1.0), "no command 0; there are 1"),
        ("SetPolicyCommandBool", m.SetPolicyCommandBoolRequest(ROBOT, TROT, 1, True), "is a float; use the method for"),
        ("GetPolicyCommandBool", m.GetPolicyCommandBoolRequest(ROBOT, TROT, 1), "is a float"),
        ("GetPolicyCommandFloat", m.GetPolicyCommandFloatRequest(ROBOT, TROT, 9), "has no command 9"),
        ("SetPolicyGains", gains(kp=-1.0), "FL_hip_joint: kp -1.0, expected 0 to 10000 Nm/rad"),
        ("SetPolicyGains", gains(default_pos=math.inf), "default_pos inf"),
        ("GetPolicyBasePose", m.GetPolicyBasePoseRequest(ROBOT, TROT), "slot 1 (Trot) is not active"),
        ("GetPolicyLastAction", m.GetPolicyLastActionRequest(ROBOT, TROT), "slot 1 (Trot) is not active"),
        ("SetMotionGraphInput", graph(6, bool_val=True), "has no input 6; there are 1 (crouch), 5 (bow)"),
        ("SetMotionGraphInput", m.SetMotionGraphInputRequest(ROBOT, CROUCH, None), "takes float_val, not nothing"),
        ("SetMotionGraphInput", graph(CROUCH), "takes float_val, not nothing"),
        ("SetMotionGraphInput", graph(CROUCH, bool_val=True), "takes float_val, not bool_val"),
        ("SetMotionGraphInput", graph(CROUCH, float_val=math.nan), "not finite"),
        ("SetMotionGraphInput", graph(BOW, vec3_val=m.Vec3()), "takes trigger, not vec3_val"),
        ("SetMotionGraphActive", m.SetMotionGraphActiveRequest(NOBODY, True), "no robot controller"),
        ("GetMotionGraphActive", m.GetMotionGraphActiveRequest(NOBODY), "no robot controller"),
        ("GetMotionGraphInput", m.GetMotionGraphInputRequest(ROBOT, 77), "has no input 77"),
        ("FireMotionGraphTrigger", m.FireMotionGraphTriggerRequest(ROBOT, CROUCH), "is no trigger"),
        ("FireMotionGraphTrigger", m.FireMotionGraphTriggerRequest(None, BOW), "entity 0 has no robot controller"),
        ("SetActionGroup", group("agent_2", "all", [0.0] * 12), "no agent 'agent_2'; there are agent_0 to agent_1"),
        ("SetActionGroup", group("agent_0", "tail", [1.0]), "no action group 'tail'; there are: front_left, front"),
        ("SetActionGroup", group("agent_0", "", []), "no action group ''"),
        ("SetActionGroup", group("agent_0", "hips", [1.0, 1.0]), "2 actions for the 4 indices [0, 3, 6, 9]"),
        ("SetActionGroup", group("agent_0", "", [1.0, 1.0], [1]), "2 actions for the 1 indices [1]"),
        ("SetActionGroup", group("agent_0", "", [1.0], [12]), "action_indices [12]: expected different numbers from 0"),
        ("SetActionGroup", group("agent_0", "", [1.0], [-1]), "action_indices [-1]"),
        ("SetActionGroup", group("agent_0", "", [1.0, 1.0], [3, 3]), "action_indices [3, 3]"),
        ("SetActionGroup", group("agent_0", "front_left", [1.0, math.nan, 1.0]), "are not finite"),
    ],
    "BatchService": [
        ("SetSeeds", m.SetSeedsRequest([1, 2, 3]), "3 seeds for 2 envs"),
        ("SetSeeds", m.SetSeedsRequest([1, 2], b"\1"), "mask of 1 bytes for 2 envs"),
        ("SetResetOptions", contract(friction_range=[0.5]), "friction_range [0.5]: expected [low, high]"),
        ("SetResetOptions", contract(friction_range=[0.1, 0.2, 0.3]), "expected [low, high]"),
        ("SetResetOptions", contract(friction_range=[1.5, 0.5]), "friction_range [1.5, 0.5]: low exceeds high"),
        ("SetResetOptions", contract(pose_position_noise=[0.1]), "pose_position_noise [0.1]: expected 3 numbers"),
        ("SetResetOptions", contract(push_velocity_range=[0, 1]), "a push needs both"),
        ("SetResetOptions", contract(push_interval_range=[1, 2]), "a push needs both"),
        ("SetResetOptions", contract(mass_scale_range=[3, 3], terrain_type="moon"), "'moon': this engine has flat"),
        ("SetResetOptions", m.SetResetOptionsRequest(None, "{"), "is no JSON"),
        ("SetResetOptions", m.SetResetOptionsRequest(None, "[1]"), "is no JSON object"),
    ],
    "CameraService": [
        ("SetCameraConfig", asking("camera", width=0), "width 0: expected 1 to 4096"),
        ("SetCameraConfig", asking("camera", height=99999), "height 99999: expected 1 to 4096"),
        ("SetCameraConfig", asking("camera", depth_scale=0.0), "depth_scale 0: expected metres per code"),
        ("SetCameraConfig", asking("camera", depth_scale=math.nan), "depth_scale nan: expected a finite number"),
        ("SetCameraConfig", asking("camera", min_range=-1.0), "min_range -1.0: expected a finite number, 0 or more"),
        (
            "SetCameraConfig",
            asking("camera", min_range=5.0, max_range=2.0),
            "min_range 5, max_range 2: expected the first",
        ),
        ("SetCameraConfig", asking("camera", max_range=100.0), "max_range 100: 65535 codes of 0.001 m reach 65.535 m"),
        ("SetCameraConfig", asking("camera", sensor_model=3), "sensor_model 3: this engine measures clean depth"),
        ("SetCameraConfig", asking("camera", debug_channel=2), "debug_channel 2"),
        ("SetCameraConfig", asking("camera", record_mask=True), "record_mask: no method"),
        ("SetCameraConfig", m.SetCameraConfigRequest(name="frond"), "did you mean 'front'"),
        ("SetCameraConfig", m.SetCameraConfigRequest(name="front"), "no config"),
        ("StreamCamera", m.StreamCameraRequest(name="frond"), "UnknownName: no camera 'frond'; did you mean 'front'"),
        ("StreamCamera", m.StreamCameraRequest(id=m.EntityId(5)), "UnknownName: no camera with id 5"),
        ("StreamCamera", m.StreamCameraRequest(name="agent_7/front"), "agent_7/front"),
        ("StreamCamera", m.StreamCameraRequest(name="front", width=5000), "SpecError: an image of 5000 x "),
    ],
    "DebugService": [
        ("Draw", lines(1, x=math.nan), ""),
        ("Draw", lines(2000 + 1), ""),
    ],
    "LidarService": [
        (
            "SetLidarReturnParams",
            asking("returns", noise_sigma0=-1.0),
            "noise_sigma0 -1: expected a finite number, 0 or more",
        ),
        ("SetLidarReturnParams", asking("returns", retro_gain=math.inf), "retro_gain inf: expected a finite number"),
        ("SetLidarConfig", asking("beams", channels=0), "channels 0 x azimuth_bins 180: expected 1 to 131072 beams"),
        ("SetLidarConfig", asking("beams", channels=1024, azimuth_bins=1024), "expected 1 to 131072 beams"),
        ("SetLidarConfig", asking("beams", vfov_min_deg=20.0, vfov_max_deg=10.0), "vfov 20 to 10: expected rising"),
        ("SetLidarConfig", asking("beams", max_range=0.0), "range 0.1 to 0: expected rising"),
        ("SetLidarConfig", asking("beams", min_range=math.nan), "range nan to 30"),
        ("SetLidarConfig", asking("beams", rotation_hz=0.0), "rotation_hz 0: expected more than 0"),
        ("SetLidarConfig", asking("beams", geom_group_mask=64), "geom_group_mask 64"),
        ("SetLidarConfig", asking("beams", scan_pattern=2), "scan_pattern 2: expected 0 (spinning)"),
        ("SetLidarConfig", asking("beams", sensor=2), "no lidar sensor 2: there are 0 to 1, one per robot"),
        ("SetLidarPreset", m.SetLidarPresetRequest(9), "preset 9: expected 0 to 2"),
        ("SetLidarSecondaryCapture", m.SetLidarSecondaryCaptureRequest(0, 2, 0), "capture 2: nothing in this scene"),
        ("SetLidarSecondaryCapture", m.SetLidarSecondaryCaptureRequest(0, 0, 5), "scope 5"),
        ("GetLidarBeamCount", m.LidarSensorRequest(2), "UnknownName: no lidar sensor 2"),
        ("GetLidarBeamAngles", m.LidarSensorRequest(2), "UnknownName: no lidar sensor 2"),
        ("GetLidarScan", m.GetLidarScanRequest(), "LocalProtocolError: the lidar is off; call SetLidarLive"),
        ("BakeLidarMaterial", m.BakeLidarMaterialRequest(), "Unimplemented: this engine bakes no"),
        ("GetLidarBakeStatus", m.LidarSensorRequest(), "bakes no lidar materials"),
        ("LoadLidarBake", m.LoadLidarBakeRequest("x"), "bakes no lidar materials"),
        ("SaveLidarBake", m.SaveLidarBakeRequest("x"), "bakes no lidar materials"),
    ],
    "MujocoSceneService": [
        ("SetControl", m.SetControlRequest([0.5], named=[m.NamedControlEntry("FL_hip", 1.0)]), "did you mean 'FL_hip"),
        ("SetControl", m.SetControlRequest([0.5], [m.IndexedControlEntry(12, 1.0)]), "actuator_index 12: expected 0"),
        ("SetControl", m.SetControlRequest([0.5, math.nan]), "the control of actuator 'FL_thigh_joint' is nan"),
        ("SetControl", m.SetControlRequest([0.5], named=[m.NamedControlEntry("FR_hip_joint", math.inf)]), "is inf"),
        ("SetQpos", moved(bulk=[0.0] * 18), "bulk of 18 values: expected 19"),
        ("SetQpos", moved((19, 0.0)), "qpos_index 19: expected 0 to 18"),
        ("SetQpos", moved((0, math.nan)), "qpos[0] nan: expected a number from -1e+06"),
        ("SetQpos", moved((8, -2e6)), "qpos[8] -2000000.0: expected"),
        ("SetQpos", moved(bulk=[0.0] * 19), "is no orientation"),
        ("GetFullState", m.GetFullStateRequest(filter=NO_SLOT), "filter_by_slot_id 9: there are slots 1, 2"),
        ("StreamFullState", m.StreamFullStateRequest(0, filter=NO_SLOT), "filter_by_slot_id 9: there are slots 1, 2"),
    ],
    "MujocoService": [
        ("GetJointState", m.GetJointStateRequest("agent_9"), "no robot 'agent_9'; there are 'quadruped' and agent_0"),
        ("GetMujocoInfo", m.GetMujocoInfoRequest("biped"), "no robot 'biped'; there are 'quadruped' and agent_0 to"),
        ("StreamJointState", m.GetJointStateRequest("agent_9"), "no robot 'agent_9'"),
    ],
    "SceneService": [
        ("SetEntityTransform", placed("FL_calf", m.Vec3(), STRAIGHT, UNIT), "cannot be moved"),
        ("SetEntityTransform", placed("front", m.Vec3(), STRAIGHT, UNIT), "cannot be moved"),
        ("SetEntityTransform", placed("agent_0"), "position or rotation"),
        ("SetEntityTransform", placed("agent_0", m.Vec3(), None, UNIT), "position or rotation"),
        ("SetEntityTransform", placed("agent_0", m.Vec3(math.nan, 0, 0), STRAIGHT, UNIT), "expected finite"),
        ("SetEntityTransform", placed("agent_0", m.Vec3(2e6, 0, 0), STRAIGHT, UNIT), "within 1000 m"),
        ("SetEntityTransform", placed("agent_0", m.Vec3(), m.Quat(), UNIT), "unit quaternion"),
        ("SetEntityTransform", placed("agent_0", m.Vec3(), STRAIGHT, m.Vec3(2.0, 1.0, 1.0)), "scale 2 1 1"),
        ("SetEntityTransform", m.SetEntityTransformRequest(m.EntityId(77), m.Transform(m.Vec3())), "no entity 77"),
        ("SetEntityTransform", m.SetEntityTransformRequest(None, m.Transform(m.Vec3())), "no id"),
        ("SetSimulationMode", m.SetSimulationModeRequest(m.SimulationMode.REALTIME), "while a client is connected"),
        ("SetSimulationMode", m.SetSimulationModeRequest(SEVEN), "expected 1 (deterministic) or 2"),
    ],
    "ViewportService": [
        ("StreamViewport", m.StartViewportStreamRequest(viewport_name="Mian"), "UnknownName: no viewport 'Mian'; did"),
        ("StreamViewport", m.StartViewportStreamRequest(width=100_000), "at most 4096"),
    ],
}

ROWS = [(f"{service}/{name}", request, words) for service, rows in REFUSALS.items() for name, request, words in rows]

#: What can be asked of the engine, whose answers show whether something changed.
QUESTIONS = [
    ("MujocoSceneService/GetFullState", m.GetFullStateRequest(True, True, True)),
    ("MujocoSceneService/GetActuatorGains", m.GetActuatorGainsRequest()),
    ("AgentService/ListRobotControllers", m.ListRobotControllersRequest()),
    *(("AgentService/GetMotionGraphInput", m.GetMotionGraphInputRequest(ROBOT, number)) for number in (CROUCH, BOW)),
    ("CameraService/GetCameraConfig", m.GetCameraConfigRequest(name="front")),
    ("LidarService/GetLidarConfig", m.LidarSensorRequest(0)),
    ("LidarService/GetLidarReturnParams", m.GetLidarReturnParamsRequest()),
    ("SceneService/GetSimulationMode", m.GetSimulationModeRequest()),
]


def refusal_of(batch: Any, name: str, request: Any) -> str:
    """Make a call that must be refused, and return the words."""
    try:
        answer = batch.call(name, request) if method(name).stream is None else next(batch.stream(name, request))
    except TransportError as error:
        return f"{type(error).__name__}: {error}"
    assert not getattr(answer, "success", getattr(answer, "ok", None))
    return getattr(answer, "message", "")


@pytest.mark.parametrize(("name", "request_", "words"), ROWS, ids=[f"{name}: {words}" for name, _, words in ROWS])
def test_what_is_refused_is_told_with_what_would_do_and_changes_nothing(
    robots: Callable[..., Any], name: str, request_: Any, words: str
) -> None:
    batch, untouched = robots(2, renderer="rays", threads=1), robots(2, threads=1)
    for each in (batch, untouched):
        each.randomize(mass_scale_range=[2, 2])
        each.reset()
    before = [batch.call(*question) for question in QUESTIONS]
    assert words in refusal_of(batch, name, request_(batch) if callable(request_) else request_)
    assert [batch.call(*question) for question in QUESTIONS] == before
    for use in ("step", "reset", "step"):
        frames = [getattr(each, use)().observations.tobytes() for each in (batch, untouched)]
        assert frames[0] == frames[1], use


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("SceneService/GetEntity", m.GetEntityRequest()),
        ("SceneService/GetEntity", m.GetEntityRequest(name="dog")),
        ("SceneService/GetEntity", m.GetEntityRequest(m.EntityId(777))),
        *(
            ("AgentService/GetRobotController", m.GetRobotControllerRequest(entity))
            for entity in (None, m.EntityId(0), NOBODY, m.EntityId(ROBOT.id + 2), m.EntityId(2**64 - 1))
        ),
        ("CameraService/GetCameraConfig", m.GetCameraConfigRequest(name="frond")),
        ("LidarService/GetLidarConfig", m.LidarSensorRequest(2)),
    ],
)
def test_what_is_not_there_is_not_found(robots: Callable[..., Any], name: str, request_: Any) -> None:
    answer = robots(2).call(name, request_)
    assert not answer.found
    assert not any(getattr(answer, part, None) for part in ("entity", "controller", "config"))
