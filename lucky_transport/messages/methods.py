"""THE table of methods: one row per method that can be called, on every transport.

Rule 1: an id is stable for ever; new methods get new ids, ids of removed ones are never used again.
Rule 2: `effect` says what calling twice does (the migration kit relies on it), `runs` where the handler runs, the last
        column of a stream what becomes of items its reader is too slow for: see `lucky_transport.messages.method`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from lucky_transport.errors import UnknownName
from lucky_transport.messages import (
    agent,
    batch,
    camera,
    controllers,
    debug,
    lidar,
    media,
    motion_graph,
    mujoco,
    mujoco_scene,
    policies,
    policy_commands,
    scene,
    session,
    state,
    stepping,
    task,
    telemetry,
    viewport,
)
from lucky_transport.messages.method import Effect, Flow, Method, Runs

__all__ = ["BY_ID", "BY_NAME", "METHODS", "Effect", "Flow", "Method", "Runs", "method"]

READ, VIEW, WORLD = Effect.READ, Effect.VIEW, Effect.WORLD
INLINE, ENGINE, POOL = Runs.INLINE, Runs.ENGINE, Runs.POOL
LATEST, EVERY = Flow.LATEST, Flow.EVERY

#: id, name, request, response, effect, runs, and for a stream its flow.
_Row = tuple[int, str, type, type, Effect, Runs] | tuple[int, str, type, type, Effect, Runs, Flow]


def _service(name: str, *rows: _Row) -> Iterator[Method]:
    """Yield a service's methods, one a row."""
    for row in rows:
        flow = row[6] if len(row) == 7 else None
        yield Method(row[0], f"/{name}/{row[1]}", row[2], row[3], row[4], row[5], flow)


# One row a method, on two lines where one does not hold it.
# fmt: off
METHODS: tuple[Method, ...] = (
    *_service(
        "hazel.rpc.AgentService",
        (1, "GetAgentSchema", agent.GetAgentSchemaRequest, agent.GetAgentSchemaResponse, READ, INLINE),
        (2, "ResetAgent", agent.ResetAgentRequest, agent.ResetAgentResponse, WORLD, ENGINE),
        (3, "Step", stepping.StepRequest, stepping.StepResponse, WORLD, ENGINE),
        (4, "SetActionGroup", agent.SetActionGroupRequest, agent.SetActionGroupResponse, WORLD, ENGINE),
        (5, "ReportProgress", stepping.ProgressReport, stepping.ProgressAck, WORLD, ENGINE),
        (6, "GetCapabilityManifest", task.GetCapabilityManifestRequest,
            task.GetCapabilityManifestResponse, READ, INLINE),
        (7, "ValidateTaskContract", task.ValidateTaskContractRequest, task.ValidateTaskContractResponse, READ, INLINE),
        (8, "NegotiateTask", task.NegotiateTaskRequest, task.NegotiateTaskResponse, WORLD, ENGINE),
        (9, "ListRobotControllers", controllers.ListRobotControllersRequest,
            controllers.ListRobotControllersResponse, READ, ENGINE),
        (10, "GetRobotController", controllers.GetRobotControllerRequest,
            controllers.GetRobotControllerResponse, READ, ENGINE),
        (11, "ListPolicyDescriptors", policies.ListPolicyDescriptorsRequest,
            policies.ListPolicyDescriptorsResponse, READ, INLINE),
        (12, "SetPolicyActive", policies.SetPolicyActiveRequest, policies.PolicyOperationAck, WORLD, ENGINE),
        (13, "SetPolicyDescriptor", policies.SetPolicyDescriptorRequest, policies.PolicyOperationAck, WORLD, ENGINE),
        (14, "SetPolicyDrivenJoints", policies.SetPolicyDrivenJointsRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (15, "SetPolicyClampObservation", policies.SetPolicyClampObservationRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (16, "SetPolicyPriority", policies.SetPolicyPriorityRequest, policies.PolicyOperationAck, WORLD, ENGINE),
        (17, "SetPolicyCommandFloat", policy_commands.SetPolicyCommandFloatRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (18, "SetPolicyCommandBool", policy_commands.SetPolicyCommandBoolRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (19, "SetPolicyGains", policies.SetPolicyGainsRequest, policies.PolicyOperationAck, WORLD, ENGINE),
        (20, "ClearPolicyGains", policies.ClearPolicyGainsRequest, policies.PolicyOperationAck, WORLD, ENGINE),
        (21, "GetPolicyCommandFloat", policy_commands.GetPolicyCommandFloatRequest,
            policy_commands.PolicyCommandFloatValue, READ, INLINE),
        (22, "GetPolicyCommandBool", policy_commands.GetPolicyCommandBoolRequest,
            policy_commands.PolicyCommandBoolValue, READ, INLINE),
        (23, "SetMotionGraphActive", motion_graph.SetMotionGraphActiveRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (24, "GetMotionGraphActive", motion_graph.GetMotionGraphActiveRequest,
            motion_graph.GetMotionGraphActiveResponse, READ, INLINE),
        (25, "SetMotionGraphInput", motion_graph.SetMotionGraphInputRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (26, "GetMotionGraphInput", motion_graph.GetMotionGraphInputRequest,
            motion_graph.GetMotionGraphInputResponse, READ, INLINE),
        (27, "FireMotionGraphTrigger", motion_graph.FireMotionGraphTriggerRequest,
            policies.PolicyOperationAck, WORLD, ENGINE),
        (28, "GetPolicyBasePose", policies.GetPolicyBasePoseRequest, policies.PolicyBasePose, READ, ENGINE),
        (29, "GetPolicyLastAction", policies.GetPolicyLastActionRequest, policies.PolicyLastAction, READ, ENGINE),
        (30, "StreamPolicySlotState", controllers.StreamPolicySlotStateRequest,
            controllers.PolicySlotSummary, READ, POOL, EVERY),
        (31, "StreamRobotController", controllers.StreamRobotControllerRequest,
            controllers.RobotControllerSummary, READ, POOL, EVERY),
    ),
    *_service(
        "hazel.rpc.MujocoService",
        (40, "GetJointState", mujoco.GetJointStateRequest, mujoco.GetJointStateResponse, READ, ENGINE),
        (41, "GetMujocoInfo", mujoco.GetMujocoInfoRequest, mujoco.GetMujocoInfoResponse, READ, INLINE),
        (42, "StreamJointState", mujoco.GetJointStateRequest, mujoco.GetJointStateResponse, READ, POOL, LATEST),
    ),
    *_service(
        "hazel.rpc.MujocoSceneService",
        (50, "GetModelInfo", mujoco_scene.GetModelInfoRequest, mujoco_scene.GetModelInfoResponse, READ, ENGINE),
        (51, "GetFullState", mujoco_scene.GetFullStateRequest, mujoco_scene.GetFullStateResponse, READ, ENGINE),
        (52, "StreamFullState", mujoco_scene.StreamFullStateRequest,
            mujoco_scene.GetFullStateResponse, READ, POOL, LATEST),
        (53, "SetControl", mujoco_scene.SetControlRequest, mujoco_scene.SetControlResponse, WORLD, ENGINE),
        (54, "SetQpos", mujoco_scene.SetQposRequest, mujoco_scene.SetQposResponse, WORLD, ENGINE),
        (55, "GetActuatorGains", mujoco_scene.GetActuatorGainsRequest,
            mujoco_scene.GetActuatorGainsResponse, READ, ENGINE),
        (56, "ResetScene", mujoco_scene.ResetSceneRequest, mujoco_scene.ResetSceneResponse, WORLD, ENGINE),
    ),
    *_service(
        "hazel.rpc.SceneService",
        (60, "GetSceneInfo", scene.GetSceneInfoRequest, scene.GetSceneInfoResponse, READ, INLINE),
        (61, "ListEntities", scene.ListEntitiesRequest, scene.ListEntitiesResponse, READ, ENGINE),
        (62, "GetEntity", scene.GetEntityRequest, scene.GetEntityResponse, READ, ENGINE),
        (63, "SetEntityTransform", scene.SetEntityTransformRequest, scene.SetEntityTransformResponse, WORLD, ENGINE),
        (64, "SetSimulationMode", scene.SetSimulationModeRequest, scene.SetSimulationModeResponse, WORLD, ENGINE),
        (65, "GetSimulationMode", scene.GetSimulationModeRequest, scene.GetSimulationModeResponse, READ, INLINE),
        (66, "EnterPlayMode", scene.EnterPlayModeRequest, scene.EnterPlayModeResponse, WORLD, ENGINE),
        (67, "ExitPlayMode", scene.ExitPlayModeRequest, scene.ExitPlayModeResponse, WORLD, ENGINE),
    ),
    *_service(
        "hazel.rpc.CameraService",
        (80, "ListCameras", camera.ListCamerasRequest, camera.ListCamerasResponse, READ, INLINE),
        (81, "StreamCamera", camera.StreamCameraRequest, media.ImageFrame, READ, POOL, LATEST),
        (82, "GetCameraConfig", camera.GetCameraConfigRequest, camera.CameraConfigResponse, READ, INLINE),
        (83, "SetCameraConfig", camera.SetCameraConfigRequest, camera.CameraConfigAck, VIEW, ENGINE),
    ),
    *_service(
        "hazel.rpc.TelemetryService",
        (90, "GetTelemetrySchema", telemetry.GetTelemetrySchemaRequest,
            telemetry.GetTelemetrySchemaResponse, READ, INLINE),
        (91, "StreamTelemetry", telemetry.StreamTelemetryRequest, telemetry.TelemetryFrame, READ, POOL, LATEST),
    ),
    *_service(
        "hazel.rpc.ViewportService",
        (100, "GetViewportInfo", viewport.GetViewportInfoRequest, viewport.GetViewportInfoResponse, READ, INLINE),
        (101, "StreamViewport", viewport.StartViewportStreamRequest, media.ImageFrame, READ, POOL, LATEST),
    ),
    *_service(
        "hazel.rpc.DebugService",
        (110, "Draw", debug.DebugDrawRequest, debug.DebugDrawResponse, VIEW, INLINE),
    ),
    *_service(
        "hazel.rpc.LidarService",
        (120, "SetLidarLive", lidar.SetLidarLiveRequest, lidar.LidarAck, VIEW, ENGINE),
        (121, "SetLidarConfig", lidar.SetLidarConfigRequest, lidar.LidarAck, VIEW, ENGINE),
        (122, "GetLidarConfig", lidar.LidarSensorRequest, lidar.LidarConfigResponse, READ, INLINE),
        (123, "SetLidarReturnParams", lidar.SetLidarReturnParamsRequest, lidar.LidarAck, VIEW, ENGINE),
        (124, "GetLidarReturnParams", lidar.GetLidarReturnParamsRequest, lidar.LidarReturnParamsResponse, READ, INLINE),
        (125, "SetLidarPreset", lidar.SetLidarPresetRequest, lidar.LidarAck, VIEW, ENGINE),
        (126, "SetLidarSecondaryCapture", lidar.SetLidarSecondaryCaptureRequest, lidar.LidarAck, VIEW, ENGINE),
        (127, "BakeLidarMaterial", lidar.BakeLidarMaterialRequest, lidar.LidarAck, VIEW, POOL),
        (128, "GetLidarBakeStatus", lidar.LidarSensorRequest, lidar.LidarBakeStatusResponse, READ, INLINE),
        (129, "LoadLidarBake", lidar.LoadLidarBakeRequest, lidar.LidarAck, VIEW, POOL),
        (130, "SaveLidarBake", lidar.SaveLidarBakeRequest, lidar.LidarAck, VIEW, POOL),
        (131, "GetLidarScan", lidar.GetLidarScanRequest, lidar.LidarScanResponse, READ, ENGINE),
        (132, "GetLidarBeamCount", lidar.LidarSensorRequest, lidar.LidarBeamCountResponse, READ, INLINE),
        (133, "GetLidarBeamAngles", lidar.LidarSensorRequest, lidar.LidarBeamAnglesResponse, READ, POOL),
    ),
    *_service(
        "lucky_transport.v1.BatchService",
        (200, "SetSeeds", batch.SetSeedsRequest, batch.SetSeedsResponse, WORLD, ENGINE),
        (201, "SetResetOptions", batch.SetResetOptionsRequest, batch.SetResetOptionsResponse, WORLD, ENGINE),
    ),
    *_service(
        "lucky_transport.v1.StateService",
        (210, "GetState", state.GetStateRequest, state.GetStateResponse, READ, ENGINE),
        (211, "SetState", state.SetStateRequest, state.SetStateResponse, WORLD, ENGINE),
    ),
    # Sessions have worlds of their own: what changes those need not wait for the batch's step, nor hold it up.
    *_service(
        "lucky_transport.v1.SessionService",
        (220, "GetWorlds", session.GetWorldsRequest, session.GetWorldsResponse, READ, INLINE),
        (221, "CreateSession", session.CreateSessionRequest, session.CreateSessionResponse, WORLD, POOL),
        (222, "GetSession", session.SessionRequest, session.SessionStatus, READ, INLINE),
        (223, "ListSessions", session.ListSessionsRequest, session.ListSessionsResponse, READ, INLINE),
        (224, "AdvanceSession", session.AdvanceSessionRequest, session.AdvanceSessionResponse, WORLD, POOL),
        (225, "ActInSession", session.ActInSessionRequest, session.ActInSessionResponse, WORLD, INLINE),
        (226, "RunSession", session.RunSessionRequest, session.RunSessionResponse, WORLD, INLINE),
        (227, "GetLatest", session.GetLatestRequest, session.SessionLook, READ, POOL),
        (228, "RestartSession", session.RestartSessionRequest, session.SessionLook, WORLD, POOL),
        (229, "DestroySession", session.SessionRequest, session.DestroySessionResponse, WORLD, POOL),
        (230, "GetRecording", session.SessionRequest, session.SessionRecording, READ, POOL),
        (231, "ShareSession", session.SessionRequest, session.ShareSessionResponse, VIEW, POOL),
    ),
)
# fmt: on

BY_NAME: dict[str, Method] = {row.name: row for row in METHODS}
BY_ID: dict[int, Method] = {row.id: row for row in METHODS}
assert len(BY_NAME) == len(BY_ID) == len(METHODS)


def method(name: str) -> Method:
    """Return the method of that full name, "/package.Service/Method" or "Service/Method".

    Raises UnknownName, with the nearest names.
    """
    found = BY_NAME.get(name)
    if found is None:
        found = next((row for row in METHODS if row.name.rpartition(".")[2] == name), None)
    if found is None:
        raise UnknownName(f"no method {name!r}", hint=_nearest(name))
    return found


def _nearest(name: str) -> str:
    """Return a hint: methods of nearly that name, or of that name in another service; else the services."""
    wanted = name.rpartition("/")[2]
    alike = {row.name for row in METHODS if row.short_name.lower() == wanted.lower()}
    near = alike or set(get_close_matches(name, BY_NAME, n=2, cutoff=0.8))
    if not near:
        shorts = get_close_matches(wanted, {row.short_name for row in METHODS}, n=2, cutoff=0.75)
        near = {row.name for row in METHODS if row.short_name in shorts}
    if near:
        return f"did you mean {' or '.join(sorted(near))}?"
    return f"the services are {', '.join(dict.fromkeys(row.service for row in METHODS))}"
