// The methods that an engine may answer, by their services.
//
// Generated from proto/ by schema/generate.py; do not edit.

using System.Collections.Generic;

namespace LuckyTransport
{
    /// <summary>The methods that an engine may answer, by their services.</summary>
    public static class Methods
    {
        internal static readonly Dictionary<uint, string> Names = new Dictionary<uint, string>
        {
            { 1, "/hazel.rpc.AgentService/GetAgentSchema" },
            { 2, "/hazel.rpc.AgentService/ResetAgent" },
            { 3, "/hazel.rpc.AgentService/Step" },
            { 4, "/hazel.rpc.AgentService/SetActionGroup" },
            { 5, "/hazel.rpc.AgentService/ReportProgress" },
            { 6, "/hazel.rpc.AgentService/GetCapabilityManifest" },
            { 7, "/hazel.rpc.AgentService/ValidateTaskContract" },
            { 8, "/hazel.rpc.AgentService/NegotiateTask" },
            { 9, "/hazel.rpc.AgentService/ListRobotControllers" },
            { 10, "/hazel.rpc.AgentService/GetRobotController" },
            { 11, "/hazel.rpc.AgentService/ListPolicyDescriptors" },
            { 12, "/hazel.rpc.AgentService/SetPolicyActive" },
            { 13, "/hazel.rpc.AgentService/SetPolicyDescriptor" },
            { 14, "/hazel.rpc.AgentService/SetPolicyDrivenJoints" },
            { 15, "/hazel.rpc.AgentService/SetPolicyClampObservation" },
            { 16, "/hazel.rpc.AgentService/SetPolicyPriority" },
            { 17, "/hazel.rpc.AgentService/SetPolicyCommandFloat" },
            { 18, "/hazel.rpc.AgentService/SetPolicyCommandBool" },
            { 19, "/hazel.rpc.AgentService/SetPolicyGains" },
            { 20, "/hazel.rpc.AgentService/ClearPolicyGains" },
            { 21, "/hazel.rpc.AgentService/GetPolicyCommandFloat" },
            { 22, "/hazel.rpc.AgentService/GetPolicyCommandBool" },
            { 23, "/hazel.rpc.AgentService/SetMotionGraphActive" },
            { 24, "/hazel.rpc.AgentService/GetMotionGraphActive" },
            { 25, "/hazel.rpc.AgentService/SetMotionGraphInput" },
            { 26, "/hazel.rpc.AgentService/GetMotionGraphInput" },
            { 27, "/hazel.rpc.AgentService/FireMotionGraphTrigger" },
            { 28, "/hazel.rpc.AgentService/GetPolicyBasePose" },
            { 29, "/hazel.rpc.AgentService/GetPolicyLastAction" },
            { 30, "/hazel.rpc.AgentService/StreamPolicySlotState" },
            { 31, "/hazel.rpc.AgentService/StreamRobotController" },
            { 40, "/hazel.rpc.MujocoService/GetJointState" },
            { 41, "/hazel.rpc.MujocoService/GetMujocoInfo" },
            { 42, "/hazel.rpc.MujocoService/StreamJointState" },
            { 50, "/hazel.rpc.MujocoSceneService/GetModelInfo" },
            { 51, "/hazel.rpc.MujocoSceneService/GetFullState" },
            { 52, "/hazel.rpc.MujocoSceneService/StreamFullState" },
            { 53, "/hazel.rpc.MujocoSceneService/SetControl" },
            { 54, "/hazel.rpc.MujocoSceneService/SetQpos" },
            { 55, "/hazel.rpc.MujocoSceneService/GetActuatorGains" },
            { 56, "/hazel.rpc.MujocoSceneService/ResetScene" },
            { 60, "/hazel.rpc.SceneService/GetSceneInfo" },
            { 61, "/hazel.rpc.SceneService/ListEntities" },
            { 62, "/hazel.rpc.SceneService/GetEntity" },
            { 63, "/hazel.rpc.SceneService/SetEntityTransform" },
            { 64, "/hazel.rpc.SceneService/SetSimulationMode" },
            { 65, "/hazel.rpc.SceneService/GetSimulationMode" },
            { 66, "/hazel.rpc.SceneService/EnterPlayMode" },
            { 67, "/hazel.rpc.SceneService/ExitPlayMode" },
            { 80, "/hazel.rpc.CameraService/ListCameras" },
            { 81, "/hazel.rpc.CameraService/StreamCamera" },
            { 82, "/hazel.rpc.CameraService/GetCameraConfig" },
            { 83, "/hazel.rpc.CameraService/SetCameraConfig" },
            { 90, "/hazel.rpc.TelemetryService/GetTelemetrySchema" },
            { 91, "/hazel.rpc.TelemetryService/StreamTelemetry" },
            { 100, "/hazel.rpc.ViewportService/GetViewportInfo" },
            { 101, "/hazel.rpc.ViewportService/StreamViewport" },
            { 110, "/hazel.rpc.DebugService/Draw" },
            { 120, "/hazel.rpc.LidarService/SetLidarLive" },
            { 121, "/hazel.rpc.LidarService/SetLidarConfig" },
            { 122, "/hazel.rpc.LidarService/GetLidarConfig" },
            { 123, "/hazel.rpc.LidarService/SetLidarReturnParams" },
            { 124, "/hazel.rpc.LidarService/GetLidarReturnParams" },
            { 125, "/hazel.rpc.LidarService/SetLidarPreset" },
            { 126, "/hazel.rpc.LidarService/SetLidarSecondaryCapture" },
            { 127, "/hazel.rpc.LidarService/BakeLidarMaterial" },
            { 128, "/hazel.rpc.LidarService/GetLidarBakeStatus" },
            { 129, "/hazel.rpc.LidarService/LoadLidarBake" },
            { 130, "/hazel.rpc.LidarService/SaveLidarBake" },
            { 131, "/hazel.rpc.LidarService/GetLidarScan" },
            { 132, "/hazel.rpc.LidarService/GetLidarBeamCount" },
            { 133, "/hazel.rpc.LidarService/GetLidarBeamAngles" },
            { 200, "/lucky_transport.v1.BatchService/SetSeeds" },
            { 201, "/lucky_transport.v1.BatchService/SetResetOptions" },
            { 210, "/lucky_transport.v1.StateService/GetState" },
            { 211, "/lucky_transport.v1.StateService/SetState" },
            { 220, "/lucky_transport.v1.SessionService/GetWorlds" },
            { 221, "/lucky_transport.v1.SessionService/CreateSession" },
            { 222, "/lucky_transport.v1.SessionService/GetSession" },
            { 223, "/lucky_transport.v1.SessionService/ListSessions" },
            { 224, "/lucky_transport.v1.SessionService/AdvanceSession" },
            { 225, "/lucky_transport.v1.SessionService/ActInSession" },
            { 226, "/lucky_transport.v1.SessionService/RunSession" },
            { 227, "/lucky_transport.v1.SessionService/GetLatest" },
            { 228, "/lucky_transport.v1.SessionService/RestartSession" },
            { 229, "/lucky_transport.v1.SessionService/DestroySession" },
            { 230, "/lucky_transport.v1.SessionService/GetRecording" },
        };

        public static class AgentService
        {
            public static readonly UnaryMethod<GetAgentSchemaRequest, GetAgentSchemaResponse> GetAgentSchema =
                new UnaryMethod<GetAgentSchemaRequest, GetAgentSchemaResponse>(1, Runs.Inline);
            public static readonly UnaryMethod<ResetAgentRequest, ResetAgentResponse> ResetAgent =
                new UnaryMethod<ResetAgentRequest, ResetAgentResponse>(2, Runs.Engine);
            public static readonly UnaryMethod<StepRequest, StepResponse> Step =
                new UnaryMethod<StepRequest, StepResponse>(3, Runs.Engine);
            public static readonly UnaryMethod<SetActionGroupRequest, SetActionGroupResponse> SetActionGroup =
                new UnaryMethod<SetActionGroupRequest, SetActionGroupResponse>(4, Runs.Engine);
            public static readonly UnaryMethod<ProgressReport, ProgressAck> ReportProgress =
                new UnaryMethod<ProgressReport, ProgressAck>(5, Runs.Engine);
            public static readonly UnaryMethod<GetCapabilityManifestRequest, GetCapabilityManifestResponse> GetCapabilityManifest =
                new UnaryMethod<GetCapabilityManifestRequest, GetCapabilityManifestResponse>(6, Runs.Inline);
            public static readonly UnaryMethod<ValidateTaskContractRequest, ValidateTaskContractResponse> ValidateTaskContract =
                new UnaryMethod<ValidateTaskContractRequest, ValidateTaskContractResponse>(7, Runs.Inline);
            public static readonly UnaryMethod<NegotiateTaskRequest, NegotiateTaskResponse> NegotiateTask =
                new UnaryMethod<NegotiateTaskRequest, NegotiateTaskResponse>(8, Runs.Engine);
            public static readonly UnaryMethod<ListRobotControllersRequest, ListRobotControllersResponse> ListRobotControllers =
                new UnaryMethod<ListRobotControllersRequest, ListRobotControllersResponse>(9, Runs.Engine);
            public static readonly UnaryMethod<GetRobotControllerRequest, GetRobotControllerResponse> GetRobotController =
                new UnaryMethod<GetRobotControllerRequest, GetRobotControllerResponse>(10, Runs.Engine);
            public static readonly UnaryMethod<ListPolicyDescriptorsRequest, ListPolicyDescriptorsResponse> ListPolicyDescriptors =
                new UnaryMethod<ListPolicyDescriptorsRequest, ListPolicyDescriptorsResponse>(11, Runs.Inline);
            public static readonly UnaryMethod<SetPolicyActiveRequest, PolicyOperationAck> SetPolicyActive =
                new UnaryMethod<SetPolicyActiveRequest, PolicyOperationAck>(12, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyDescriptorRequest, PolicyOperationAck> SetPolicyDescriptor =
                new UnaryMethod<SetPolicyDescriptorRequest, PolicyOperationAck>(13, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyDrivenJointsRequest, PolicyOperationAck> SetPolicyDrivenJoints =
                new UnaryMethod<SetPolicyDrivenJointsRequest, PolicyOperationAck>(14, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyClampObservationRequest, PolicyOperationAck> SetPolicyClampObservation =
                new UnaryMethod<SetPolicyClampObservationRequest, PolicyOperationAck>(15, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyPriorityRequest, PolicyOperationAck> SetPolicyPriority =
                new UnaryMethod<SetPolicyPriorityRequest, PolicyOperationAck>(16, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyCommandFloatRequest, PolicyOperationAck> SetPolicyCommandFloat =
                new UnaryMethod<SetPolicyCommandFloatRequest, PolicyOperationAck>(17, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyCommandBoolRequest, PolicyOperationAck> SetPolicyCommandBool =
                new UnaryMethod<SetPolicyCommandBoolRequest, PolicyOperationAck>(18, Runs.Engine);
            public static readonly UnaryMethod<SetPolicyGainsRequest, PolicyOperationAck> SetPolicyGains =
                new UnaryMethod<SetPolicyGainsRequest, PolicyOperationAck>(19, Runs.Engine);
            public static readonly UnaryMethod<ClearPolicyGainsRequest, PolicyOperationAck> ClearPolicyGains =
                new UnaryMethod<ClearPolicyGainsRequest, PolicyOperationAck>(20, Runs.Engine);
            public static readonly UnaryMethod<GetPolicyCommandFloatRequest, PolicyCommandFloatValue> GetPolicyCommandFloat =
                new UnaryMethod<GetPolicyCommandFloatRequest, PolicyCommandFloatValue>(21, Runs.Inline);
            public static readonly UnaryMethod<GetPolicyCommandBoolRequest, PolicyCommandBoolValue> GetPolicyCommandBool =
                new UnaryMethod<GetPolicyCommandBoolRequest, PolicyCommandBoolValue>(22, Runs.Inline);
            public static readonly UnaryMethod<SetMotionGraphActiveRequest, PolicyOperationAck> SetMotionGraphActive =
                new UnaryMethod<SetMotionGraphActiveRequest, PolicyOperationAck>(23, Runs.Engine);
            public static readonly UnaryMethod<GetMotionGraphActiveRequest, GetMotionGraphActiveResponse> GetMotionGraphActive =
                new UnaryMethod<GetMotionGraphActiveRequest, GetMotionGraphActiveResponse>(24, Runs.Inline);
            public static readonly UnaryMethod<SetMotionGraphInputRequest, PolicyOperationAck> SetMotionGraphInput =
                new UnaryMethod<SetMotionGraphInputRequest, PolicyOperationAck>(25, Runs.Engine);
            public static readonly UnaryMethod<GetMotionGraphInputRequest, GetMotionGraphInputResponse> GetMotionGraphInput =
                new UnaryMethod<GetMotionGraphInputRequest, GetMotionGraphInputResponse>(26, Runs.Inline);
            public static readonly UnaryMethod<FireMotionGraphTriggerRequest, PolicyOperationAck> FireMotionGraphTrigger =
                new UnaryMethod<FireMotionGraphTriggerRequest, PolicyOperationAck>(27, Runs.Engine);
            public static readonly UnaryMethod<GetPolicyBasePoseRequest, PolicyBasePose> GetPolicyBasePose =
                new UnaryMethod<GetPolicyBasePoseRequest, PolicyBasePose>(28, Runs.Engine);
            public static readonly UnaryMethod<GetPolicyLastActionRequest, PolicyLastAction> GetPolicyLastAction =
                new UnaryMethod<GetPolicyLastActionRequest, PolicyLastAction>(29, Runs.Engine);
            public static readonly StreamMethod<StreamPolicySlotStateRequest, PolicySlotSummary> StreamPolicySlotState =
                new StreamMethod<StreamPolicySlotStateRequest, PolicySlotSummary>(30, Runs.Pool);
            public static readonly StreamMethod<StreamRobotControllerRequest, RobotControllerSummary> StreamRobotController =
                new StreamMethod<StreamRobotControllerRequest, RobotControllerSummary>(31, Runs.Pool);
        }

        public static class MujocoService
        {
            public static readonly UnaryMethod<GetJointStateRequest, GetJointStateResponse> GetJointState =
                new UnaryMethod<GetJointStateRequest, GetJointStateResponse>(40, Runs.Engine);
            public static readonly UnaryMethod<GetMujocoInfoRequest, GetMujocoInfoResponse> GetMujocoInfo =
                new UnaryMethod<GetMujocoInfoRequest, GetMujocoInfoResponse>(41, Runs.Inline);
            public static readonly StreamMethod<GetJointStateRequest, GetJointStateResponse> StreamJointState =
                new StreamMethod<GetJointStateRequest, GetJointStateResponse>(42, Runs.Pool);
        }

        public static class MujocoSceneService
        {
            public static readonly UnaryMethod<GetModelInfoRequest, GetModelInfoResponse> GetModelInfo =
                new UnaryMethod<GetModelInfoRequest, GetModelInfoResponse>(50, Runs.Engine);
            public static readonly UnaryMethod<GetFullStateRequest, GetFullStateResponse> GetFullState =
                new UnaryMethod<GetFullStateRequest, GetFullStateResponse>(51, Runs.Engine);
            public static readonly StreamMethod<StreamFullStateRequest, GetFullStateResponse> StreamFullState =
                new StreamMethod<StreamFullStateRequest, GetFullStateResponse>(52, Runs.Pool);
            public static readonly UnaryMethod<SetControlRequest, SetControlResponse> SetControl =
                new UnaryMethod<SetControlRequest, SetControlResponse>(53, Runs.Engine);
            public static readonly UnaryMethod<SetQposRequest, SetQposResponse> SetQpos =
                new UnaryMethod<SetQposRequest, SetQposResponse>(54, Runs.Engine);
            public static readonly UnaryMethod<GetActuatorGainsRequest, GetActuatorGainsResponse> GetActuatorGains =
                new UnaryMethod<GetActuatorGainsRequest, GetActuatorGainsResponse>(55, Runs.Engine);
            public static readonly UnaryMethod<ResetSceneRequest, ResetSceneResponse> ResetScene =
                new UnaryMethod<ResetSceneRequest, ResetSceneResponse>(56, Runs.Engine);
        }

        public static class SceneService
        {
            public static readonly UnaryMethod<GetSceneInfoRequest, GetSceneInfoResponse> GetSceneInfo =
                new UnaryMethod<GetSceneInfoRequest, GetSceneInfoResponse>(60, Runs.Inline);
            public static readonly UnaryMethod<ListEntitiesRequest, ListEntitiesResponse> ListEntities =
                new UnaryMethod<ListEntitiesRequest, ListEntitiesResponse>(61, Runs.Engine);
            public static readonly UnaryMethod<GetEntityRequest, GetEntityResponse> GetEntity =
                new UnaryMethod<GetEntityRequest, GetEntityResponse>(62, Runs.Engine);
            public static readonly UnaryMethod<SetEntityTransformRequest, SetEntityTransformResponse> SetEntityTransform =
                new UnaryMethod<SetEntityTransformRequest, SetEntityTransformResponse>(63, Runs.Engine);
            public static readonly UnaryMethod<SetSimulationModeRequest, SetSimulationModeResponse> SetSimulationMode =
                new UnaryMethod<SetSimulationModeRequest, SetSimulationModeResponse>(64, Runs.Engine);
            public static readonly UnaryMethod<GetSimulationModeRequest, GetSimulationModeResponse> GetSimulationMode =
                new UnaryMethod<GetSimulationModeRequest, GetSimulationModeResponse>(65, Runs.Inline);
            public static readonly UnaryMethod<EnterPlayModeRequest, EnterPlayModeResponse> EnterPlayMode =
                new UnaryMethod<EnterPlayModeRequest, EnterPlayModeResponse>(66, Runs.Engine);
            public static readonly UnaryMethod<ExitPlayModeRequest, ExitPlayModeResponse> ExitPlayMode =
                new UnaryMethod<ExitPlayModeRequest, ExitPlayModeResponse>(67, Runs.Engine);
        }

        public static class CameraService
        {
            public static readonly UnaryMethod<ListCamerasRequest, ListCamerasResponse> ListCameras =
                new UnaryMethod<ListCamerasRequest, ListCamerasResponse>(80, Runs.Inline);
            public static readonly StreamMethod<StreamCameraRequest, ImageFrame> StreamCamera =
                new StreamMethod<StreamCameraRequest, ImageFrame>(81, Runs.Pool);
            public static readonly UnaryMethod<GetCameraConfigRequest, CameraConfigResponse> GetCameraConfig =
                new UnaryMethod<GetCameraConfigRequest, CameraConfigResponse>(82, Runs.Inline);
            public static readonly UnaryMethod<SetCameraConfigRequest, CameraConfigAck> SetCameraConfig =
                new UnaryMethod<SetCameraConfigRequest, CameraConfigAck>(83, Runs.Engine);
        }

        public static class TelemetryService
        {
            public static readonly UnaryMethod<GetTelemetrySchemaRequest, GetTelemetrySchemaResponse> GetTelemetrySchema =
                new UnaryMethod<GetTelemetrySchemaRequest, GetTelemetrySchemaResponse>(90, Runs.Inline);
            public static readonly StreamMethod<StreamTelemetryRequest, TelemetryFrame> StreamTelemetry =
                new StreamMethod<StreamTelemetryRequest, TelemetryFrame>(91, Runs.Pool);
        }

        public static class ViewportService
        {
            public static readonly UnaryMethod<GetViewportInfoRequest, GetViewportInfoResponse> GetViewportInfo =
                new UnaryMethod<GetViewportInfoRequest, GetViewportInfoResponse>(100, Runs.Inline);
            public static readonly StreamMethod<StartViewportStreamRequest, ImageFrame> StreamViewport =
                new StreamMethod<StartViewportStreamRequest, ImageFrame>(101, Runs.Pool);
        }

        public static class DebugService
        {
            public static readonly UnaryMethod<DebugDrawRequest, DebugDrawResponse> Draw =
                new UnaryMethod<DebugDrawRequest, DebugDrawResponse>(110, Runs.Inline);
        }

        public static class LidarService
        {
            public static readonly UnaryMethod<SetLidarLiveRequest, LidarAck> SetLidarLive =
                new UnaryMethod<SetLidarLiveRequest, LidarAck>(120, Runs.Engine);
            public static readonly UnaryMethod<SetLidarConfigRequest, LidarAck> SetLidarConfig =
                new UnaryMethod<SetLidarConfigRequest, LidarAck>(121, Runs.Engine);
            public static readonly UnaryMethod<LidarSensorRequest, LidarConfigResponse> GetLidarConfig =
                new UnaryMethod<LidarSensorRequest, LidarConfigResponse>(122, Runs.Inline);
            public static readonly UnaryMethod<SetLidarReturnParamsRequest, LidarAck> SetLidarReturnParams =
                new UnaryMethod<SetLidarReturnParamsRequest, LidarAck>(123, Runs.Engine);
            public static readonly UnaryMethod<GetLidarReturnParamsRequest, LidarReturnParamsResponse> GetLidarReturnParams =
                new UnaryMethod<GetLidarReturnParamsRequest, LidarReturnParamsResponse>(124, Runs.Inline);
            public static readonly UnaryMethod<SetLidarPresetRequest, LidarAck> SetLidarPreset =
                new UnaryMethod<SetLidarPresetRequest, LidarAck>(125, Runs.Engine);
            public static readonly UnaryMethod<SetLidarSecondaryCaptureRequest, LidarAck> SetLidarSecondaryCapture =
                new UnaryMethod<SetLidarSecondaryCaptureRequest, LidarAck>(126, Runs.Engine);
            public static readonly UnaryMethod<BakeLidarMaterialRequest, LidarAck> BakeLidarMaterial =
                new UnaryMethod<BakeLidarMaterialRequest, LidarAck>(127, Runs.Pool);
            public static readonly UnaryMethod<LidarSensorRequest, LidarBakeStatusResponse> GetLidarBakeStatus =
                new UnaryMethod<LidarSensorRequest, LidarBakeStatusResponse>(128, Runs.Inline);
            public static readonly UnaryMethod<LoadLidarBakeRequest, LidarAck> LoadLidarBake =
                new UnaryMethod<LoadLidarBakeRequest, LidarAck>(129, Runs.Pool);
            public static readonly UnaryMethod<SaveLidarBakeRequest, LidarAck> SaveLidarBake =
                new UnaryMethod<SaveLidarBakeRequest, LidarAck>(130, Runs.Pool);
            public static readonly UnaryMethod<GetLidarScanRequest, LidarScanResponse> GetLidarScan =
                new UnaryMethod<GetLidarScanRequest, LidarScanResponse>(131, Runs.Engine);
            public static readonly UnaryMethod<LidarSensorRequest, LidarBeamCountResponse> GetLidarBeamCount =
                new UnaryMethod<LidarSensorRequest, LidarBeamCountResponse>(132, Runs.Inline);
            public static readonly UnaryMethod<LidarSensorRequest, LidarBeamAnglesResponse> GetLidarBeamAngles =
                new UnaryMethod<LidarSensorRequest, LidarBeamAnglesResponse>(133, Runs.Pool);
        }

        public static class BatchService
        {
            public static readonly UnaryMethod<SetSeedsRequest, SetSeedsResponse> SetSeeds =
                new UnaryMethod<SetSeedsRequest, SetSeedsResponse>(200, Runs.Engine);
            public static readonly UnaryMethod<SetResetOptionsRequest, SetResetOptionsResponse> SetResetOptions =
                new UnaryMethod<SetResetOptionsRequest, SetResetOptionsResponse>(201, Runs.Engine);
        }

        public static class StateService
        {
            public static readonly UnaryMethod<GetStateRequest, GetStateResponse> GetState =
                new UnaryMethod<GetStateRequest, GetStateResponse>(210, Runs.Engine);
            public static readonly UnaryMethod<SetStateRequest, SetStateResponse> SetState =
                new UnaryMethod<SetStateRequest, SetStateResponse>(211, Runs.Engine);
        }

        public static class SessionService
        {
            public static readonly UnaryMethod<GetWorldsRequest, GetWorldsResponse> GetWorlds =
                new UnaryMethod<GetWorldsRequest, GetWorldsResponse>(220, Runs.Inline);
            public static readonly UnaryMethod<CreateSessionRequest, CreateSessionResponse> CreateSession =
                new UnaryMethod<CreateSessionRequest, CreateSessionResponse>(221, Runs.Pool);
            public static readonly UnaryMethod<SessionRequest, SessionStatus> GetSession =
                new UnaryMethod<SessionRequest, SessionStatus>(222, Runs.Inline);
            public static readonly UnaryMethod<ListSessionsRequest, ListSessionsResponse> ListSessions =
                new UnaryMethod<ListSessionsRequest, ListSessionsResponse>(223, Runs.Inline);
            public static readonly UnaryMethod<AdvanceSessionRequest, AdvanceSessionResponse> AdvanceSession =
                new UnaryMethod<AdvanceSessionRequest, AdvanceSessionResponse>(224, Runs.Pool);
            public static readonly UnaryMethod<ActInSessionRequest, ActInSessionResponse> ActInSession =
                new UnaryMethod<ActInSessionRequest, ActInSessionResponse>(225, Runs.Inline);
            public static readonly UnaryMethod<RunSessionRequest, RunSessionResponse> RunSession =
                new UnaryMethod<RunSessionRequest, RunSessionResponse>(226, Runs.Inline);
            public static readonly UnaryMethod<GetLatestRequest, SessionSnapshot> GetLatest =
                new UnaryMethod<GetLatestRequest, SessionSnapshot>(227, Runs.Pool);
            public static readonly UnaryMethod<RestartSessionRequest, SessionSnapshot> RestartSession =
                new UnaryMethod<RestartSessionRequest, SessionSnapshot>(228, Runs.Pool);
            public static readonly UnaryMethod<SessionRequest, DestroySessionResponse> DestroySession =
                new UnaryMethod<SessionRequest, DestroySessionResponse>(229, Runs.Pool);
            public static readonly UnaryMethod<SessionRequest, SessionRecording> GetRecording =
                new UnaryMethod<SessionRequest, SessionRecording>(230, Runs.Pool);
        }
    }
}
