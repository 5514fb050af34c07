"""The services as editors and type checkers see them.

Generated from proto/ by schema/generate.py; do not edit.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

from numpy.typing import NDArray

from lucky_transport.aio import AsyncItemStream
from lucky_transport.client.service import AsyncLink, AsyncService, ItemStream, Service
from lucky_transport.messages import (
    ActInSessionRequest,
    ActInSessionResponse,
    ActionGroupEntry,
    AdvanceSessionRequest,
    AdvanceSessionResponse,
    BakeLidarMaterialRequest,
    CameraConfig,
    CameraConfigAck,
    CameraConfigResponse,
    ClearPolicyGainsRequest,
    CreateSessionRequest,
    CreateSessionResponse,
    DebugArrow,
    DebugDrawRequest,
    DebugDrawResponse,
    DebugLine,
    DebugVelocityCommand,
    DestroySessionResponse,
    EnterPlayModeRequest,
    EnterPlayModeResponse,
    EntityId,
    ExitPlayModeRequest,
    ExitPlayModeResponse,
    FireMotionGraphTriggerRequest,
    GetActuatorGainsRequest,
    GetActuatorGainsResponse,
    GetAgentSchemaRequest,
    GetAgentSchemaResponse,
    GetCameraConfigRequest,
    GetCameraFrameRequest,
    GetCapabilityManifestRequest,
    GetCapabilityManifestResponse,
    GetEntityRequest,
    GetEntityResponse,
    GetFullStateRequest,
    GetFullStateResponse,
    GetJointStateRequest,
    GetJointStateResponse,
    GetLatestRequest,
    GetLidarReturnParamsRequest,
    GetLidarScanRequest,
    GetModelInfoRequest,
    GetModelInfoResponse,
    GetMotionGraphActiveRequest,
    GetMotionGraphActiveResponse,
    GetMotionGraphInputRequest,
    GetMotionGraphInputResponse,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
    GetPolicyBasePoseRequest,
    GetPolicyCommandBoolRequest,
    GetPolicyCommandFloatRequest,
    GetPolicyLastActionRequest,
    GetRobotControllerRequest,
    GetRobotControllerResponse,
    GetSceneInfoRequest,
    GetSceneInfoResponse,
    GetSimulationModeRequest,
    GetSimulationModeResponse,
    GetStateRequest,
    GetStateResponse,
    GetTelemetrySchemaRequest,
    GetTelemetrySchemaResponse,
    GetViewportInfoRequest,
    GetViewportInfoResponse,
    GetWorldsRequest,
    GetWorldsResponse,
    ImageFrame,
    IndexedControlEntry,
    IndexedQposEntry,
    JointGainOverride,
    LidarAck,
    LidarBakeStatusResponse,
    LidarBeamAnglesResponse,
    LidarBeamCountResponse,
    LidarConfigResponse,
    LidarReturnParamsResponse,
    LidarScanResponse,
    LidarSensorRequest,
    ListCamerasRequest,
    ListCamerasResponse,
    ListEntitiesRequest,
    ListEntitiesResponse,
    ListPolicyDescriptorsRequest,
    ListPolicyDescriptorsResponse,
    ListRobotControllersRequest,
    ListRobotControllersResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadLidarBakeRequest,
    MotionGraphInputValue,
    NamedControlEntry,
    NegotiateTaskRequest,
    NegotiateTaskResponse,
    PolicyBasePose,
    PolicyCommandBoolValue,
    PolicyCommandFloatValue,
    PolicyCommandType,
    PolicyLastAction,
    PolicyOperationAck,
    PolicySlotSummary,
    ProgressAck,
    ProgressReport,
    ResetAgentRequest,
    ResetAgentResponse,
    ResetSceneRequest,
    ResetSceneResponse,
    RestartSessionRequest,
    RobotControllerSummary,
    RunSessionRequest,
    RunSessionResponse,
    SaveLidarBakeRequest,
    SessionAction,
    SessionRecording,
    SessionRequest,
    SessionSnapshot,
    SessionStatus,
    SetActionGroupRequest,
    SetActionGroupResponse,
    SetCameraConfigRequest,
    SetControlRequest,
    SetControlResponse,
    SetEntityTransformRequest,
    SetEntityTransformResponse,
    SetLidarConfigRequest,
    SetLidarLiveRequest,
    SetLidarPresetRequest,
    SetLidarReturnParamsRequest,
    SetLidarSecondaryCaptureRequest,
    SetMotionGraphActiveRequest,
    SetMotionGraphInputRequest,
    SetPolicyActiveRequest,
    SetPolicyClampObservationRequest,
    SetPolicyCommandBoolRequest,
    SetPolicyCommandFloatRequest,
    SetPolicyDescriptorRequest,
    SetPolicyDrivenJointsRequest,
    SetPolicyGainsRequest,
    SetPolicyPriorityRequest,
    SetQposRequest,
    SetQposResponse,
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SetSeedsResponse,
    SetSimulationModeRequest,
    SetSimulationModeResponse,
    SetStateRequest,
    SetStateResponse,
    SimulationContract,
    SimulationMode,
    StartViewportStreamRequest,
    StateFilter,
    StepRequest,
    StepResponse,
    StreamCameraRequest,
    StreamFullStateRequest,
    StreamPolicySlotStateRequest,
    StreamRobotControllerRequest,
    StreamTelemetryRequest,
    TaskContract,
    TelemetryFrame,
    Transform,
    ValidateTaskContractRequest,
    ValidateTaskContractResponse,
)
from lucky_transport.transport import Transport

#: What a list of numbers may be given as.
Floats: TypeAlias = Sequence[float] | NDArray[Any]
Integers: TypeAlias = Sequence[int] | NDArray[Any]
#: What an enum's members are called.
PolicyCommandTypeName: TypeAlias = Literal["float", "bool", "int", "uint", "vec2", "vec3", "vec4", "string"]
SimulationModeName: TypeAlias = Literal["realtime", "deterministic", "fast"]

class AgentService(Service):
    """The methods of hazel.rpc.AgentService."""

    @overload
    def get_schema(
        self, request: GetAgentSchemaRequest, /, *, timeout_s: float | None = None
    ) -> GetAgentSchemaResponse: ...
    @overload
    def get_schema(self, agent_name: str = "", *, timeout_s: float | None = None) -> GetAgentSchemaResponse:
        """Asks for an agent's schema; "" means `agent_0`.

        Returns GetAgentSchemaResponse: The agent's schema; sizes are 0 while no agent is registered.
        """

    get_agent_schema = get_schema

    @overload
    def reset(self, request: ResetAgentRequest, /, *, timeout_s: float | None = None) -> ResetAgentResponse: ...
    @overload
    def reset(
        self,
        agent_name: str = "",
        *,
        simulation_contract: SimulationContract | None = None,
        timeout_s: float | None = None,
    ) -> ResetAgentResponse:
        """Resets one agent; the contract holds until another one is given. The first observation comes with the next
        step.

        Returns ResetAgentResponse: Whether the agent was reset, else why not.
        """

    reset_agent = reset

    @overload
    def step(self, request: StepRequest, /, *, timeout_s: float | None = None) -> StepResponse: ...
    @overload
    def step(
        self,
        agent_name: str = "",
        *,
        actions: Floats = ...,
        engine_timeout_s: float = 0.0,
        camera_requests: Sequence[GetCameraFrameRequest] = ...,
        action_groups: Sequence[ActionGroupEntry] = ...,
        timeout_s: float | None = None,
    ) -> StepResponse:
        """One tick of one agent.

        agent_name: "" means `agent_0`. actions: [action_size], or empty: tick without a new action. timeout_s:
        seconds that the engine waits for physics, 0 = its default. action_groups are laid over `actions`.

        Returns StepResponse: What the tick produced; `success` is False when there was none, mostly because physics
        took too long.
        """

    @overload
    def set_action_group(
        self, request: SetActionGroupRequest, /, *, timeout_s: float | None = None
    ) -> SetActionGroupResponse: ...
    @overload
    def set_action_group(
        self, agent_name: str = "", *, group: ActionGroupEntry | None = None, timeout_s: float | None = None
    ) -> SetActionGroupResponse:
        """Preloads one group's actions for the agent's next step.

        Returns SetActionGroupResponse: Whether the group was accepted, else why not.
        """

    @overload
    def report_progress(self, request: ProgressReport, /, *, timeout_s: float | None = None) -> ProgressAck: ...
    @overload
    def report_progress(
        self,
        run_id: str = "",
        *,
        task_name: str = "",
        policy_name: str = "",
        phase: str = "",
        current_episode: int = 0,
        total_episodes: int = 0,
        current_step: int = 0,
        max_steps: int = 0,
        elapsed_s: float = 0.0,
        status_text: str = "",
        finished: bool = False,
        timeout_s: float | None = None,
    ) -> ProgressAck:
        """State of a training or evaluation run, for people to see; `elapsed_s` in seconds.

        finished: the run is over, and the engine takes control of the agent back.

        Returns ProgressAck: Whether the engine shows the report.
        """

    @overload
    def get_capability_manifest(
        self, request: GetCapabilityManifestRequest, /, *, timeout_s: float | None = None
    ) -> GetCapabilityManifestResponse: ...
    @overload
    def get_capability_manifest(
        self, robot_name: str = "", *, scene: str = "", timeout_s: float | None = None
    ) -> GetCapabilityManifestResponse:
        """Asks what tasks the engine can compose; empty names mean the loaded robot and scene.

        Returns GetCapabilityManifestResponse: The manifest.
        """

    @overload
    def validate_task_contract(
        self, request: ValidateTaskContractRequest, /, *, timeout_s: float | None = None
    ) -> ValidateTaskContractResponse: ...
    @overload
    def validate_task_contract(
        self, contract: TaskContract | None = None, *, timeout_s: float | None = None
    ) -> ValidateTaskContractResponse:
        """Asks whether a contract can be met, without changing anything.

        Returns ValidateTaskContractResponse: The findings.
        """

    @overload
    def negotiate_task(
        self, request: NegotiateTaskRequest, /, *, timeout_s: float | None = None
    ) -> NegotiateTaskResponse: ...
    @overload
    def negotiate_task(
        self, contract: TaskContract | None = None, *, timeout_s: float | None = None
    ) -> NegotiateTaskResponse:
        """Puts a contract in force for the following steps.

        Returns NegotiateTaskResponse: The session, or why the contract was refused.
        """

    def list_robot_controllers(
        self, request: ListRobotControllersRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListRobotControllersResponse:
        """Asks for all robots that have a controller.

        Returns ListRobotControllersResponse: All robots that have a controller, in the engine's order.
        """

    @overload
    def get_robot_controller(
        self, request: GetRobotControllerRequest, /, *, timeout_s: float | None = None
    ) -> GetRobotControllerResponse: ...
    @overload
    def get_robot_controller(
        self, entity: EntityId | int | None = None, *, timeout_s: float | None = None
    ) -> GetRobotControllerResponse:
        """Asks for one robot's controller.

        Returns GetRobotControllerResponse: The controller; `found` is False where the entity is no robot.
        """

    def list_policy_descriptors(
        self, request: ListPolicyDescriptorsRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListPolicyDescriptorsResponse:
        """Asks for all policies on offer.

        Returns ListPolicyDescriptorsResponse: All policies on offer.
        """

    @overload
    def set_policy_active(
        self, request: SetPolicyActiveRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_active(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        active: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Starts or stops the policy in a slot.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_descriptor(
        self, request: SetPolicyDescriptorRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_descriptor(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        descriptor_path: str = "",
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Puts another policy into a slot; overridden gains are dropped.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_driven_joints(
        self, request: SetPolicyDrivenJointsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_driven_joints(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        joint_names: Sequence[str] = ...,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Chooses the joints that a slot drives: exact names, no patterns.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_clamp_observation(
        self, request: SetPolicyClampObservationRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_clamp_observation(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        clamp_observation_for_unclaimed_joints: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Chooses whether a slot's policy sees joints that it does not drive at their defaults.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_priority(
        self, request: SetPolicyPriorityRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_priority(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        priority: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Sets a slot's priority: where two active slots claim a joint, the higher one drives it.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_command_float(
        self, request: SetPolicyCommandFloatRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_command_float(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        value: float = 0.0,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Tells a policy what to do, as a number in the command's own unit (a forward speed in m/s, for instance).

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_command_bool(
        self, request: SetPolicyCommandBoolRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_command_bool(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        value: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Tells a policy what to do, as yes or no.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def set_policy_gains(
        self, request: SetPolicyGainsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_policy_gains(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        overrides: Sequence[JointGainOverride] = ...,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Overrides gains until ClearPolicyGains or a change of the slot's policy.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def clear_policy_gains(
        self, request: ClearPolicyGainsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def clear_policy_gains(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Gives all joints of a slot the policy's own gains again.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def get_policy_command_float(
        self, request: GetPolicyCommandFloatRequest, /, *, timeout_s: float | None = None
    ) -> PolicyCommandFloatValue: ...
    @overload
    def get_policy_command_float(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyCommandFloatValue:
        """Asks for the present value of a command that is a number.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyCommandFloatValue: The command's value in its own unit, or why there is none.
        """

    @overload
    def get_policy_command_bool(
        self, request: GetPolicyCommandBoolRequest, /, *, timeout_s: float | None = None
    ) -> PolicyCommandBoolValue: ...
    @overload
    def get_policy_command_bool(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyCommandBoolValue:
        """Asks for the present value of a command that is yes or no.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyCommandBoolValue: The command's value, or why there is none.
        """

    @overload
    def set_motion_graph_active(
        self, request: SetMotionGraphActiveRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_motion_graph_active(
        self, entity: EntityId | int | None = None, *, active: bool = False, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Switches a robot's motion graph on or off.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def get_motion_graph_active(
        self, request: GetMotionGraphActiveRequest, /, *, timeout_s: float | None = None
    ) -> GetMotionGraphActiveResponse: ...
    @overload
    def get_motion_graph_active(
        self, entity: EntityId | int | None = None, *, timeout_s: float | None = None
    ) -> GetMotionGraphActiveResponse:
        """Asks whether a robot's motion graph is on.

        Returns GetMotionGraphActiveResponse: Whether the motion graph is on, or why there is no answer.
        """

    @overload
    def set_motion_graph_input(
        self, request: SetMotionGraphInputRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def set_motion_graph_input(
        self,
        entity: EntityId | int | None = None,
        *,
        input_id: int = 0,
        value: MotionGraphInputValue | None = None,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Sets one input of a robot's motion graph; no method lists the inputs, their ids come from the graph's author.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def get_motion_graph_input(
        self, request: GetMotionGraphInputRequest, /, *, timeout_s: float | None = None
    ) -> GetMotionGraphInputResponse: ...
    @overload
    def get_motion_graph_input(
        self,
        entity: EntityId | int | None = None,
        *,
        input_id: int = 0,
        type_hint: PolicyCommandType | PolicyCommandTypeName = "float",
        timeout_s: float | None = None,
    ) -> GetMotionGraphInputResponse:
        """Asks for the value of one input, read as `type_hint`.

        Returns GetMotionGraphInputResponse: The input's value, or why there is none.
        """

    @overload
    def fire_motion_graph_trigger(
        self, request: FireMotionGraphTriggerRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    def fire_motion_graph_trigger(
        self, entity: EntityId | int | None = None, *, input_id: int = 0, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Fires one trigger input of a robot's motion graph.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    def get_policy_base_pose(
        self, request: GetPolicyBasePoseRequest, /, *, timeout_s: float | None = None
    ) -> PolicyBasePose: ...
    @overload
    def get_policy_base_pose(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyBasePose:
        """Asks where the robot's base is; refused while the slot is inactive.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyBasePose: The base in two frames, or why it is not known: metres and radians.
        """

    @overload
    def get_policy_last_action(
        self, request: GetPolicyLastActionRequest, /, *, timeout_s: float | None = None
    ) -> PolicyLastAction: ...
    @overload
    def get_policy_last_action(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyLastAction:
        """Asks what a slot's policy put out last; refused while the slot is inactive or has not run yet.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyLastAction: What the policy put out when it last ran, one value per joint name, or why there is
        none.
        """

    @overload
    def stream_policy_slot_state(
        self, request: StreamPolicySlotStateRequest, /, *, timeout_s: float | None = None
    ) -> ItemStream[PolicySlotSummary]: ...
    @overload
    def stream_policy_slot_state(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        target_fps: int = 0,
        fps: int = 0,
        timeout_s: float | None = None,
    ) -> ItemStream[PolicySlotSummary]:
        """Asks for one slot's state at `target_fps` messages per second of wall clock (0 = the engine's default).

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Yields PolicySlotSummary: One slot of a robot controller and the policy in it.
        """

    @overload
    def stream_robot_controller(
        self, request: StreamRobotControllerRequest, /, *, timeout_s: float | None = None
    ) -> ItemStream[RobotControllerSummary]: ...
    @overload
    def stream_robot_controller(
        self, entity: EntityId | int | None = None, *, target_fps: int = 0, fps: int = 0, timeout_s: float | None = None
    ) -> ItemStream[RobotControllerSummary]:
        """Asks for one robot's controller at `target_fps` messages per second of wall clock (0 = the engine's default).

        Yields RobotControllerSummary: One robot, whether its motion graph is on, and its slots.
        """

class MujocoService(Service):
    """The methods of hazel.rpc.MujocoService."""

    @overload
    def get_joint_state(
        self, request: GetJointStateRequest, /, *, timeout_s: float | None = None
    ) -> GetJointStateResponse: ...
    @overload
    def get_joint_state(self, robot_name: str = "", *, timeout_s: float | None = None) -> GetJointStateResponse:
        """Asks for a robot's joint state; "" means `agent_0`'s robot.

        Returns GetJointStateResponse: The joint state, or why there is none.
        """

    @overload
    def get_info(
        self, request: GetMujocoInfoRequest, /, *, timeout_s: float | None = None
    ) -> GetMujocoInfoResponse: ...
    @overload
    def get_info(self, robot_name: str = "", *, timeout_s: float | None = None) -> GetMujocoInfoResponse:
        """Asks for the model's sizes and names.

        Returns GetMujocoInfoResponse: Sizes and names of the MuJoCo model.
        """

    get_mujoco_info = get_info

    @overload
    def stream_joint_state(
        self, request: GetJointStateRequest, /, *, timeout_s: float | None = None
    ) -> ItemStream[GetJointStateResponse]: ...
    @overload
    def stream_joint_state(
        self, robot_name: str = "", *, timeout_s: float | None = None
    ) -> ItemStream[GetJointStateResponse]:
        """Asks for a robot's joint state; "" means `agent_0`'s robot.

        Yields GetJointStateResponse: The joint state, or why there is none.
        """

class MujocoSceneService(Service):
    """The methods of hazel.rpc.MujocoSceneService."""

    def get_model_info(
        self, request: GetModelInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetModelInfoResponse:
        """Asks for the whole model's description.

        Returns GetModelInfoResponse: Sizes, joints and actuators of the whole model, in MuJoCo's order, or why there
        is none.
        """

    @overload
    def get_full_state(
        self, request: GetFullStateRequest, /, *, timeout_s: float | None = None
    ) -> GetFullStateResponse: ...
    @overload
    def get_full_state(
        self,
        include_qpos: bool = False,
        *,
        include_qvel: bool = False,
        include_ctrl: bool = False,
        filter: StateFilter | None = None,
        timeout_s: float | None = None,
    ) -> GetFullStateResponse:
        """Asks for parts of the state, all three when none is named; an absent `filter` means the whole model.

        Returns GetFullStateResponse: The state, or why there is none; the indices say what a filter left and are
        empty without one.
        """

    @overload
    def stream_full_state(
        self, request: StreamFullStateRequest, /, *, timeout_s: float | None = None
    ) -> ItemStream[GetFullStateResponse]: ...
    @overload
    def stream_full_state(
        self,
        target_fps: int = 0,
        *,
        fps: int = 0,
        include_qpos: bool = False,
        include_qvel: bool = False,
        include_ctrl: bool = False,
        filter: StateFilter | None = None,
        timeout_s: float | None = None,
    ) -> ItemStream[GetFullStateResponse]:
        """As GetFullStateRequest, `target_fps` times per second of wall clock (0 = the engine's default).

        Yields GetFullStateResponse: The state, or why there is none; the indices say what a filter left and are
        empty without one.
        """

    @overload
    def set_control(self, request: SetControlRequest, /, *, timeout_s: float | None = None) -> SetControlResponse: ...
    @overload
    def set_control(
        self,
        bulk: Floats = ...,
        *,
        indexed: Sequence[IndexedControlEntry] = ...,
        named: Sequence[NamedControlEntry] = ...,
        wait_for_next_step: bool = False,
        skip_range_clamp: bool = False,
        timeout_s: float | None = None,
    ) -> SetControlResponse:
        """Sets controls in up to three ways at once; later ones count more: bulk, indexed, named.

        bulk: from actuator 0 on. wait_for_next_step: answer when a step has used the values. skip_range_clamp: take
        values outside the control range as they are.

        Returns SetControlResponse: How many values were taken; an unknown index or name refuses all of them.
        """

    @overload
    def set_qpos(self, request: SetQposRequest, /, *, timeout_s: float | None = None) -> SetQposResponse: ...
    @overload
    def set_qpos(
        self,
        bulk: Floats = ...,
        *,
        indexed: Sequence[IndexedQposEntry] = ...,
        force: bool = False,
        skip_policy_reseed: bool = False,
        timeout_s: float | None = None,
    ) -> SetQposResponse:
        """Moves the model to new positions at once; `indexed` counts more than `bulk`.

        bulk: [nq] or empty. force: also where a policy or an agent drives the joint. skip_policy_reseed: leave the
        targets of policies alone, which may pull the robot back.

        Returns SetQposResponse: How many values of qpos were written, or why none.
        """

    def get_actuator_gains(
        self, request: GetActuatorGainsRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetActuatorGainsResponse:
        """Asks for the gains of all actuators.

        Returns GetActuatorGainsResponse: The gains of all actuators, in MuJoCo's order, or why there are none.
        """

    @overload
    def reset(self, request: ResetSceneRequest, /, *, timeout_s: float | None = None) -> ResetSceneResponse: ...
    @overload
    def reset(self, preserve_time: bool = False, *, timeout_s: float | None = None) -> ResetSceneResponse:
        """Puts the model back to keyframe 0, or to qpos0 where it has none; velocities, forces and controls become
        zero.

        preserve_time: simulated time goes on instead of starting at 0.

        Returns ResetSceneResponse: Whether the scene was reset, else why not.
        """

    reset_scene = reset

class SceneService(Service):
    """The methods of hazel.rpc.SceneService."""

    def get_info(
        self, request: GetSceneInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetSceneInfoResponse:
        """Asks which scene is loaded.

        Returns GetSceneInfoResponse: The loaded scene; `entity_count` is the number of entities that ListEntities
        returns.
        """

    get_scene_info = get_info

    @overload
    def list_entities(
        self, request: ListEntitiesRequest, /, *, timeout_s: float | None = None
    ) -> ListEntitiesResponse: ...
    @overload
    def list_entities(
        self, include_transforms: bool = False, *, include_components: bool = False, timeout_s: float | None = None
    ) -> ListEntitiesResponse:
        """Asks for all entities, with their transforms and components where wanted.

        Returns ListEntitiesResponse: All entities of the scene.
        """

    @overload
    def get_entity(self, request: GetEntityRequest, /, *, timeout_s: float | None = None) -> GetEntityResponse: ...
    @overload
    def get_entity(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        timeout_s: float | None = None,
    ) -> GetEntityResponse:
        """Asks for one entity by handle or by name (`id` counts when given).

        Returns GetEntityResponse: The entity with everything known of it; `found` is False where there is none.
        """

    @overload
    def set_entity_transform(
        self, request: SetEntityTransformRequest, /, *, timeout_s: float | None = None
    ) -> SetEntityTransformResponse: ...
    @overload
    def set_entity_transform(
        self, id: EntityId | int | None = None, *, transform: Transform | None = None, timeout_s: float | None = None
    ) -> SetEntityTransformResponse:
        """Places an entity anew. The whole transform is replaced: fill every part of it.

        Returns SetEntityTransformResponse: Whether the entity was moved, else why not.
        """

    @overload
    def set_simulation_mode(
        self, request: SetSimulationModeRequest, /, *, timeout_s: float | None = None
    ) -> SetSimulationModeResponse: ...
    @overload
    def set_simulation_mode(
        self, mode: SimulationMode | SimulationModeName = "realtime", *, timeout_s: float | None = None
    ) -> SetSimulationModeResponse:
        """Changes how simulated time passes; REALTIME may be refused while a client trains.

        Returns SetSimulationModeResponse: Whether the mode was changed, else why not, and the mode in force now.
        """

    def get_simulation_mode(
        self, request: GetSimulationModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetSimulationModeResponse:
        """Asks how simulated time passes.

        Returns GetSimulationModeResponse: The mode in force.
        """

    def enter_play_mode(
        self, request: EnterPlayModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> EnterPlayModeResponse:
        """Starts the simulation; answered at once, poll GetAgentSchema until the agents are there.

        Returns EnterPlayModeResponse: Whether play mode starts, else why not.
        """

    def exit_play_mode(
        self, request: ExitPlayModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> ExitPlayModeResponse:
        """Stops the simulation and with it the training session; answered at once.

        Returns ExitPlayModeResponse: Whether play mode ends, else why not.
        """

class CameraService(Service):
    """The methods of hazel.rpc.CameraService."""

    def list(self, request: ListCamerasRequest = ..., /, *, timeout_s: float | None = None) -> ListCamerasResponse:
        """Asks for all cameras.

        Returns ListCamerasResponse: All cameras of the scene.
        """

    list_cameras = list

    @overload
    def stream(
        self, request: StreamCameraRequest, /, *, timeout_s: float | None = None, copy: bool = True
    ) -> ItemStream[ImageFrame]: ...
    @overload
    def stream(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        target_fps: int = 0,
        fps: int = 0,
        width: int = 0,
        height: int = 0,
        format: str = "",
        timeout_s: float | None = None,
        copy: bool = True,
    ) -> ItemStream[ImageFrame]:
        """Asks for a camera's colour images, by entity or by name (`id` counts when given).

        target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 =
        the camera's own. format: "raw" or "jpeg"; engines always send raw.

        Yields ImageFrame: One image, uncompressed: rows from the top, pixels from the left.
        """

    stream_camera = stream

    @overload
    def get_config(
        self, request: GetCameraConfigRequest, /, *, timeout_s: float | None = None
    ) -> CameraConfigResponse: ...
    @overload
    def get_config(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        timeout_s: float | None = None,
    ) -> CameraConfigResponse:
        """Asks how a camera is set, by entity or by name (`id` counts when given).

        Returns CameraConfigResponse: How the camera is set; `found` is False where there is none.
        """

    get_camera_config = get_config

    @overload
    def set_config(self, request: SetCameraConfigRequest, /, *, timeout_s: float | None = None) -> CameraConfigAck: ...
    @overload
    def set_config(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        config: CameraConfig | None = None,
        timeout_s: float | None = None,
    ) -> CameraConfigAck:
        """Sets a camera, by entity or by name (`id` counts when given).

        Returns CameraConfigAck: Whether the camera was set, else why not.
        """

    set_camera_config = set_config

class TelemetryService(Service):
    """The methods of hazel.rpc.TelemetryService."""

    def get_schema(
        self, request: GetTelemetrySchemaRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetTelemetrySchemaResponse:
        """Asks for the names and sizes.

        Returns GetTelemetrySchemaResponse: The names and sizes.
        """

    get_telemetry_schema = get_schema

    @overload
    def stream(
        self, request: StreamTelemetryRequest, /, *, timeout_s: float | None = None
    ) -> ItemStream[TelemetryFrame]: ...
    @overload
    def stream(
        self, target_fps: int = 0, *, fps: int = 0, timeout_s: float | None = None
    ) -> ItemStream[TelemetryFrame]:
        """Asks for samples, `target_fps` per second of wall clock as a wish (0 = the engine's default).

        Yields TelemetryFrame: One sample.
        """

    stream_telemetry = stream

class ViewportService(Service):
    """The methods of hazel.rpc.ViewportService."""

    def get_info(
        self, request: GetViewportInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetViewportInfoResponse:
        """Asks for the viewports.

        Returns GetViewportInfoResponse: Names of the viewports, and the stream that runs now.
        """

    get_viewport_info = get_info

    @overload
    def stream(
        self, request: StartViewportStreamRequest, /, *, timeout_s: float | None = None, copy: bool = True
    ) -> ItemStream[ImageFrame]: ...
    @overload
    def stream(
        self,
        viewport_name: str = "",
        *,
        target_fps: int = 0,
        fps: int = 0,
        width: int = 0,
        height: int = 0,
        format: str = "",
        timeout_s: float | None = None,
        copy: bool = True,
    ) -> ItemStream[ImageFrame]:
        """Asks for a viewport's images; "" means the only one.

        target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 =
        the viewport's own. format: "raw" or "jpeg"; engines always send raw.

        Yields ImageFrame: One image, uncompressed: rows from the top, pixels from the left.
        """

    stream_viewport = stream

class DebugService(Service):
    """The methods of hazel.rpc.DebugService."""

    @overload
    def draw(self, request: DebugDrawRequest, /, *, timeout_s: float | None = None) -> DebugDrawResponse: ...
    @overload
    def draw(
        self,
        lines: Sequence[DebugLine] = ...,
        *,
        arrows: Sequence[DebugArrow] = ...,
        velocity_command: DebugVelocityCommand | None = None,
        clear_previous: bool = False,
        timeout_s: float | None = None,
    ) -> DebugDrawResponse:
        """Everything to draw in one call; `clear_previous` removes what earlier calls drew.

        Returns DebugDrawResponse: Whether it was drawn.
        """

class LidarService(Service):
    """The methods of hazel.rpc.LidarService."""

    @overload
    def set_live(self, request: SetLidarLiveRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def set_live(self, live: bool = False, *, timeout_s: float | None = None) -> LidarAck:
        """Switches the sensors on or off; they must be on before scans are read, and stay so through resets.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_live = set_live

    @overload
    def set_config(self, request: SetLidarConfigRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def set_config(
        self,
        sensor: int = 0,
        *,
        scan_pattern: int = 0,
        channels: int = 0,
        azimuth_bins: int = 0,
        vfov_min_deg: float = 0.0,
        vfov_max_deg: float = 0.0,
        min_range: float = 0.0,
        max_range: float = 0.0,
        rotation_hz: float = 0.0,
        geom_group_mask: int = 0,
        self_ignore: int = 0,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Sets the beams of one sensor: `channels` in elevation times `azimuth_bins` around.

        vfov_min_deg, vfov_max_deg: lowest and highest elevation, degrees. min_range, max_range: metres. rotation_hz:
        turns per second. geom_group_mask: one bit per MuJoCo geom group. self_ignore: 1 = beams pass through the
        sensor's own body.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_config = set_config

    @overload
    def get_config(self, request: LidarSensorRequest, /, *, timeout_s: float | None = None) -> LidarConfigResponse: ...
    @overload
    def get_config(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarConfigResponse:
        """Names a sensor, from 0.

        Returns LidarConfigResponse: The beams of one sensor; `found` is False where there is no such sensor.
        """

    get_lidar_config = get_config

    @overload
    def set_return_params(
        self, request: SetLidarReturnParamsRequest, /, *, timeout_s: float | None = None
    ) -> LidarAck: ...
    @overload
    def set_return_params(
        self,
        max_range_at_ref: float = 0.0,
        *,
        ref_reflectivity: float = 0.0,
        range_exp: float = 0.0,
        noise_sigma0: float = 0.0,
        grazing_cos_cutoff: float = 0.0,
        intensity_ref_range: float = 0.0,
        detect_floor: float = 0.0,
        near_range_r0: float = 0.0,
        noise_slope_per_m: float = 0.0,
        spec_slope_floor: float | None = None,
        spec_peak_max: float | None = None,
        retro_gain: float | None = None,
        retro_cos_exp: float | None = None,
        fold_max_slope: float | None = None,
        range_floor: float | None = None,
        min_return_separation: float | None = None,
        max_returns: int | None = None,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Sets how strong a return is, how noisy, and when it is lost, for all sensors.

        A field that may be None keeps what is in force where it is; all others are set.

        max_range_at_ref: metres at which a surface of `ref_reflectivity` (0 to 1) is just seen. range_exp: exponent
        of the fall with distance. noise_sigma0: metres; noise_slope_per_m: metres per metre. grazing_cos_cutoff:
        cosine of the incidence below which nothing returns. intensity_ref_range, near_range_r0, range_floor,
        min_return_separation: metres.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_return_params = set_return_params

    def get_return_params(
        self, request: GetLidarReturnParamsRequest = ..., /, *, timeout_s: float | None = None
    ) -> LidarReturnParamsResponse:
        """Asks for the return model in force.

        Returns LidarReturnParamsResponse: The return model in force, as in SetLidarReturnParamsRequest.
        """

    get_lidar_return_params = get_return_params

    @overload
    def set_preset(self, request: SetLidarPresetRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def set_preset(self, preset: int = 0, *, timeout_s: float | None = None) -> LidarAck:
        """Sets every sensor to one of the engine's presets, from 0.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_preset = set_preset

    @overload
    def set_secondary_capture(
        self, request: SetLidarSecondaryCaptureRequest, /, *, timeout_s: float | None = None
    ) -> LidarAck: ...
    @overload
    def set_secondary_capture(
        self, sensor: int = 0, *, capture: int = 0, scope: int = 0, timeout_s: float | None = None
    ) -> LidarAck:
        """What becomes of a beam after its first hit.

        capture: 0 nothing, 1 it passes through, 2 it is reflected, 3 both. scope: 0 where the material suggests it,
        1 at every hit.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_secondary_capture = set_secondary_capture

    @overload
    def bake_material(self, request: BakeLidarMaterialRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def bake_material(
        self,
        cell_size: float = 0.0,
        *,
        max_dim: int = 0,
        splat_radius: int = 0,
        include_hidden: int = 0,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Builds the grid that tells the material at a place; it walks the whole scene and takes its time.

        0 = the scene's own setting. cell_size: metres. max_dim: cells along the longest side. splat_radius: cells,
        -1 = a radius of 0. include_hidden: 1 include, 2 exclude.

        Returns LidarAck: Whether the change was made, else why not.
        """

    bake_lidar_material = bake_material

    @overload
    def get_bake_status(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBakeStatusResponse: ...
    @overload
    def get_bake_status(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBakeStatusResponse:
        """Names a sensor, from 0.

        Returns LidarBakeStatusResponse: What the grid holds and whether it still fits the scene.
        """

    get_lidar_bake_status = get_bake_status

    @overload
    def load_bake(self, request: LoadLidarBakeRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def load_bake(self, name: str = "", *, timeout_s: float | None = None) -> LidarAck:
        """Loads a grid that was saved under that name.

        Returns LidarAck: Whether the change was made, else why not.
        """

    load_lidar_bake = load_bake

    @overload
    def save_bake(self, request: SaveLidarBakeRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    def save_bake(self, name: str = "", *, timeout_s: float | None = None) -> LidarAck:
        """Saves the grid under that name.

        Returns LidarAck: Whether the change was made, else why not.
        """

    save_lidar_bake = save_bake

    @overload
    def get_scan(self, request: GetLidarScanRequest, /, *, timeout_s: float | None = None) -> LidarScanResponse: ...
    @overload
    def get_scan(
        self,
        sensor: int = 0,
        *,
        material: bool = False,
        want_secondary: bool = False,
        want_intensity: bool = False,
        timeout_s: float | None = None,
    ) -> LidarScanResponse:
        """Asks for one scan of a sensor; what is not wanted comes empty.

        material: apply the return model, without which intensities mean nothing.

        Returns LidarScanResponse: One scan, one value per beam where it was asked for.
        """

    get_lidar_scan = get_scan

    @overload
    def get_beam_count(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBeamCountResponse: ...
    @overload
    def get_beam_count(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBeamCountResponse:
        """Names a sensor, from 0.

        Returns LidarBeamCountResponse: How many beams a scan has.
        """

    get_lidar_beam_count = get_beam_count

    @overload
    def get_beam_angles(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBeamAnglesResponse: ...
    @overload
    def get_beam_angles(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBeamAnglesResponse:
        """Names a sensor, from 0.

        Returns LidarBeamAnglesResponse: Direction of each beam in radians, in the order of LidarScanResponse.ranges:
        azimuth about the vertical, elevation above the horizon.
        """

    get_lidar_beam_angles = get_beam_angles

class BatchService(Service):
    """The methods of lucky_transport.v1.BatchService."""

    @overload
    def set_seeds(self, request: SetSeedsRequest, /, *, timeout_s: float | None = None) -> SetSeedsResponse: ...
    @overload
    def set_seeds(
        self, seeds: Integers = ..., *, mask: bytes | bytearray | memoryview = b"", timeout_s: float | None = None
    ) -> SetSeedsResponse:
        """Seeds for the next reset, one per env; `mask` (one byte per env, empty = all) says which of them count.

        Returns SetSeedsResponse: Whether the engine takes seeds, else why not.
        """

    @overload
    def set_reset_options(
        self, request: SetResetOptionsRequest, /, *, timeout_s: float | None = None
    ) -> SetResetOptionsResponse: ...
    @overload
    def set_reset_options(
        self, contract: SimulationContract | None = None, *, options_json: str = "", timeout_s: float | None = None
    ) -> SetResetOptionsResponse:
        """Randomisation and other options for the envs reset next; `options_json` is a JSON object ("" = none).

        With neither, resets are as before the first such call.

        Returns SetResetOptionsResponse: Whether the engine took the options, else why not.
        """

class StateService(Service):
    """The methods of lucky_transport.v1.StateService."""

    @overload
    def get(self, request: GetStateRequest, /, *, timeout_s: float | None = None) -> GetStateResponse: ...
    @overload
    def get(self, env: int = 0, *, timeout_s: float | None = None) -> GetStateResponse:
        """Asks for the state of an env.

        Returns GetStateResponse: All that the env's course depends on; `SetState` takes it back.
        """

    get_state = get

    @overload
    def set(self, request: SetStateRequest, /, *, timeout_s: float | None = None) -> SetStateResponse: ...
    @overload
    def set(
        self, env: int = 0, *, state: bytes | bytearray | memoryview = b"", timeout_s: float | None = None
    ) -> SetStateResponse:
        """Puts an env into a state that `GetState` gave of an env of the same engine.

        Returns SetStateResponse: What is observed in that state: one row of the spec's observation.
        """

    set_state = set

class SessionService(Service):
    """The methods of lucky_transport.v1.SessionService."""

    def get_worlds(self, request: GetWorldsRequest = ..., /, *, timeout_s: float | None = None) -> GetWorldsResponse:
        """Asks for the worlds that the engine offers.

        Returns GetWorldsResponse: maps: names of worlds, the first is the default. events: names that may interrupt
        an advance. tick_s: the simulated time of a tick, in seconds.
        """

    @overload
    def create(self, request: CreateSessionRequest, /, *, timeout_s: float | None = None) -> CreateSessionResponse: ...
    @overload
    def create(
        self,
        map_name: str = "",
        *,
        seed: int | None = None,
        options_json: str = "",
        owned: bool = False,
        record: bool = False,
        recording: SessionRecording | None = None,
        timeout_s: float | None = None,
    ) -> CreateSessionResponse:
        """Asks for a session. `map_name` "" is the default one, `options_json` a JSON object ("" = none).

        owned: it is destroyed when the client that created it leaves. record: its actions are kept for GetRecording.
        recording: replay this one instead; of the other fields only `owned` then counts.

        Returns CreateSessionResponse: The id of the new session, whose world is being built.
        """

    create_session = create

    @overload
    def get(self, request: SessionRequest, /, *, timeout_s: float | None = None) -> SessionStatus: ...
    @overload
    def get(self, session_id: str = "", *, timeout_s: float | None = None) -> SessionStatus:
        """Names a session.

        Returns SessionStatus: The status of a session. `phase` is creating, ready, playing, over, failed or gone.
        """

    get_session = get

    def list(self, request: ListSessionsRequest = ..., /, *, timeout_s: float | None = None) -> ListSessionsResponse:
        """Asks for the ids of all sessions.

        Returns ListSessionsResponse: The ids, oldest first.
        """

    list_sessions = list

    @overload
    def advance(
        self, request: AdvanceSessionRequest, /, *, timeout_s: float | None = None
    ) -> AdvanceSessionResponse: ...
    @overload
    def advance(
        self,
        session_id: str = "",
        *,
        ticks: int = 0,
        actions: Sequence[SessionAction] = ...,
        interrupts: Sequence[str] = ...,
        check_every: int = 0,
        timeout_s: float | None = None,
    ) -> AdvanceSessionResponse:
        """Asks a world to take `actions` and advance by `ticks` (0: only the snapshot).

        interrupts: events that end the advance early, checked every `check_every` ticks (0 counts as 1).

        Returns AdvanceSessionResponse: The world afterwards, the ticks it did, and the event that ended it early (""
        when none did).
        """

    advance_session = advance

    @overload
    def act_in(self, request: ActInSessionRequest, /, *, timeout_s: float | None = None) -> ActInSessionResponse: ...
    @overload
    def act_in(
        self, session_id: str = "", *, actions: Sequence[SessionAction] = ..., timeout_s: float | None = None
    ) -> ActInSessionResponse:
        """Has a world take these actions in its next tick; at most 16 are pending.

        Returns ActInSessionResponse: The number of older actions that were dropped for these.
        """

    act_in_session = act_in

    @overload
    def run(self, request: RunSessionRequest, /, *, timeout_s: float | None = None) -> RunSessionResponse: ...
    @overload
    def run(
        self, session_id: str = "", *, rate_hz: float | None = None, timeout_s: float | None = None
    ) -> RunSessionResponse:
        """Lets a session run freely, `rate_hz` ticks a second (0: as fast as it can); absent stops it.

        Returns RunSessionResponse: The session runs, or stands still.
        """

    run_session = run

    @overload
    def get_latest(self, request: GetLatestRequest, /, *, timeout_s: float | None = None) -> SessionSnapshot: ...
    @overload
    def get_latest(
        self, session_id: str = "", *, after_tick: int | None = None, timeout_s: float | None = None
    ) -> SessionSnapshot:
        """Asks for the newest snapshot of a world, later than `after_tick` where that is given.

        The engine waits only a moment: a response without an observation means that there is none yet; ask again.

        Returns SessionSnapshot: A world at tick `ticks`: its observation, encoded, and how far it has come.
        """

    @overload
    def restart(self, request: RestartSessionRequest, /, *, timeout_s: float | None = None) -> SessionSnapshot: ...
    @overload
    def restart(
        self, session_id: str = "", *, seed: int | None = None, timeout_s: float | None = None
    ) -> SessionSnapshot:
        """Restarts a session's world with `seed` (absent: the engine's choice).

        Returns SessionSnapshot: A world at tick `ticks`: its observation, encoded, and how far it has come.
        """

    restart_session = restart

    @overload
    def destroy(self, request: SessionRequest, /, *, timeout_s: float | None = None) -> DestroySessionResponse: ...
    @overload
    def destroy(self, session_id: str = "", *, timeout_s: float | None = None) -> DestroySessionResponse:
        """Names a session.

        Returns DestroySessionResponse: There is no session of that id any more.
        """

    destroy_session = destroy

    @overload
    def get_recording(self, request: SessionRequest, /, *, timeout_s: float | None = None) -> SessionRecording: ...
    @overload
    def get_recording(self, session_id: str = "", *, timeout_s: float | None = None) -> SessionRecording:
        """Names a session.

        Returns SessionRecording: All that replays a session: how its world was made, the actions it took, and for
        how many `ticks` it ran.
        """

class AsyncAgentService(AsyncService):
    """The methods of hazel.rpc.AgentService."""

    @overload
    async def get_schema(
        self, request: GetAgentSchemaRequest, /, *, timeout_s: float | None = None
    ) -> GetAgentSchemaResponse: ...
    @overload
    async def get_schema(self, agent_name: str = "", *, timeout_s: float | None = None) -> GetAgentSchemaResponse:
        """Asks for an agent's schema; "" means `agent_0`.

        Returns GetAgentSchemaResponse: The agent's schema; sizes are 0 while no agent is registered.
        """

    get_agent_schema = get_schema

    @overload
    async def reset(self, request: ResetAgentRequest, /, *, timeout_s: float | None = None) -> ResetAgentResponse: ...
    @overload
    async def reset(
        self,
        agent_name: str = "",
        *,
        simulation_contract: SimulationContract | None = None,
        timeout_s: float | None = None,
    ) -> ResetAgentResponse:
        """Resets one agent; the contract holds until another one is given. The first observation comes with the next
        step.

        Returns ResetAgentResponse: Whether the agent was reset, else why not.
        """

    reset_agent = reset

    @overload
    async def step(self, request: StepRequest, /, *, timeout_s: float | None = None) -> StepResponse: ...
    @overload
    async def step(
        self,
        agent_name: str = "",
        *,
        actions: Floats = ...,
        engine_timeout_s: float = 0.0,
        camera_requests: Sequence[GetCameraFrameRequest] = ...,
        action_groups: Sequence[ActionGroupEntry] = ...,
        timeout_s: float | None = None,
    ) -> StepResponse:
        """One tick of one agent.

        agent_name: "" means `agent_0`. actions: [action_size], or empty: tick without a new action. timeout_s:
        seconds that the engine waits for physics, 0 = its default. action_groups are laid over `actions`.

        Returns StepResponse: What the tick produced; `success` is False when there was none, mostly because physics
        took too long.
        """

    @overload
    async def set_action_group(
        self, request: SetActionGroupRequest, /, *, timeout_s: float | None = None
    ) -> SetActionGroupResponse: ...
    @overload
    async def set_action_group(
        self, agent_name: str = "", *, group: ActionGroupEntry | None = None, timeout_s: float | None = None
    ) -> SetActionGroupResponse:
        """Preloads one group's actions for the agent's next step.

        Returns SetActionGroupResponse: Whether the group was accepted, else why not.
        """

    @overload
    async def report_progress(self, request: ProgressReport, /, *, timeout_s: float | None = None) -> ProgressAck: ...
    @overload
    async def report_progress(
        self,
        run_id: str = "",
        *,
        task_name: str = "",
        policy_name: str = "",
        phase: str = "",
        current_episode: int = 0,
        total_episodes: int = 0,
        current_step: int = 0,
        max_steps: int = 0,
        elapsed_s: float = 0.0,
        status_text: str = "",
        finished: bool = False,
        timeout_s: float | None = None,
    ) -> ProgressAck:
        """State of a training or evaluation run, for people to see; `elapsed_s` in seconds.

        finished: the run is over, and the engine takes control of the agent back.

        Returns ProgressAck: Whether the engine shows the report.
        """

    @overload
    async def get_capability_manifest(
        self, request: GetCapabilityManifestRequest, /, *, timeout_s: float | None = None
    ) -> GetCapabilityManifestResponse: ...
    @overload
    async def get_capability_manifest(
        self, robot_name: str = "", *, scene: str = "", timeout_s: float | None = None
    ) -> GetCapabilityManifestResponse:
        """Asks what tasks the engine can compose; empty names mean the loaded robot and scene.

        Returns GetCapabilityManifestResponse: The manifest.
        """

    @overload
    async def validate_task_contract(
        self, request: ValidateTaskContractRequest, /, *, timeout_s: float | None = None
    ) -> ValidateTaskContractResponse: ...
    @overload
    async def validate_task_contract(
        self, contract: TaskContract | None = None, *, timeout_s: float | None = None
    ) -> ValidateTaskContractResponse:
        """Asks whether a contract can be met, without changing anything.

        Returns ValidateTaskContractResponse: The findings.
        """

    @overload
    async def negotiate_task(
        self, request: NegotiateTaskRequest, /, *, timeout_s: float | None = None
    ) -> NegotiateTaskResponse: ...
    @overload
    async def negotiate_task(
        self, contract: TaskContract | None = None, *, timeout_s: float | None = None
    ) -> NegotiateTaskResponse:
        """Puts a contract in force for the following steps.

        Returns NegotiateTaskResponse: The session, or why the contract was refused.
        """

    async def list_robot_controllers(
        self, request: ListRobotControllersRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListRobotControllersResponse:
        """Asks for all robots that have a controller.

        Returns ListRobotControllersResponse: All robots that have a controller, in the engine's order.
        """

    @overload
    async def get_robot_controller(
        self, request: GetRobotControllerRequest, /, *, timeout_s: float | None = None
    ) -> GetRobotControllerResponse: ...
    @overload
    async def get_robot_controller(
        self, entity: EntityId | int | None = None, *, timeout_s: float | None = None
    ) -> GetRobotControllerResponse:
        """Asks for one robot's controller.

        Returns GetRobotControllerResponse: The controller; `found` is False where the entity is no robot.
        """

    async def list_policy_descriptors(
        self, request: ListPolicyDescriptorsRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListPolicyDescriptorsResponse:
        """Asks for all policies on offer.

        Returns ListPolicyDescriptorsResponse: All policies on offer.
        """

    @overload
    async def set_policy_active(
        self, request: SetPolicyActiveRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_active(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        active: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Starts or stops the policy in a slot.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_descriptor(
        self, request: SetPolicyDescriptorRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_descriptor(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        descriptor_path: str = "",
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Puts another policy into a slot; overridden gains are dropped.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_driven_joints(
        self, request: SetPolicyDrivenJointsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_driven_joints(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        joint_names: Sequence[str] = ...,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Chooses the joints that a slot drives: exact names, no patterns.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_clamp_observation(
        self, request: SetPolicyClampObservationRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_clamp_observation(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        clamp_observation_for_unclaimed_joints: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Chooses whether a slot's policy sees joints that it does not drive at their defaults.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_priority(
        self, request: SetPolicyPriorityRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_priority(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        priority: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Sets a slot's priority: where two active slots claim a joint, the higher one drives it.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_command_float(
        self, request: SetPolicyCommandFloatRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_command_float(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        value: float = 0.0,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Tells a policy what to do, as a number in the command's own unit (a forward speed in m/s, for instance).

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_command_bool(
        self, request: SetPolicyCommandBoolRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_command_bool(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        value: bool = False,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Tells a policy what to do, as yes or no.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def set_policy_gains(
        self, request: SetPolicyGainsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_policy_gains(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        overrides: Sequence[JointGainOverride] = ...,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Overrides gains until ClearPolicyGains or a change of the slot's policy.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def clear_policy_gains(
        self, request: ClearPolicyGainsRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def clear_policy_gains(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Gives all joints of a slot the policy's own gains again.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def get_policy_command_float(
        self, request: GetPolicyCommandFloatRequest, /, *, timeout_s: float | None = None
    ) -> PolicyCommandFloatValue: ...
    @overload
    async def get_policy_command_float(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyCommandFloatValue:
        """Asks for the present value of a command that is a number.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyCommandFloatValue: The command's value in its own unit, or why there is none.
        """

    @overload
    async def get_policy_command_bool(
        self, request: GetPolicyCommandBoolRequest, /, *, timeout_s: float | None = None
    ) -> PolicyCommandBoolValue: ...
    @overload
    async def get_policy_command_bool(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        command_id: int = 0,
        timeout_s: float | None = None,
    ) -> PolicyCommandBoolValue:
        """Asks for the present value of a command that is yes or no.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyCommandBoolValue: The command's value, or why there is none.
        """

    @overload
    async def set_motion_graph_active(
        self, request: SetMotionGraphActiveRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_motion_graph_active(
        self, entity: EntityId | int | None = None, *, active: bool = False, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Switches a robot's motion graph on or off.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def get_motion_graph_active(
        self, request: GetMotionGraphActiveRequest, /, *, timeout_s: float | None = None
    ) -> GetMotionGraphActiveResponse: ...
    @overload
    async def get_motion_graph_active(
        self, entity: EntityId | int | None = None, *, timeout_s: float | None = None
    ) -> GetMotionGraphActiveResponse:
        """Asks whether a robot's motion graph is on.

        Returns GetMotionGraphActiveResponse: Whether the motion graph is on, or why there is no answer.
        """

    @overload
    async def set_motion_graph_input(
        self, request: SetMotionGraphInputRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def set_motion_graph_input(
        self,
        entity: EntityId | int | None = None,
        *,
        input_id: int = 0,
        value: MotionGraphInputValue | None = None,
        timeout_s: float | None = None,
    ) -> PolicyOperationAck:
        """Sets one input of a robot's motion graph; no method lists the inputs, their ids come from the graph's author.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def get_motion_graph_input(
        self, request: GetMotionGraphInputRequest, /, *, timeout_s: float | None = None
    ) -> GetMotionGraphInputResponse: ...
    @overload
    async def get_motion_graph_input(
        self,
        entity: EntityId | int | None = None,
        *,
        input_id: int = 0,
        type_hint: PolicyCommandType | PolicyCommandTypeName = "float",
        timeout_s: float | None = None,
    ) -> GetMotionGraphInputResponse:
        """Asks for the value of one input, read as `type_hint`.

        Returns GetMotionGraphInputResponse: The input's value, or why there is none.
        """

    @overload
    async def fire_motion_graph_trigger(
        self, request: FireMotionGraphTriggerRequest, /, *, timeout_s: float | None = None
    ) -> PolicyOperationAck: ...
    @overload
    async def fire_motion_graph_trigger(
        self, entity: EntityId | int | None = None, *, input_id: int = 0, timeout_s: float | None = None
    ) -> PolicyOperationAck:
        """Fires one trigger input of a robot's motion graph.

        Returns PolicyOperationAck: Whether the change was made, else why not.
        """

    @overload
    async def get_policy_base_pose(
        self, request: GetPolicyBasePoseRequest, /, *, timeout_s: float | None = None
    ) -> PolicyBasePose: ...
    @overload
    async def get_policy_base_pose(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyBasePose:
        """Asks where the robot's base is; refused while the slot is inactive.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyBasePose: The base in two frames, or why it is not known: metres and radians.
        """

    @overload
    async def get_policy_last_action(
        self, request: GetPolicyLastActionRequest, /, *, timeout_s: float | None = None
    ) -> PolicyLastAction: ...
    @overload
    async def get_policy_last_action(
        self, entity: EntityId | int | None = None, *, slot_id: int = 0, timeout_s: float | None = None
    ) -> PolicyLastAction:
        """Asks what a slot's policy put out last; refused while the slot is inactive or has not run yet.

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Returns PolicyLastAction: What the policy put out when it last ran, one value per joint name, or why there is
        none.
        """

    @overload
    def stream_policy_slot_state(
        self, request: StreamPolicySlotStateRequest, /, *, timeout_s: float | None = None
    ) -> AsyncItemStream[PolicySlotSummary]: ...
    @overload
    def stream_policy_slot_state(
        self,
        entity: EntityId | int | None = None,
        *,
        slot_id: int = 0,
        target_fps: int = 0,
        fps: int = 0,
        timeout_s: float | None = None,
    ) -> AsyncItemStream[PolicySlotSummary]:
        """Asks for one slot's state at `target_fps` messages per second of wall clock (0 = the engine's default).

        entity: the robot, as in `RobotControllerSummary`. slot_id: the slot, as in `PolicySlotSummary`.

        Yields PolicySlotSummary: One slot of a robot controller and the policy in it.
        """

    @overload
    def stream_robot_controller(
        self, request: StreamRobotControllerRequest, /, *, timeout_s: float | None = None
    ) -> AsyncItemStream[RobotControllerSummary]: ...
    @overload
    def stream_robot_controller(
        self, entity: EntityId | int | None = None, *, target_fps: int = 0, fps: int = 0, timeout_s: float | None = None
    ) -> AsyncItemStream[RobotControllerSummary]:
        """Asks for one robot's controller at `target_fps` messages per second of wall clock (0 = the engine's default).

        Yields RobotControllerSummary: One robot, whether its motion graph is on, and its slots.
        """

class AsyncMujocoService(AsyncService):
    """The methods of hazel.rpc.MujocoService."""

    @overload
    async def get_joint_state(
        self, request: GetJointStateRequest, /, *, timeout_s: float | None = None
    ) -> GetJointStateResponse: ...
    @overload
    async def get_joint_state(self, robot_name: str = "", *, timeout_s: float | None = None) -> GetJointStateResponse:
        """Asks for a robot's joint state; "" means `agent_0`'s robot.

        Returns GetJointStateResponse: The joint state, or why there is none.
        """

    @overload
    async def get_info(
        self, request: GetMujocoInfoRequest, /, *, timeout_s: float | None = None
    ) -> GetMujocoInfoResponse: ...
    @overload
    async def get_info(self, robot_name: str = "", *, timeout_s: float | None = None) -> GetMujocoInfoResponse:
        """Asks for the model's sizes and names.

        Returns GetMujocoInfoResponse: Sizes and names of the MuJoCo model.
        """

    get_mujoco_info = get_info

    @overload
    def stream_joint_state(
        self, request: GetJointStateRequest, /, *, timeout_s: float | None = None
    ) -> AsyncItemStream[GetJointStateResponse]: ...
    @overload
    def stream_joint_state(
        self, robot_name: str = "", *, timeout_s: float | None = None
    ) -> AsyncItemStream[GetJointStateResponse]:
        """Asks for a robot's joint state; "" means `agent_0`'s robot.

        Yields GetJointStateResponse: The joint state, or why there is none.
        """

class AsyncMujocoSceneService(AsyncService):
    """The methods of hazel.rpc.MujocoSceneService."""

    async def get_model_info(
        self, request: GetModelInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetModelInfoResponse:
        """Asks for the whole model's description.

        Returns GetModelInfoResponse: Sizes, joints and actuators of the whole model, in MuJoCo's order, or why there
        is none.
        """

    @overload
    async def get_full_state(
        self, request: GetFullStateRequest, /, *, timeout_s: float | None = None
    ) -> GetFullStateResponse: ...
    @overload
    async def get_full_state(
        self,
        include_qpos: bool = False,
        *,
        include_qvel: bool = False,
        include_ctrl: bool = False,
        filter: StateFilter | None = None,
        timeout_s: float | None = None,
    ) -> GetFullStateResponse:
        """Asks for parts of the state, all three when none is named; an absent `filter` means the whole model.

        Returns GetFullStateResponse: The state, or why there is none; the indices say what a filter left and are
        empty without one.
        """

    @overload
    def stream_full_state(
        self, request: StreamFullStateRequest, /, *, timeout_s: float | None = None
    ) -> AsyncItemStream[GetFullStateResponse]: ...
    @overload
    def stream_full_state(
        self,
        target_fps: int = 0,
        *,
        fps: int = 0,
        include_qpos: bool = False,
        include_qvel: bool = False,
        include_ctrl: bool = False,
        filter: StateFilter | None = None,
        timeout_s: float | None = None,
    ) -> AsyncItemStream[GetFullStateResponse]:
        """As GetFullStateRequest, `target_fps` times per second of wall clock (0 = the engine's default).

        Yields GetFullStateResponse: The state, or why there is none; the indices say what a filter left and are
        empty without one.
        """

    @overload
    async def set_control(
        self, request: SetControlRequest, /, *, timeout_s: float | None = None
    ) -> SetControlResponse: ...
    @overload
    async def set_control(
        self,
        bulk: Floats = ...,
        *,
        indexed: Sequence[IndexedControlEntry] = ...,
        named: Sequence[NamedControlEntry] = ...,
        wait_for_next_step: bool = False,
        skip_range_clamp: bool = False,
        timeout_s: float | None = None,
    ) -> SetControlResponse:
        """Sets controls in up to three ways at once; later ones count more: bulk, indexed, named.

        bulk: from actuator 0 on. wait_for_next_step: answer when a step has used the values. skip_range_clamp: take
        values outside the control range as they are.

        Returns SetControlResponse: How many values were taken; an unknown index or name refuses all of them.
        """

    @overload
    async def set_qpos(self, request: SetQposRequest, /, *, timeout_s: float | None = None) -> SetQposResponse: ...
    @overload
    async def set_qpos(
        self,
        bulk: Floats = ...,
        *,
        indexed: Sequence[IndexedQposEntry] = ...,
        force: bool = False,
        skip_policy_reseed: bool = False,
        timeout_s: float | None = None,
    ) -> SetQposResponse:
        """Moves the model to new positions at once; `indexed` counts more than `bulk`.

        bulk: [nq] or empty. force: also where a policy or an agent drives the joint. skip_policy_reseed: leave the
        targets of policies alone, which may pull the robot back.

        Returns SetQposResponse: How many values of qpos were written, or why none.
        """

    async def get_actuator_gains(
        self, request: GetActuatorGainsRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetActuatorGainsResponse:
        """Asks for the gains of all actuators.

        Returns GetActuatorGainsResponse: The gains of all actuators, in MuJoCo's order, or why there are none.
        """

    @overload
    async def reset(self, request: ResetSceneRequest, /, *, timeout_s: float | None = None) -> ResetSceneResponse: ...
    @overload
    async def reset(self, preserve_time: bool = False, *, timeout_s: float | None = None) -> ResetSceneResponse:
        """Puts the model back to keyframe 0, or to qpos0 where it has none; velocities, forces and controls become
        zero.

        preserve_time: simulated time goes on instead of starting at 0.

        Returns ResetSceneResponse: Whether the scene was reset, else why not.
        """

    reset_scene = reset

class AsyncSceneService(AsyncService):
    """The methods of hazel.rpc.SceneService."""

    async def get_info(
        self, request: GetSceneInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetSceneInfoResponse:
        """Asks which scene is loaded.

        Returns GetSceneInfoResponse: The loaded scene; `entity_count` is the number of entities that ListEntities
        returns.
        """

    get_scene_info = get_info

    @overload
    async def list_entities(
        self, request: ListEntitiesRequest, /, *, timeout_s: float | None = None
    ) -> ListEntitiesResponse: ...
    @overload
    async def list_entities(
        self, include_transforms: bool = False, *, include_components: bool = False, timeout_s: float | None = None
    ) -> ListEntitiesResponse:
        """Asks for all entities, with their transforms and components where wanted.

        Returns ListEntitiesResponse: All entities of the scene.
        """

    @overload
    async def get_entity(
        self, request: GetEntityRequest, /, *, timeout_s: float | None = None
    ) -> GetEntityResponse: ...
    @overload
    async def get_entity(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        timeout_s: float | None = None,
    ) -> GetEntityResponse:
        """Asks for one entity by handle or by name (`id` counts when given).

        Returns GetEntityResponse: The entity with everything known of it; `found` is False where there is none.
        """

    @overload
    async def set_entity_transform(
        self, request: SetEntityTransformRequest, /, *, timeout_s: float | None = None
    ) -> SetEntityTransformResponse: ...
    @overload
    async def set_entity_transform(
        self, id: EntityId | int | None = None, *, transform: Transform | None = None, timeout_s: float | None = None
    ) -> SetEntityTransformResponse:
        """Places an entity anew. The whole transform is replaced: fill every part of it.

        Returns SetEntityTransformResponse: Whether the entity was moved, else why not.
        """

    @overload
    async def set_simulation_mode(
        self, request: SetSimulationModeRequest, /, *, timeout_s: float | None = None
    ) -> SetSimulationModeResponse: ...
    @overload
    async def set_simulation_mode(
        self, mode: SimulationMode | SimulationModeName = "realtime", *, timeout_s: float | None = None
    ) -> SetSimulationModeResponse:
        """Changes how simulated time passes; REALTIME may be refused while a client trains.

        Returns SetSimulationModeResponse: Whether the mode was changed, else why not, and the mode in force now.
        """

    async def get_simulation_mode(
        self, request: GetSimulationModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetSimulationModeResponse:
        """Asks how simulated time passes.

        Returns GetSimulationModeResponse: The mode in force.
        """

    async def enter_play_mode(
        self, request: EnterPlayModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> EnterPlayModeResponse:
        """Starts the simulation; answered at once, poll GetAgentSchema until the agents are there.

        Returns EnterPlayModeResponse: Whether play mode starts, else why not.
        """

    async def exit_play_mode(
        self, request: ExitPlayModeRequest = ..., /, *, timeout_s: float | None = None
    ) -> ExitPlayModeResponse:
        """Stops the simulation and with it the training session; answered at once.

        Returns ExitPlayModeResponse: Whether play mode ends, else why not.
        """

class AsyncCameraService(AsyncService):
    """The methods of hazel.rpc.CameraService."""

    async def list(
        self, request: ListCamerasRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListCamerasResponse:
        """Asks for all cameras.

        Returns ListCamerasResponse: All cameras of the scene.
        """

    list_cameras = list

    @overload
    def stream(
        self, request: StreamCameraRequest, /, *, timeout_s: float | None = None, copy: bool = True
    ) -> AsyncItemStream[ImageFrame]: ...
    @overload
    def stream(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        target_fps: int = 0,
        fps: int = 0,
        width: int = 0,
        height: int = 0,
        format: str = "",
        timeout_s: float | None = None,
        copy: bool = True,
    ) -> AsyncItemStream[ImageFrame]:
        """Asks for a camera's colour images, by entity or by name (`id` counts when given).

        target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 =
        the camera's own. format: "raw" or "jpeg"; engines always send raw.

        Yields ImageFrame: One image, uncompressed: rows from the top, pixels from the left.
        """

    stream_camera = stream

    @overload
    async def get_config(
        self, request: GetCameraConfigRequest, /, *, timeout_s: float | None = None
    ) -> CameraConfigResponse: ...
    @overload
    async def get_config(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        timeout_s: float | None = None,
    ) -> CameraConfigResponse:
        """Asks how a camera is set, by entity or by name (`id` counts when given).

        Returns CameraConfigResponse: How the camera is set; `found` is False where there is none.
        """

    get_camera_config = get_config

    @overload
    async def set_config(
        self, request: SetCameraConfigRequest, /, *, timeout_s: float | None = None
    ) -> CameraConfigAck: ...
    @overload
    async def set_config(
        self,
        name_or_id: str | int | EntityId = ...,
        /,
        *,
        id: EntityId | int | None = None,
        name: str = "",
        config: CameraConfig | None = None,
        timeout_s: float | None = None,
    ) -> CameraConfigAck:
        """Sets a camera, by entity or by name (`id` counts when given).

        Returns CameraConfigAck: Whether the camera was set, else why not.
        """

    set_camera_config = set_config

class AsyncTelemetryService(AsyncService):
    """The methods of hazel.rpc.TelemetryService."""

    async def get_schema(
        self, request: GetTelemetrySchemaRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetTelemetrySchemaResponse:
        """Asks for the names and sizes.

        Returns GetTelemetrySchemaResponse: The names and sizes.
        """

    get_telemetry_schema = get_schema

    @overload
    def stream(
        self, request: StreamTelemetryRequest, /, *, timeout_s: float | None = None
    ) -> AsyncItemStream[TelemetryFrame]: ...
    @overload
    def stream(
        self, target_fps: int = 0, *, fps: int = 0, timeout_s: float | None = None
    ) -> AsyncItemStream[TelemetryFrame]:
        """Asks for samples, `target_fps` per second of wall clock as a wish (0 = the engine's default).

        Yields TelemetryFrame: One sample.
        """

    stream_telemetry = stream

class AsyncViewportService(AsyncService):
    """The methods of hazel.rpc.ViewportService."""

    async def get_info(
        self, request: GetViewportInfoRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetViewportInfoResponse:
        """Asks for the viewports.

        Returns GetViewportInfoResponse: Names of the viewports, and the stream that runs now.
        """

    get_viewport_info = get_info

    @overload
    def stream(
        self, request: StartViewportStreamRequest, /, *, timeout_s: float | None = None, copy: bool = True
    ) -> AsyncItemStream[ImageFrame]: ...
    @overload
    def stream(
        self,
        viewport_name: str = "",
        *,
        target_fps: int = 0,
        fps: int = 0,
        width: int = 0,
        height: int = 0,
        format: str = "",
        timeout_s: float | None = None,
        copy: bool = True,
    ) -> AsyncItemStream[ImageFrame]:
        """Asks for a viewport's images; "" means the only one.

        target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 =
        the viewport's own. format: "raw" or "jpeg"; engines always send raw.

        Yields ImageFrame: One image, uncompressed: rows from the top, pixels from the left.
        """

    stream_viewport = stream

class AsyncDebugService(AsyncService):
    """The methods of hazel.rpc.DebugService."""

    @overload
    async def draw(self, request: DebugDrawRequest, /, *, timeout_s: float | None = None) -> DebugDrawResponse: ...
    @overload
    async def draw(
        self,
        lines: Sequence[DebugLine] = ...,
        *,
        arrows: Sequence[DebugArrow] = ...,
        velocity_command: DebugVelocityCommand | None = None,
        clear_previous: bool = False,
        timeout_s: float | None = None,
    ) -> DebugDrawResponse:
        """Everything to draw in one call; `clear_previous` removes what earlier calls drew.

        Returns DebugDrawResponse: Whether it was drawn.
        """

class AsyncLidarService(AsyncService):
    """The methods of hazel.rpc.LidarService."""

    @overload
    async def set_live(self, request: SetLidarLiveRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    async def set_live(self, live: bool = False, *, timeout_s: float | None = None) -> LidarAck:
        """Switches the sensors on or off; they must be on before scans are read, and stay so through resets.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_live = set_live

    @overload
    async def set_config(self, request: SetLidarConfigRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    async def set_config(
        self,
        sensor: int = 0,
        *,
        scan_pattern: int = 0,
        channels: int = 0,
        azimuth_bins: int = 0,
        vfov_min_deg: float = 0.0,
        vfov_max_deg: float = 0.0,
        min_range: float = 0.0,
        max_range: float = 0.0,
        rotation_hz: float = 0.0,
        geom_group_mask: int = 0,
        self_ignore: int = 0,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Sets the beams of one sensor: `channels` in elevation times `azimuth_bins` around.

        vfov_min_deg, vfov_max_deg: lowest and highest elevation, degrees. min_range, max_range: metres. rotation_hz:
        turns per second. geom_group_mask: one bit per MuJoCo geom group. self_ignore: 1 = beams pass through the
        sensor's own body.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_config = set_config

    @overload
    async def get_config(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarConfigResponse: ...
    @overload
    async def get_config(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarConfigResponse:
        """Names a sensor, from 0.

        Returns LidarConfigResponse: The beams of one sensor; `found` is False where there is no such sensor.
        """

    get_lidar_config = get_config

    @overload
    async def set_return_params(
        self, request: SetLidarReturnParamsRequest, /, *, timeout_s: float | None = None
    ) -> LidarAck: ...
    @overload
    async def set_return_params(
        self,
        max_range_at_ref: float = 0.0,
        *,
        ref_reflectivity: float = 0.0,
        range_exp: float = 0.0,
        noise_sigma0: float = 0.0,
        grazing_cos_cutoff: float = 0.0,
        intensity_ref_range: float = 0.0,
        detect_floor: float = 0.0,
        near_range_r0: float = 0.0,
        noise_slope_per_m: float = 0.0,
        spec_slope_floor: float | None = None,
        spec_peak_max: float | None = None,
        retro_gain: float | None = None,
        retro_cos_exp: float | None = None,
        fold_max_slope: float | None = None,
        range_floor: float | None = None,
        min_return_separation: float | None = None,
        max_returns: int | None = None,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Sets how strong a return is, how noisy, and when it is lost, for all sensors.

        A field that may be None keeps what is in force where it is; all others are set.

        max_range_at_ref: metres at which a surface of `ref_reflectivity` (0 to 1) is just seen. range_exp: exponent
        of the fall with distance. noise_sigma0: metres; noise_slope_per_m: metres per metre. grazing_cos_cutoff:
        cosine of the incidence below which nothing returns. intensity_ref_range, near_range_r0, range_floor,
        min_return_separation: metres.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_return_params = set_return_params

    async def get_return_params(
        self, request: GetLidarReturnParamsRequest = ..., /, *, timeout_s: float | None = None
    ) -> LidarReturnParamsResponse:
        """Asks for the return model in force.

        Returns LidarReturnParamsResponse: The return model in force, as in SetLidarReturnParamsRequest.
        """

    get_lidar_return_params = get_return_params

    @overload
    async def set_preset(self, request: SetLidarPresetRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    async def set_preset(self, preset: int = 0, *, timeout_s: float | None = None) -> LidarAck:
        """Sets every sensor to one of the engine's presets, from 0.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_preset = set_preset

    @overload
    async def set_secondary_capture(
        self, request: SetLidarSecondaryCaptureRequest, /, *, timeout_s: float | None = None
    ) -> LidarAck: ...
    @overload
    async def set_secondary_capture(
        self, sensor: int = 0, *, capture: int = 0, scope: int = 0, timeout_s: float | None = None
    ) -> LidarAck:
        """What becomes of a beam after its first hit.

        capture: 0 nothing, 1 it passes through, 2 it is reflected, 3 both. scope: 0 where the material suggests it,
        1 at every hit.

        Returns LidarAck: Whether the change was made, else why not.
        """

    set_lidar_secondary_capture = set_secondary_capture

    @overload
    async def bake_material(
        self, request: BakeLidarMaterialRequest, /, *, timeout_s: float | None = None
    ) -> LidarAck: ...
    @overload
    async def bake_material(
        self,
        cell_size: float = 0.0,
        *,
        max_dim: int = 0,
        splat_radius: int = 0,
        include_hidden: int = 0,
        timeout_s: float | None = None,
    ) -> LidarAck:
        """Builds the grid that tells the material at a place; it walks the whole scene and takes its time.

        0 = the scene's own setting. cell_size: metres. max_dim: cells along the longest side. splat_radius: cells,
        -1 = a radius of 0. include_hidden: 1 include, 2 exclude.

        Returns LidarAck: Whether the change was made, else why not.
        """

    bake_lidar_material = bake_material

    @overload
    async def get_bake_status(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBakeStatusResponse: ...
    @overload
    async def get_bake_status(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBakeStatusResponse:
        """Names a sensor, from 0.

        Returns LidarBakeStatusResponse: What the grid holds and whether it still fits the scene.
        """

    get_lidar_bake_status = get_bake_status

    @overload
    async def load_bake(self, request: LoadLidarBakeRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    async def load_bake(self, name: str = "", *, timeout_s: float | None = None) -> LidarAck:
        """Loads a grid that was saved under that name.

        Returns LidarAck: Whether the change was made, else why not.
        """

    load_lidar_bake = load_bake

    @overload
    async def save_bake(self, request: SaveLidarBakeRequest, /, *, timeout_s: float | None = None) -> LidarAck: ...
    @overload
    async def save_bake(self, name: str = "", *, timeout_s: float | None = None) -> LidarAck:
        """Saves the grid under that name.

        Returns LidarAck: Whether the change was made, else why not.
        """

    save_lidar_bake = save_bake

    @overload
    async def get_scan(
        self, request: GetLidarScanRequest, /, *, timeout_s: float | None = None
    ) -> LidarScanResponse: ...
    @overload
    async def get_scan(
        self,
        sensor: int = 0,
        *,
        material: bool = False,
        want_secondary: bool = False,
        want_intensity: bool = False,
        timeout_s: float | None = None,
    ) -> LidarScanResponse:
        """Asks for one scan of a sensor; what is not wanted comes empty.

        material: apply the return model, without which intensities mean nothing.

        Returns LidarScanResponse: One scan, one value per beam where it was asked for.
        """

    get_lidar_scan = get_scan

    @overload
    async def get_beam_count(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBeamCountResponse: ...
    @overload
    async def get_beam_count(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBeamCountResponse:
        """Names a sensor, from 0.

        Returns LidarBeamCountResponse: How many beams a scan has.
        """

    get_lidar_beam_count = get_beam_count

    @overload
    async def get_beam_angles(
        self, request: LidarSensorRequest, /, *, timeout_s: float | None = None
    ) -> LidarBeamAnglesResponse: ...
    @overload
    async def get_beam_angles(self, sensor: int = 0, *, timeout_s: float | None = None) -> LidarBeamAnglesResponse:
        """Names a sensor, from 0.

        Returns LidarBeamAnglesResponse: Direction of each beam in radians, in the order of LidarScanResponse.ranges:
        azimuth about the vertical, elevation above the horizon.
        """

    get_lidar_beam_angles = get_beam_angles

class AsyncBatchService(AsyncService):
    """The methods of lucky_transport.v1.BatchService."""

    @overload
    async def set_seeds(self, request: SetSeedsRequest, /, *, timeout_s: float | None = None) -> SetSeedsResponse: ...
    @overload
    async def set_seeds(
        self, seeds: Integers = ..., *, mask: bytes | bytearray | memoryview = b"", timeout_s: float | None = None
    ) -> SetSeedsResponse:
        """Seeds for the next reset, one per env; `mask` (one byte per env, empty = all) says which of them count.

        Returns SetSeedsResponse: Whether the engine takes seeds, else why not.
        """

    @overload
    async def set_reset_options(
        self, request: SetResetOptionsRequest, /, *, timeout_s: float | None = None
    ) -> SetResetOptionsResponse: ...
    @overload
    async def set_reset_options(
        self, contract: SimulationContract | None = None, *, options_json: str = "", timeout_s: float | None = None
    ) -> SetResetOptionsResponse:
        """Randomisation and other options for the envs reset next; `options_json` is a JSON object ("" = none).

        With neither, resets are as before the first such call.

        Returns SetResetOptionsResponse: Whether the engine took the options, else why not.
        """

class AsyncStateService(AsyncService):
    """The methods of lucky_transport.v1.StateService."""

    @overload
    async def get(self, request: GetStateRequest, /, *, timeout_s: float | None = None) -> GetStateResponse: ...
    @overload
    async def get(self, env: int = 0, *, timeout_s: float | None = None) -> GetStateResponse:
        """Asks for the state of an env.

        Returns GetStateResponse: All that the env's course depends on; `SetState` takes it back.
        """

    get_state = get

    @overload
    async def set(self, request: SetStateRequest, /, *, timeout_s: float | None = None) -> SetStateResponse: ...
    @overload
    async def set(
        self, env: int = 0, *, state: bytes | bytearray | memoryview = b"", timeout_s: float | None = None
    ) -> SetStateResponse:
        """Puts an env into a state that `GetState` gave of an env of the same engine.

        Returns SetStateResponse: What is observed in that state: one row of the spec's observation.
        """

    set_state = set

class AsyncSessionService(AsyncService):
    """The methods of lucky_transport.v1.SessionService."""

    async def get_worlds(
        self, request: GetWorldsRequest = ..., /, *, timeout_s: float | None = None
    ) -> GetWorldsResponse:
        """Asks for the worlds that the engine offers.

        Returns GetWorldsResponse: maps: names of worlds, the first is the default. events: names that may interrupt
        an advance. tick_s: the simulated time of a tick, in seconds.
        """

    @overload
    async def create(
        self, request: CreateSessionRequest, /, *, timeout_s: float | None = None
    ) -> CreateSessionResponse: ...
    @overload
    async def create(
        self,
        map_name: str = "",
        *,
        seed: int | None = None,
        options_json: str = "",
        owned: bool = False,
        record: bool = False,
        recording: SessionRecording | None = None,
        timeout_s: float | None = None,
    ) -> CreateSessionResponse:
        """Asks for a session. `map_name` "" is the default one, `options_json` a JSON object ("" = none).

        owned: it is destroyed when the client that created it leaves. record: its actions are kept for GetRecording.
        recording: replay this one instead; of the other fields only `owned` then counts.

        Returns CreateSessionResponse: The id of the new session, whose world is being built.
        """

    create_session = create

    @overload
    async def get(self, request: SessionRequest, /, *, timeout_s: float | None = None) -> SessionStatus: ...
    @overload
    async def get(self, session_id: str = "", *, timeout_s: float | None = None) -> SessionStatus:
        """Names a session.

        Returns SessionStatus: The status of a session. `phase` is creating, ready, playing, over, failed or gone.
        """

    get_session = get

    async def list(
        self, request: ListSessionsRequest = ..., /, *, timeout_s: float | None = None
    ) -> ListSessionsResponse:
        """Asks for the ids of all sessions.

        Returns ListSessionsResponse: The ids, oldest first.
        """

    list_sessions = list

    @overload
    async def advance(
        self, request: AdvanceSessionRequest, /, *, timeout_s: float | None = None
    ) -> AdvanceSessionResponse: ...
    @overload
    async def advance(
        self,
        session_id: str = "",
        *,
        ticks: int = 0,
        actions: Sequence[SessionAction] = ...,
        interrupts: Sequence[str] = ...,
        check_every: int = 0,
        timeout_s: float | None = None,
    ) -> AdvanceSessionResponse:
        """Asks a world to take `actions` and advance by `ticks` (0: only the snapshot).

        interrupts: events that end the advance early, checked every `check_every` ticks (0 counts as 1).

        Returns AdvanceSessionResponse: The world afterwards, the ticks it did, and the event that ended it early (""
        when none did).
        """

    advance_session = advance

    @overload
    async def act_in(
        self, request: ActInSessionRequest, /, *, timeout_s: float | None = None
    ) -> ActInSessionResponse: ...
    @overload
    async def act_in(
        self, session_id: str = "", *, actions: Sequence[SessionAction] = ..., timeout_s: float | None = None
    ) -> ActInSessionResponse:
        """Has a world take these actions in its next tick; at most 16 are pending.

        Returns ActInSessionResponse: The number of older actions that were dropped for these.
        """

    act_in_session = act_in

    @overload
    async def run(self, request: RunSessionRequest, /, *, timeout_s: float | None = None) -> RunSessionResponse: ...
    @overload
    async def run(
        self, session_id: str = "", *, rate_hz: float | None = None, timeout_s: float | None = None
    ) -> RunSessionResponse:
        """Lets a session run freely, `rate_hz` ticks a second (0: as fast as it can); absent stops it.

        Returns RunSessionResponse: The session runs, or stands still.
        """

    run_session = run

    @overload
    async def get_latest(self, request: GetLatestRequest, /, *, timeout_s: float | None = None) -> SessionSnapshot: ...
    @overload
    async def get_latest(
        self, session_id: str = "", *, after_tick: int | None = None, timeout_s: float | None = None
    ) -> SessionSnapshot:
        """Asks for the newest snapshot of a world, later than `after_tick` where that is given.

        The engine waits only a moment: a response without an observation means that there is none yet; ask again.

        Returns SessionSnapshot: A world at tick `ticks`: its observation, encoded, and how far it has come.
        """

    @overload
    async def restart(
        self, request: RestartSessionRequest, /, *, timeout_s: float | None = None
    ) -> SessionSnapshot: ...
    @overload
    async def restart(
        self, session_id: str = "", *, seed: int | None = None, timeout_s: float | None = None
    ) -> SessionSnapshot:
        """Restarts a session's world with `seed` (absent: the engine's choice).

        Returns SessionSnapshot: A world at tick `ticks`: its observation, encoded, and how far it has come.
        """

    restart_session = restart

    @overload
    async def destroy(
        self, request: SessionRequest, /, *, timeout_s: float | None = None
    ) -> DestroySessionResponse: ...
    @overload
    async def destroy(self, session_id: str = "", *, timeout_s: float | None = None) -> DestroySessionResponse:
        """Names a session.

        Returns DestroySessionResponse: There is no session of that id any more.
        """

    destroy_session = destroy

    @overload
    async def get_recording(
        self, request: SessionRequest, /, *, timeout_s: float | None = None
    ) -> SessionRecording: ...
    @overload
    async def get_recording(self, session_id: str = "", *, timeout_s: float | None = None) -> SessionRecording:
        """Names a session.

        Returns SessionRecording: All that replays a session: how its world was made, the actions it took, and for
        how many `ticks` it ran.
        """

class Services:
    """One attribute per service."""

    agent: AgentService
    mujoco: MujocoService
    mujoco_scene: MujocoSceneService
    scene: SceneService
    camera: CameraService
    telemetry: TelemetryService
    viewport: ViewportService
    debug: DebugService
    lidar: LidarService
    batch: BatchService
    state: StateService
    session: SessionService
    def __init__(self, transport: Transport) -> None: ...

class AsyncServices:
    """One attribute per service for asyncio."""

    agent: AsyncAgentService
    mujoco: AsyncMujocoService
    mujoco_scene: AsyncMujocoSceneService
    scene: AsyncSceneService
    camera: AsyncCameraService
    telemetry: AsyncTelemetryService
    viewport: AsyncViewportService
    debug: AsyncDebugService
    lidar: AsyncLidarService
    batch: AsyncBatchService
    state: AsyncStateService
    session: AsyncSessionService
    def __init__(self, link: AsyncLink) -> None: ...
