/* Numbers of the command channel: kinds of envelopes, methods, errors, and the slot of each field in its table.
 *
 * Made from proto/ by schema/generate.py; do not edit.
 */
#ifndef LUCKY_SCHEMA_H
#define LUCKY_SCHEMA_H

#include <stdint.h>

#define LUCKY_KIND_REQUEST 0u
#define LUCKY_KIND_RESPONSE 1u
#define LUCKY_KIND_STREAM_ITEM 2u
#define LUCKY_KIND_CREDIT 3u
#define LUCKY_KIND_HALF_CLOSE 4u
#define LUCKY_KIND_END 5u
#define LUCKY_KIND_CANCEL 6u
#define LUCKY_KIND_ERROR 7u
#define LUCKY_KIND_FRAGMENT 8u
#define LUCKY_KIND_HEADERS 9u
#define LUCKY_METHOD_AgentService_GetAgentSchema 1u
#define LUCKY_METHOD_AgentService_ResetAgent 2u
#define LUCKY_METHOD_AgentService_Step 3u
#define LUCKY_METHOD_AgentService_SetActionGroup 4u
#define LUCKY_METHOD_AgentService_ReportProgress 5u
#define LUCKY_METHOD_AgentService_GetCapabilityManifest 6u
#define LUCKY_METHOD_AgentService_ValidateTaskContract 7u
#define LUCKY_METHOD_AgentService_NegotiateTask 8u
#define LUCKY_METHOD_AgentService_ListRobotControllers 9u
#define LUCKY_METHOD_AgentService_GetRobotController 10u
#define LUCKY_METHOD_AgentService_ListPolicyDescriptors 11u
#define LUCKY_METHOD_AgentService_SetPolicyActive 12u
#define LUCKY_METHOD_AgentService_SetPolicyDescriptor 13u
#define LUCKY_METHOD_AgentService_SetPolicyDrivenJoints 14u
#define LUCKY_METHOD_AgentService_SetPolicyClampObservation 15u
#define LUCKY_METHOD_AgentService_SetPolicyPriority 16u
#define LUCKY_METHOD_AgentService_SetPolicyCommandFloat 17u
#define LUCKY_METHOD_AgentService_SetPolicyCommandBool 18u
#define LUCKY_METHOD_AgentService_SetPolicyGains 19u
#define LUCKY_METHOD_AgentService_ClearPolicyGains 20u
#define LUCKY_METHOD_AgentService_GetPolicyCommandFloat 21u
#define LUCKY_METHOD_AgentService_GetPolicyCommandBool 22u
#define LUCKY_METHOD_AgentService_SetMotionGraphActive 23u
#define LUCKY_METHOD_AgentService_GetMotionGraphActive 24u
#define LUCKY_METHOD_AgentService_SetMotionGraphInput 25u
#define LUCKY_METHOD_AgentService_GetMotionGraphInput 26u
#define LUCKY_METHOD_AgentService_FireMotionGraphTrigger 27u
#define LUCKY_METHOD_AgentService_GetPolicyBasePose 28u
#define LUCKY_METHOD_AgentService_GetPolicyLastAction 29u
#define LUCKY_METHOD_AgentService_StreamPolicySlotState 30u
#define LUCKY_METHOD_AgentService_StreamRobotController 31u
#define LUCKY_METHOD_MujocoService_GetJointState 40u
#define LUCKY_METHOD_MujocoService_GetMujocoInfo 41u
#define LUCKY_METHOD_MujocoService_StreamJointState 42u
#define LUCKY_METHOD_MujocoSceneService_GetModelInfo 50u
#define LUCKY_METHOD_MujocoSceneService_GetFullState 51u
#define LUCKY_METHOD_MujocoSceneService_StreamFullState 52u
#define LUCKY_METHOD_MujocoSceneService_SetControl 53u
#define LUCKY_METHOD_MujocoSceneService_SetQpos 54u
#define LUCKY_METHOD_MujocoSceneService_GetActuatorGains 55u
#define LUCKY_METHOD_MujocoSceneService_ResetScene 56u
#define LUCKY_METHOD_SceneService_GetSceneInfo 60u
#define LUCKY_METHOD_SceneService_ListEntities 61u
#define LUCKY_METHOD_SceneService_GetEntity 62u
#define LUCKY_METHOD_SceneService_SetEntityTransform 63u
#define LUCKY_METHOD_SceneService_SetSimulationMode 64u
#define LUCKY_METHOD_SceneService_GetSimulationMode 65u
#define LUCKY_METHOD_SceneService_EnterPlayMode 66u
#define LUCKY_METHOD_SceneService_ExitPlayMode 67u
#define LUCKY_METHOD_CameraService_ListCameras 80u
#define LUCKY_METHOD_CameraService_StreamCamera 81u
#define LUCKY_METHOD_CameraService_GetCameraConfig 82u
#define LUCKY_METHOD_CameraService_SetCameraConfig 83u
#define LUCKY_METHOD_TelemetryService_GetTelemetrySchema 90u
#define LUCKY_METHOD_TelemetryService_StreamTelemetry 91u
#define LUCKY_METHOD_ViewportService_GetViewportInfo 100u
#define LUCKY_METHOD_ViewportService_StreamViewport 101u
#define LUCKY_METHOD_DebugService_Draw 110u
#define LUCKY_METHOD_LidarService_SetLidarLive 120u
#define LUCKY_METHOD_LidarService_SetLidarConfig 121u
#define LUCKY_METHOD_LidarService_GetLidarConfig 122u
#define LUCKY_METHOD_LidarService_SetLidarReturnParams 123u
#define LUCKY_METHOD_LidarService_GetLidarReturnParams 124u
#define LUCKY_METHOD_LidarService_SetLidarPreset 125u
#define LUCKY_METHOD_LidarService_SetLidarSecondaryCapture 126u
#define LUCKY_METHOD_LidarService_BakeLidarMaterial 127u
#define LUCKY_METHOD_LidarService_GetLidarBakeStatus 128u
#define LUCKY_METHOD_LidarService_LoadLidarBake 129u
#define LUCKY_METHOD_LidarService_SaveLidarBake 130u
#define LUCKY_METHOD_LidarService_GetLidarScan 131u
#define LUCKY_METHOD_LidarService_GetLidarBeamCount 132u
#define LUCKY_METHOD_LidarService_GetLidarBeamAngles 133u
#define LUCKY_METHOD_BatchService_SetSeeds 200u
#define LUCKY_METHOD_BatchService_SetResetOptions 201u
#define LUCKY_METHOD_StateService_GetState 210u
#define LUCKY_METHOD_StateService_SetState 211u
#define LUCKY_METHOD_SessionService_GetWorlds 220u
#define LUCKY_METHOD_SessionService_CreateSession 221u
#define LUCKY_METHOD_SessionService_GetSession 222u
#define LUCKY_METHOD_SessionService_ListSessions 223u
#define LUCKY_METHOD_SessionService_AdvanceSession 224u
#define LUCKY_METHOD_SessionService_ActInSession 225u
#define LUCKY_METHOD_SessionService_RunSession 226u
#define LUCKY_METHOD_SessionService_GetLatest 227u
#define LUCKY_METHOD_SessionService_RestartSession 228u
#define LUCKY_METHOD_SessionService_DestroySession 229u
#define LUCKY_METHOD_SessionService_GetRecording 230u
#define LUCKY_ERROR_TransportError 1u
#define LUCKY_ERROR_ConfigError 2u
#define LUCKY_ERROR_UnknownName 3u
#define LUCKY_ERROR_MissingExtra 4u
#define LUCKY_ERROR_BrokenPlugin 5u
#define LUCKY_ERROR_NotReachable 6u
#define LUCKY_ERROR_PeerDied 7u
#define LUCKY_ERROR_PeerTimeout 8u
#define LUCKY_ERROR_Busy 9u
#define LUCKY_ERROR_ClosedError 10u
#define LUCKY_ERROR_LocalProtocolError 11u
#define LUCKY_ERROR_RemoteProtocolError 12u
#define LUCKY_ERROR_SegmentError 13u
#define LUCKY_ERROR_NoSpace 14u
#define LUCKY_ERROR_SpecError 15u
#define LUCKY_ERROR_EngineFailed 16u
#define LUCKY_ERROR_Unimplemented 17u
#define LUCKY_ERROR_Cancelled 18u
#define LUCKY_ERROR_StatusError 19u
#define LUCKY_ERROR_UnknownSession 20u
#define LUCKY_ERROR_SessionEnded 21u
#define LUCKY_ERROR_DeviceError 22u
/* Names of the errors, by code. */
static const char *const LUCKY_ERRORS[] = {
    "",
    "TransportError",
    "ConfigError",
    "UnknownName",
    "MissingExtra",
    "BrokenPlugin",
    "NotReachable",
    "PeerDied",
    "PeerTimeout",
    "Busy",
    "ClosedError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "SegmentError",
    "NoSpace",
    "SpecError",
    "EngineFailed",
    "Unimplemented",
    "Cancelled",
    "StatusError",
    "UnknownSession",
    "SessionEnded",
    "DeviceError",
};
#define LUCKY_GIL_LOOKS 64
#define LUCKY_PAUSE_NS 10000
#define LUCKY_LOST_CORE_NS 1000000
#define LUCKY_LOST_CORE_WAITS 256
#define LUCKY_PAUSES 16
#define LUCKY_YIELD_NS 150000
#define LUCKY_SOON_NS 800000
#define LUCKY_SCORE_SOON 4
#define LUCKY_SCORE_LATE (-2)
#define LUCKY_SLICE_NS 30000000
#define LUCKY_SIGNAL_LOOKS 64
#define LUCKY_SPIN_SLICE_NS 10000000
#define LUCKY_POLL_NS 500000
#define LUCKY_TAKE_OVER_NS 200000000
#define LUCKY_FREED_POLL_NS 1000000
#define LUCKY_FREED_SLICE_NS 20000000
#define LUCKY_CONTROL_RESET 1u
#define LUCKY_CONTROL_HOLD 2u
#define LUCKY_CONTROL_TICK 4u
#define LUCKY_STATE_READY 1u
#define LUCKY_STATE_CLOSING 2u
#define LUCKY_IMAGES_MAGIC 0x4d494b4cu
#define LUCKY_IMAGES_VERSION 2u
#define LUCKY_DEFAULT_RING_BYTES 524288u
#define LUCKY_RING_READ 128
#define LUCKY_RING_WRITER_PARK 192
#define LUCKY_RING_SKIP 0xffffffffu
/* Full names of the methods, for messages. */
static const struct {
    uint32_t id;
    const char *path;
} LUCKY_METHODS[] = {
    {1u, "/hazel.rpc.AgentService/GetAgentSchema"},
    {2u, "/hazel.rpc.AgentService/ResetAgent"},
    {3u, "/hazel.rpc.AgentService/Step"},
    {4u, "/hazel.rpc.AgentService/SetActionGroup"},
    {5u, "/hazel.rpc.AgentService/ReportProgress"},
    {6u, "/hazel.rpc.AgentService/GetCapabilityManifest"},
    {7u, "/hazel.rpc.AgentService/ValidateTaskContract"},
    {8u, "/hazel.rpc.AgentService/NegotiateTask"},
    {9u, "/hazel.rpc.AgentService/ListRobotControllers"},
    {10u, "/hazel.rpc.AgentService/GetRobotController"},
    {11u, "/hazel.rpc.AgentService/ListPolicyDescriptors"},
    {12u, "/hazel.rpc.AgentService/SetPolicyActive"},
    {13u, "/hazel.rpc.AgentService/SetPolicyDescriptor"},
    {14u, "/hazel.rpc.AgentService/SetPolicyDrivenJoints"},
    {15u, "/hazel.rpc.AgentService/SetPolicyClampObservation"},
    {16u, "/hazel.rpc.AgentService/SetPolicyPriority"},
    {17u, "/hazel.rpc.AgentService/SetPolicyCommandFloat"},
    {18u, "/hazel.rpc.AgentService/SetPolicyCommandBool"},
    {19u, "/hazel.rpc.AgentService/SetPolicyGains"},
    {20u, "/hazel.rpc.AgentService/ClearPolicyGains"},
    {21u, "/hazel.rpc.AgentService/GetPolicyCommandFloat"},
    {22u, "/hazel.rpc.AgentService/GetPolicyCommandBool"},
    {23u, "/hazel.rpc.AgentService/SetMotionGraphActive"},
    {24u, "/hazel.rpc.AgentService/GetMotionGraphActive"},
    {25u, "/hazel.rpc.AgentService/SetMotionGraphInput"},
    {26u, "/hazel.rpc.AgentService/GetMotionGraphInput"},
    {27u, "/hazel.rpc.AgentService/FireMotionGraphTrigger"},
    {28u, "/hazel.rpc.AgentService/GetPolicyBasePose"},
    {29u, "/hazel.rpc.AgentService/GetPolicyLastAction"},
    {30u, "/hazel.rpc.AgentService/StreamPolicySlotState"},
    {31u, "/hazel.rpc.AgentService/StreamRobotController"},
    {40u, "/hazel.rpc.MujocoService/GetJointState"},
    {41u, "/hazel.rpc.MujocoService/GetMujocoInfo"},
    {42u, "/hazel.rpc.MujocoService/StreamJointState"},
    {50u, "/hazel.rpc.MujocoSceneService/GetModelInfo"},
    {51u, "/hazel.rpc.MujocoSceneService/GetFullState"},
    {52u, "/hazel.rpc.MujocoSceneService/StreamFullState"},
    {53u, "/hazel.rpc.MujocoSceneService/SetControl"},
    {54u, "/hazel.rpc.MujocoSceneService/SetQpos"},
    {55u, "/hazel.rpc.MujocoSceneService/GetActuatorGains"},
    {56u, "/hazel.rpc.MujocoSceneService/ResetScene"},
    {60u, "/hazel.rpc.SceneService/GetSceneInfo"},
    {61u, "/hazel.rpc.SceneService/ListEntities"},
    {62u, "/hazel.rpc.SceneService/GetEntity"},
    {63u, "/hazel.rpc.SceneService/SetEntityTransform"},
    {64u, "/hazel.rpc.SceneService/SetSimulationMode"},
    {65u, "/hazel.rpc.SceneService/GetSimulationMode"},
    {66u, "/hazel.rpc.SceneService/EnterPlayMode"},
    {67u, "/hazel.rpc.SceneService/ExitPlayMode"},
    {80u, "/hazel.rpc.CameraService/ListCameras"},
    {81u, "/hazel.rpc.CameraService/StreamCamera"},
    {82u, "/hazel.rpc.CameraService/GetCameraConfig"},
    {83u, "/hazel.rpc.CameraService/SetCameraConfig"},
    {90u, "/hazel.rpc.TelemetryService/GetTelemetrySchema"},
    {91u, "/hazel.rpc.TelemetryService/StreamTelemetry"},
    {100u, "/hazel.rpc.ViewportService/GetViewportInfo"},
    {101u, "/hazel.rpc.ViewportService/StreamViewport"},
    {110u, "/hazel.rpc.DebugService/Draw"},
    {120u, "/hazel.rpc.LidarService/SetLidarLive"},
    {121u, "/hazel.rpc.LidarService/SetLidarConfig"},
    {122u, "/hazel.rpc.LidarService/GetLidarConfig"},
    {123u, "/hazel.rpc.LidarService/SetLidarReturnParams"},
    {124u, "/hazel.rpc.LidarService/GetLidarReturnParams"},
    {125u, "/hazel.rpc.LidarService/SetLidarPreset"},
    {126u, "/hazel.rpc.LidarService/SetLidarSecondaryCapture"},
    {127u, "/hazel.rpc.LidarService/BakeLidarMaterial"},
    {128u, "/hazel.rpc.LidarService/GetLidarBakeStatus"},
    {129u, "/hazel.rpc.LidarService/LoadLidarBake"},
    {130u, "/hazel.rpc.LidarService/SaveLidarBake"},
    {131u, "/hazel.rpc.LidarService/GetLidarScan"},
    {132u, "/hazel.rpc.LidarService/GetLidarBeamCount"},
    {133u, "/hazel.rpc.LidarService/GetLidarBeamAngles"},
    {200u, "/lucky_transport.v1.BatchService/SetSeeds"},
    {201u, "/lucky_transport.v1.BatchService/SetResetOptions"},
    {210u, "/lucky_transport.v1.StateService/GetState"},
    {211u, "/lucky_transport.v1.StateService/SetState"},
    {220u, "/lucky_transport.v1.SessionService/GetWorlds"},
    {221u, "/lucky_transport.v1.SessionService/CreateSession"},
    {222u, "/lucky_transport.v1.SessionService/GetSession"},
    {223u, "/lucky_transport.v1.SessionService/ListSessions"},
    {224u, "/lucky_transport.v1.SessionService/AdvanceSession"},
    {225u, "/lucky_transport.v1.SessionService/ActInSession"},
    {226u, "/lucky_transport.v1.SessionService/RunSession"},
    {227u, "/lucky_transport.v1.SessionService/GetLatest"},
    {228u, "/lucky_transport.v1.SessionService/RestartSession"},
    {229u, "/lucky_transport.v1.SessionService/DestroySession"},
    {230u, "/lucky_transport.v1.SessionService/GetRecording"},
};
#define LUCKY_Metadatum_key 0
#define LUCKY_Metadatum_value 1
#define LUCKY_Envelope_method 0
#define LUCKY_Envelope_correlation_id 1
#define LUCKY_Envelope_kind 2
#define LUCKY_Envelope_deadline_ns 3
#define LUCKY_Envelope_status 4
#define LUCKY_Envelope_details 5
#define LUCKY_Envelope_metadata 6
#define LUCKY_Envelope_payload 7
#define LUCKY_Envelope_path 8
#define LUCKY_Envelope_streams 9
#define LUCKY_Envelope_items 10
#define LUCKY_Envelope_window 11
#define LUCKY_Envelope_offset 12
#define LUCKY_Envelope_total 13
#define LUCKY_Envelope_dropped 14
#define LUCKY_Envelope_images 15
#define LUCKY_Envelope_code 16
#define LUCKY_EntityId_id 0
#define LUCKY_Transform_position 0
#define LUCKY_Transform_rotation 1
#define LUCKY_Transform_scale 2
#define LUCKY_ImageFrame_data 0
#define LUCKY_ImageFrame_width 1
#define LUCKY_ImageFrame_height 2
#define LUCKY_ImageFrame_channels 3
#define LUCKY_ImageFrame_format 4
#define LUCKY_ImageFrame_timestamp_ms 5
#define LUCKY_ImageFrame_frame_number 6
#define LUCKY_ImageFrame_depth_scale 7
#define LUCKY_NamedImageFrame_name 0
#define LUCKY_NamedImageFrame_frame 1
#define LUCKY_JointState_positions 0
#define LUCKY_JointState_velocities 1
#define LUCKY_JointState_nq 2
#define LUCKY_JointState_nv 3
#define LUCKY_GetJointStateRequest_robot_name 0
#define LUCKY_GetJointStateResponse_success 0
#define LUCKY_GetJointStateResponse_message 1
#define LUCKY_GetJointStateResponse_state 2
#define LUCKY_GetMujocoInfoRequest_robot_name 0
#define LUCKY_GetMujocoInfoResponse_success 0
#define LUCKY_GetMujocoInfoResponse_message 1
#define LUCKY_GetMujocoInfoResponse_nq 2
#define LUCKY_GetMujocoInfoResponse_nv 3
#define LUCKY_GetMujocoInfoResponse_nu 4
#define LUCKY_GetMujocoInfoResponse_joint_names 5
#define LUCKY_GetMujocoInfoResponse_actuator_names 6
#define LUCKY_TelemetrySchema_observation_names 0
#define LUCKY_TelemetrySchema_action_names 1
#define LUCKY_TelemetrySchema_nq 2
#define LUCKY_TelemetrySchema_nu 3
#define LUCKY_GetTelemetrySchemaResponse_schema 0
#define LUCKY_StreamTelemetryRequest_target_fps 0
#define LUCKY_TelemetryFrame_timestamp_ms 0
#define LUCKY_TelemetryFrame_frame_number 1
#define LUCKY_TelemetryFrame_task_index 2
#define LUCKY_TelemetryFrame_observation_qpos 3
#define LUCKY_TelemetryFrame_action_ctrl 4
#define LUCKY_AgentSchema_agent_name 0
#define LUCKY_AgentSchema_observation_names 1
#define LUCKY_AgentSchema_action_names 2
#define LUCKY_AgentSchema_observation_size 3
#define LUCKY_AgentSchema_action_size 4
#define LUCKY_GetAgentSchemaRequest_agent_name 0
#define LUCKY_GetAgentSchemaResponse_schema 0
#define LUCKY_SimulationContract_pose_position_noise 0
#define LUCKY_SimulationContract_pose_orientation_noise 1
#define LUCKY_SimulationContract_joint_position_noise 2
#define LUCKY_SimulationContract_joint_velocity_noise 3
#define LUCKY_SimulationContract_friction_range 4
#define LUCKY_SimulationContract_restitution_range 5
#define LUCKY_SimulationContract_mass_scale_range 6
#define LUCKY_SimulationContract_com_offset_range 7
#define LUCKY_SimulationContract_motor_strength_range 8
#define LUCKY_SimulationContract_motor_offset_range 9
#define LUCKY_SimulationContract_push_interval_range 10
#define LUCKY_SimulationContract_push_velocity_range 11
#define LUCKY_SimulationContract_terrain_type 12
#define LUCKY_SimulationContract_terrain_difficulty 13
#define LUCKY_SimulationContract_vel_command_x_range 14
#define LUCKY_SimulationContract_vel_command_y_range 15
#define LUCKY_SimulationContract_vel_command_yaw_range 16
#define LUCKY_SimulationContract_vel_command_resampling_time_range 17
#define LUCKY_SimulationContract_vel_command_standing_probability 18
#define LUCKY_ResetAgentRequest_agent_name 0
#define LUCKY_ResetAgentRequest_simulation_contract 1
#define LUCKY_ResetAgentResponse_success 0
#define LUCKY_ResetAgentResponse_message 1
#define LUCKY_AgentFrame_timestamp_ms 0
#define LUCKY_AgentFrame_frame_number 1
#define LUCKY_AgentFrame_observations 2
#define LUCKY_AgentFrame_actions 3
#define LUCKY_AgentFrame_agent_name 4
#define LUCKY_AgentFrame_target_fps 5
#define LUCKY_GetCameraFrameRequest_id 0
#define LUCKY_GetCameraFrameRequest_name 1
#define LUCKY_GetCameraFrameRequest_width 2
#define LUCKY_GetCameraFrameRequest_height 3
#define LUCKY_GetCameraFrameRequest_format 4
#define LUCKY_GetCameraFrameRequest_kind 5
#define LUCKY_ActionGroupEntry_group_name 0
#define LUCKY_ActionGroupEntry_actions 1
#define LUCKY_ActionGroupEntry_action_indices 2
#define LUCKY_SetActionGroupRequest_agent_name 0
#define LUCKY_SetActionGroupRequest_group 1
#define LUCKY_SetActionGroupResponse_success 0
#define LUCKY_SetActionGroupResponse_message 1
#define LUCKY_StepRequest_agent_name 0
#define LUCKY_StepRequest_actions 1
#define LUCKY_StepRequest_timeout_s 2
#define LUCKY_StepRequest_camera_requests 3
#define LUCKY_StepRequest_action_groups 4
#define LUCKY_StepResponse_success 0
#define LUCKY_StepResponse_message 1
#define LUCKY_StepResponse_observation 2
#define LUCKY_StepResponse_physics_step_duration_us 3
#define LUCKY_StepResponse_camera_frames 4
#define LUCKY_StepResponse_reward_signals 5
#define LUCKY_StepResponse_terminated 6
#define LUCKY_StepResponse_truncated 7
#define LUCKY_StepResponse_info 8
#define LUCKY_StepResponse_termination_flags 9
#define LUCKY_ProgressReport_run_id 0
#define LUCKY_ProgressReport_task_name 1
#define LUCKY_ProgressReport_policy_name 2
#define LUCKY_ProgressReport_phase 3
#define LUCKY_ProgressReport_current_episode 4
#define LUCKY_ProgressReport_total_episodes 5
#define LUCKY_ProgressReport_current_step 6
#define LUCKY_ProgressReport_max_steps 7
#define LUCKY_ProgressReport_elapsed_s 8
#define LUCKY_ProgressReport_status_text 9
#define LUCKY_ProgressReport_finished 10
#define LUCKY_ProgressAck_accepted 0
#define LUCKY_TaskContract_task_id 0
#define LUCKY_TaskContract_robot 1
#define LUCKY_TaskContract_scene 2
#define LUCKY_TaskContract_observations 3
#define LUCKY_TaskContract_actions 4
#define LUCKY_TaskContract_rewards 5
#define LUCKY_TaskContract_terminations 6
#define LUCKY_TaskContract_randomization 7
#define LUCKY_TaskContract_auxiliary_data 8
#define LUCKY_ObservationContract_required 0
#define LUCKY_ObservationContract_optional 1
#define LUCKY_ObservationTermRequest_name 0
#define LUCKY_ObservationTermRequest_params 1
#define LUCKY_ObservationTermRequest_group 2
#define LUCKY_ActionContract_terms 0
#define LUCKY_ActionTermRequest_type 0
#define LUCKY_ActionTermRequest_joint_pattern 1
#define LUCKY_ActionTermRequest_params 2
#define LUCKY_ActionTermRequest_group 3
#define LUCKY_RewardContract_engine_terms 0
#define LUCKY_RewardContract_python_terms 1
#define LUCKY_RewardTermRequest_name 0
#define LUCKY_RewardTermRequest_weight 1
#define LUCKY_RewardTermRequest_params 2
#define LUCKY_TerminationContract_terms 0
#define LUCKY_TerminationTermRequest_name 0
#define LUCKY_TerminationTermRequest_is_timeout 1
#define LUCKY_TerminationTermRequest_params 2
#define LUCKY_RandomizationContract_simulation_contract_bytes 0
#define LUCKY_RandomizationContract_custom_randomizations 1
#define LUCKY_CustomRandomization_name 0
#define LUCKY_CustomRandomization_range_min 1
#define LUCKY_CustomRandomization_range_max 2
#define LUCKY_CustomRandomization_target 3
#define LUCKY_AuxiliaryDataRequest_name 0
#define LUCKY_AuxiliaryDataRequest_params 1
#define LUCKY_EngineCapabilityManifest_engine_version 0
#define LUCKY_EngineCapabilityManifest_manifest_version 1
#define LUCKY_EngineCapabilityManifest_observations 2
#define LUCKY_EngineCapabilityManifest_actions 3
#define LUCKY_EngineCapabilityManifest_rewards 4
#define LUCKY_EngineCapabilityManifest_terminations 5
#define LUCKY_EngineCapabilityManifest_randomizations 6
#define LUCKY_EngineCapabilityManifest_auxiliary_data 7
#define LUCKY_EngineCapabilityManifest_robot_info 8
#define LUCKY_MdpComponentDescriptor_name 0
#define LUCKY_MdpComponentDescriptor_description 1
#define LUCKY_MdpComponentDescriptor_category 2
#define LUCKY_MdpComponentDescriptor_params_schema 3
#define LUCKY_MdpComponentDescriptor_output_shape 4
#define LUCKY_MdpComponentDescriptor_requires 5
#define LUCKY_MdpComponentDescriptor_robot_types 6
#define LUCKY_MdpParamDescriptor_type 0
#define LUCKY_MdpParamDescriptor_default_value 1
#define LUCKY_MdpParamDescriptor_description 2
#define LUCKY_MdpParamDescriptor_range_min 3
#define LUCKY_MdpParamDescriptor_range_max 4
#define LUCKY_MdpParamDescriptor_has_range 5
#define LUCKY_MdpRandomizationDescriptor_base 0
#define LUCKY_MdpRandomizationDescriptor_default_range_min 1
#define LUCKY_MdpRandomizationDescriptor_default_range_max 2
#define LUCKY_MdpRandomizationDescriptor_engine_target 3
#define LUCKY_MdpRobotInfo_name 0
#define LUCKY_MdpRobotInfo_joint_names 1
#define LUCKY_MdpRobotInfo_actuator_names 2
#define LUCKY_MdpRobotInfo_actuator_limits 3
#define LUCKY_MdpRobotInfo_body_names 4
#define LUCKY_MdpRobotInfo_site_names 5
#define LUCKY_MdpRobotInfo_sensor_names 6
#define LUCKY_MdpRobotInfo_available_scenes 7
#define LUCKY_MdpActuatorLimit_lower 0
#define LUCKY_MdpActuatorLimit_upper 1
#define LUCKY_MdpActuatorLimit_default_value 2
#define LUCKY_MdpActuatorLimit_scale 3
#define LUCKY_ContractValidationResult_is_valid 0
#define LUCKY_ContractValidationResult_negotiated_contract 1
#define LUCKY_ContractValidationResult_errors 2
#define LUCKY_ContractValidationResult_warnings 3
#define LUCKY_ContractValidationResult_resolved_optionals 4
#define LUCKY_ContractValidationResult_unresolved_optionals 5
#define LUCKY_ContractValidationMessage_severity 0
#define LUCKY_ContractValidationMessage_component 1
#define LUCKY_ContractValidationMessage_term_name 2
#define LUCKY_ContractValidationMessage_message 3
#define LUCKY_ContractValidationMessage_suggestion 4
#define LUCKY_NegotiatedTaskSession_session_id 0
#define LUCKY_NegotiatedTaskSession_resolved_contract 1
#define LUCKY_NegotiatedTaskSession_observation_layout 2
#define LUCKY_NegotiatedTaskSession_reward_terms 3
#define LUCKY_NegotiatedTaskSession_termination_terms 4
#define LUCKY_NegotiatedTaskSession_action_layout 5
#define LUCKY_ObservationSlot_name 0
#define LUCKY_ObservationSlot_group 1
#define LUCKY_ObservationSlot_offset 2
#define LUCKY_ObservationSlot_size 3
#define LUCKY_ActionGroupSlot_group_name 0
#define LUCKY_ActionGroupSlot_action_names 1
#define LUCKY_ActionGroupSlot_action_indices 2
#define LUCKY_GetCapabilityManifestRequest_robot_name 0
#define LUCKY_GetCapabilityManifestRequest_scene 1
#define LUCKY_GetCapabilityManifestResponse_manifest 0
#define LUCKY_ValidateTaskContractRequest_contract 0
#define LUCKY_ValidateTaskContractResponse_result 0
#define LUCKY_NegotiateTaskRequest_contract 0
#define LUCKY_NegotiateTaskResponse_success 0
#define LUCKY_NegotiateTaskResponse_message 1
#define LUCKY_NegotiateTaskResponse_session 2
#define LUCKY_NegotiateTaskResponse_validation 3
#define LUCKY_PolicyCommandIdEntry_id 0
#define LUCKY_PolicyCommandIdEntry_name 1
#define LUCKY_PolicyCommandIdEntry_type 2
#define LUCKY_PolicyObservationField_name 0
#define LUCKY_PolicyObservationField_type 1
#define LUCKY_PolicyObservationField_size 2
#define LUCKY_PolicySlotSummary_slot_id 0
#define LUCKY_PolicySlotSummary_name 1
#define LUCKY_PolicySlotSummary_descriptor_path 2
#define LUCKY_PolicySlotSummary_active 3
#define LUCKY_PolicySlotSummary_priority 4
#define LUCKY_PolicySlotSummary_driven_joints 5
#define LUCKY_PolicySlotSummary_clamp_observation_for_unclaimed_joints 6
#define LUCKY_PolicySlotSummary_ready 7
#define LUCKY_PolicySlotSummary_active_policy_id 8
#define LUCKY_PolicySlotSummary_command_id_map 9
#define LUCKY_PolicySlotSummary_policy_joint_names 10
#define LUCKY_RobotControllerSummary_entity 0
#define LUCKY_RobotControllerSummary_entity_name 1
#define LUCKY_RobotControllerSummary_motion_graph_active 2
#define LUCKY_RobotControllerSummary_slots 3
#define LUCKY_PolicyRegistryEntry_policy_id 0
#define LUCKY_PolicyRegistryEntry_descriptor_path 1
#define LUCKY_PolicyRegistryEntry_joints 2
#define LUCKY_PolicyRegistryEntry_command_id_map 3
#define LUCKY_PolicyRegistryEntry_observation_spec 4
#define LUCKY_PolicyRegistryEntry_freeze_joint_names 5
#define LUCKY_PolicyRegistryEntry_command_aliases 6
#define LUCKY_MotionGraphInputValue_bool_val 0
#define LUCKY_MotionGraphInputValue_int_val 1
#define LUCKY_MotionGraphInputValue_float_val 2
#define LUCKY_MotionGraphInputValue_vec3_val 3
#define LUCKY_MotionGraphInputValue_trigger 4
#define LUCKY_PolicyOperationAck_success 0
#define LUCKY_PolicyOperationAck_message 1
#define LUCKY_ListRobotControllersResponse_controllers 0
#define LUCKY_GetRobotControllerRequest_entity 0
#define LUCKY_GetRobotControllerResponse_found 0
#define LUCKY_GetRobotControllerResponse_controller 1
#define LUCKY_ListPolicyDescriptorsResponse_policies 0
#define LUCKY_SetPolicyActiveRequest_entity 0
#define LUCKY_SetPolicyActiveRequest_slot_id 1
#define LUCKY_SetPolicyActiveRequest_active 2
#define LUCKY_SetPolicyDescriptorRequest_entity 0
#define LUCKY_SetPolicyDescriptorRequest_slot_id 1
#define LUCKY_SetPolicyDescriptorRequest_descriptor_path 2
#define LUCKY_SetPolicyDrivenJointsRequest_entity 0
#define LUCKY_SetPolicyDrivenJointsRequest_slot_id 1
#define LUCKY_SetPolicyDrivenJointsRequest_joint_names 2
#define LUCKY_SetPolicyClampObservationRequest_entity 0
#define LUCKY_SetPolicyClampObservationRequest_slot_id 1
#define LUCKY_SetPolicyClampObservationRequest_clamp_observation_for_unclaimed_joints 2
#define LUCKY_SetPolicyPriorityRequest_entity 0
#define LUCKY_SetPolicyPriorityRequest_slot_id 1
#define LUCKY_SetPolicyPriorityRequest_priority 2
#define LUCKY_SetPolicyCommandFloatRequest_entity 0
#define LUCKY_SetPolicyCommandFloatRequest_slot_id 1
#define LUCKY_SetPolicyCommandFloatRequest_command_id 2
#define LUCKY_SetPolicyCommandFloatRequest_value 3
#define LUCKY_SetPolicyCommandBoolRequest_entity 0
#define LUCKY_SetPolicyCommandBoolRequest_slot_id 1
#define LUCKY_SetPolicyCommandBoolRequest_command_id 2
#define LUCKY_SetPolicyCommandBoolRequest_value 3
#define LUCKY_JointGainOverride_joint_name 0
#define LUCKY_JointGainOverride_kp 1
#define LUCKY_JointGainOverride_kd 2
#define LUCKY_JointGainOverride_effort_limit 3
#define LUCKY_JointGainOverride_action_scale 4
#define LUCKY_JointGainOverride_default_pos 5
#define LUCKY_SetPolicyGainsRequest_entity 0
#define LUCKY_SetPolicyGainsRequest_slot_id 1
#define LUCKY_SetPolicyGainsRequest_overrides 2
#define LUCKY_ClearPolicyGainsRequest_entity 0
#define LUCKY_ClearPolicyGainsRequest_slot_id 1
#define LUCKY_GetPolicyCommandFloatRequest_entity 0
#define LUCKY_GetPolicyCommandFloatRequest_slot_id 1
#define LUCKY_GetPolicyCommandFloatRequest_command_id 2
#define LUCKY_PolicyCommandFloatValue_success 0
#define LUCKY_PolicyCommandFloatValue_value 1
#define LUCKY_PolicyCommandFloatValue_message 2
#define LUCKY_GetPolicyCommandBoolRequest_entity 0
#define LUCKY_GetPolicyCommandBoolRequest_slot_id 1
#define LUCKY_GetPolicyCommandBoolRequest_command_id 2
#define LUCKY_PolicyCommandBoolValue_success 0
#define LUCKY_PolicyCommandBoolValue_value 1
#define LUCKY_PolicyCommandBoolValue_message 2
#define LUCKY_SetMotionGraphActiveRequest_entity 0
#define LUCKY_SetMotionGraphActiveRequest_active 1
#define LUCKY_GetMotionGraphActiveRequest_entity 0
#define LUCKY_GetMotionGraphActiveResponse_success 0
#define LUCKY_GetMotionGraphActiveResponse_active 1
#define LUCKY_GetMotionGraphActiveResponse_message 2
#define LUCKY_SetMotionGraphInputRequest_entity 0
#define LUCKY_SetMotionGraphInputRequest_input_id 1
#define LUCKY_SetMotionGraphInputRequest_value 2
#define LUCKY_GetMotionGraphInputRequest_entity 0
#define LUCKY_GetMotionGraphInputRequest_input_id 1
#define LUCKY_GetMotionGraphInputRequest_type_hint 2
#define LUCKY_GetMotionGraphInputResponse_success 0
#define LUCKY_GetMotionGraphInputResponse_value 1
#define LUCKY_GetMotionGraphInputResponse_message 2
#define LUCKY_FireMotionGraphTriggerRequest_entity 0
#define LUCKY_FireMotionGraphTriggerRequest_input_id 1
#define LUCKY_StreamPolicySlotStateRequest_entity 0
#define LUCKY_StreamPolicySlotStateRequest_slot_id 1
#define LUCKY_StreamPolicySlotStateRequest_target_fps 2
#define LUCKY_StreamRobotControllerRequest_entity 0
#define LUCKY_StreamRobotControllerRequest_target_fps 1
#define LUCKY_GetPolicyBasePoseRequest_entity 0
#define LUCKY_GetPolicyBasePoseRequest_slot_id 1
#define LUCKY_PolicyBasePose_success 0
#define LUCKY_PolicyBasePose_message 1
#define LUCKY_PolicyBasePose_x 2
#define LUCKY_PolicyBasePose_y 3
#define LUCKY_PolicyBasePose_yaw 4
#define LUCKY_PolicyBasePose_x_hz 5
#define LUCKY_PolicyBasePose_z_hz 6
#define LUCKY_PolicyBasePose_yaw_hz 7
#define LUCKY_GetPolicyLastActionRequest_entity 0
#define LUCKY_GetPolicyLastActionRequest_slot_id 1
#define LUCKY_PolicyLastAction_success 0
#define LUCKY_PolicyLastAction_message 1
#define LUCKY_PolicyLastAction_action 2
#define LUCKY_PolicyLastAction_joint_names 3
#define LUCKY_CameraInfo_id 0
#define LUCKY_CameraInfo_name 1
#define LUCKY_ListCamerasResponse_cameras 0
#define LUCKY_StreamCameraRequest_id 0
#define LUCKY_StreamCameraRequest_name 1
#define LUCKY_StreamCameraRequest_target_fps 2
#define LUCKY_StreamCameraRequest_width 3
#define LUCKY_StreamCameraRequest_height 4
#define LUCKY_StreamCameraRequest_format 5
#define LUCKY_CameraConfig_width 0
#define LUCKY_CameraConfig_height 1
#define LUCKY_CameraConfig_record_mask 2
#define LUCKY_CameraConfig_record_depth 3
#define LUCKY_CameraConfig_enabled 4
#define LUCKY_CameraConfig_sensor_model 5
#define LUCKY_CameraConfig_depth_scale 6
#define LUCKY_CameraConfig_max_range 7
#define LUCKY_CameraConfig_min_range 8
#define LUCKY_CameraConfig_detect_floor 9
#define LUCKY_CameraConfig_baseline 10
#define LUCKY_CameraConfig_subpixel_sigma 11
#define LUCKY_CameraConfig_debug_channel 12
#define LUCKY_GetCameraConfigRequest_id 0
#define LUCKY_GetCameraConfigRequest_name 1
#define LUCKY_CameraConfigResponse_found 0
#define LUCKY_CameraConfigResponse_config 1
#define LUCKY_SetCameraConfigRequest_id 0
#define LUCKY_SetCameraConfigRequest_name 1
#define LUCKY_SetCameraConfigRequest_config 2
#define LUCKY_CameraConfigAck_ok 0
#define LUCKY_CameraConfigAck_message 1
#define LUCKY_DebugLine_start 0
#define LUCKY_DebugLine_end 1
#define LUCKY_DebugLine_color 2
#define LUCKY_DebugArrow_origin 0
#define LUCKY_DebugArrow_direction 1
#define LUCKY_DebugArrow_color 2
#define LUCKY_DebugArrow_scale 3
#define LUCKY_DebugVelocityCommand_origin 0
#define LUCKY_DebugVelocityCommand_lin_vel_x 1
#define LUCKY_DebugVelocityCommand_lin_vel_y 2
#define LUCKY_DebugVelocityCommand_ang_vel_z 3
#define LUCKY_DebugVelocityCommand_scale 4
#define LUCKY_DebugDrawRequest_lines 0
#define LUCKY_DebugDrawRequest_arrows 1
#define LUCKY_DebugDrawRequest_velocity_command 2
#define LUCKY_DebugDrawRequest_clear_previous 3
#define LUCKY_DebugDrawResponse_success 0
#define LUCKY_EntityInfo_id 0
#define LUCKY_EntityInfo_name 1
#define LUCKY_EntityInfo_transform 2
#define LUCKY_EntityInfo_components 3
#define LUCKY_GetSceneInfoResponse_scene_name 0
#define LUCKY_GetSceneInfoResponse_scene_path 1
#define LUCKY_GetSceneInfoResponse_entity_count 2
#define LUCKY_ListEntitiesRequest_include_transforms 0
#define LUCKY_ListEntitiesRequest_include_components 1
#define LUCKY_ListEntitiesResponse_entities 0
#define LUCKY_GetEntityRequest_id 0
#define LUCKY_GetEntityRequest_name 1
#define LUCKY_GetEntityResponse_found 0
#define LUCKY_GetEntityResponse_entity 1
#define LUCKY_SetEntityTransformRequest_id 0
#define LUCKY_SetEntityTransformRequest_transform 1
#define LUCKY_SetEntityTransformResponse_success 0
#define LUCKY_SetEntityTransformResponse_message 1
#define LUCKY_SetSimulationModeRequest_mode 0
#define LUCKY_SetSimulationModeResponse_success 0
#define LUCKY_SetSimulationModeResponse_message 1
#define LUCKY_SetSimulationModeResponse_current_mode 2
#define LUCKY_GetSimulationModeResponse_mode 0
#define LUCKY_EnterPlayModeResponse_success 0
#define LUCKY_EnterPlayModeResponse_message 1
#define LUCKY_ExitPlayModeResponse_success 0
#define LUCKY_ExitPlayModeResponse_message 1
#define LUCKY_StartViewportStreamRequest_viewport_name 0
#define LUCKY_StartViewportStreamRequest_target_fps 1
#define LUCKY_StartViewportStreamRequest_width 2
#define LUCKY_StartViewportStreamRequest_height 3
#define LUCKY_StartViewportStreamRequest_format 4
#define LUCKY_ViewportStreamConfig_streaming 0
#define LUCKY_ViewportStreamConfig_viewport_name 1
#define LUCKY_ViewportStreamConfig_fps 2
#define LUCKY_ViewportStreamConfig_width 3
#define LUCKY_ViewportStreamConfig_height 4
#define LUCKY_GetViewportInfoResponse_available_viewports 0
#define LUCKY_GetViewportInfoResponse_current_config 1
#define LUCKY_LidarAck_ok 0
#define LUCKY_LidarAck_message 1
#define LUCKY_LidarSensorRequest_sensor 0
#define LUCKY_SetLidarLiveRequest_live 0
#define LUCKY_SetLidarConfigRequest_sensor 0
#define LUCKY_SetLidarConfigRequest_scan_pattern 1
#define LUCKY_SetLidarConfigRequest_channels 2
#define LUCKY_SetLidarConfigRequest_azimuth_bins 3
#define LUCKY_SetLidarConfigRequest_vfov_min_deg 4
#define LUCKY_SetLidarConfigRequest_vfov_max_deg 5
#define LUCKY_SetLidarConfigRequest_min_range 6
#define LUCKY_SetLidarConfigRequest_max_range 7
#define LUCKY_SetLidarConfigRequest_rotation_hz 8
#define LUCKY_SetLidarConfigRequest_geom_group_mask 9
#define LUCKY_SetLidarConfigRequest_self_ignore 10
#define LUCKY_LidarConfigResponse_found 0
#define LUCKY_LidarConfigResponse_scan_pattern 1
#define LUCKY_LidarConfigResponse_channels 2
#define LUCKY_LidarConfigResponse_azimuth_bins 3
#define LUCKY_LidarConfigResponse_vfov_min_deg 4
#define LUCKY_LidarConfigResponse_vfov_max_deg 5
#define LUCKY_LidarConfigResponse_min_range 6
#define LUCKY_LidarConfigResponse_max_range 7
#define LUCKY_LidarConfigResponse_rotation_hz 8
#define LUCKY_LidarConfigResponse_geom_group_mask 9
#define LUCKY_LidarConfigResponse_self_ignore 10
#define LUCKY_LidarConfigResponse_secondary_capture 11
#define LUCKY_LidarConfigResponse_secondary_scope 12
#define LUCKY_SetLidarReturnParamsRequest_max_range_at_ref 0
#define LUCKY_SetLidarReturnParamsRequest_ref_reflectivity 1
#define LUCKY_SetLidarReturnParamsRequest_range_exp 2
#define LUCKY_SetLidarReturnParamsRequest_noise_sigma0 3
#define LUCKY_SetLidarReturnParamsRequest_grazing_cos_cutoff 4
#define LUCKY_SetLidarReturnParamsRequest_intensity_ref_range 5
#define LUCKY_SetLidarReturnParamsRequest_detect_floor 6
#define LUCKY_SetLidarReturnParamsRequest_near_range_r0 7
#define LUCKY_SetLidarReturnParamsRequest_noise_slope_per_m 8
#define LUCKY_SetLidarReturnParamsRequest_spec_slope_floor 9
#define LUCKY_SetLidarReturnParamsRequest_spec_peak_max 10
#define LUCKY_SetLidarReturnParamsRequest_retro_gain 11
#define LUCKY_SetLidarReturnParamsRequest_retro_cos_exp 12
#define LUCKY_SetLidarReturnParamsRequest_fold_max_slope 13
#define LUCKY_SetLidarReturnParamsRequest_range_floor 14
#define LUCKY_SetLidarReturnParamsRequest_min_return_separation 15
#define LUCKY_SetLidarReturnParamsRequest_max_returns 16
#define LUCKY_LidarReturnParamsResponse_max_range_at_ref 0
#define LUCKY_LidarReturnParamsResponse_ref_reflectivity 1
#define LUCKY_LidarReturnParamsResponse_range_exp 2
#define LUCKY_LidarReturnParamsResponse_noise_sigma0 3
#define LUCKY_LidarReturnParamsResponse_grazing_cos_cutoff 4
#define LUCKY_LidarReturnParamsResponse_intensity_ref_range 5
#define LUCKY_LidarReturnParamsResponse_detect_floor 6
#define LUCKY_LidarReturnParamsResponse_near_range_r0 7
#define LUCKY_LidarReturnParamsResponse_noise_slope_per_m 8
#define LUCKY_LidarReturnParamsResponse_spec_slope_floor 9
#define LUCKY_LidarReturnParamsResponse_spec_peak_max 10
#define LUCKY_LidarReturnParamsResponse_retro_gain 11
#define LUCKY_LidarReturnParamsResponse_retro_cos_exp 12
#define LUCKY_LidarReturnParamsResponse_fold_max_slope 13
#define LUCKY_LidarReturnParamsResponse_range_floor 14
#define LUCKY_LidarReturnParamsResponse_min_return_separation 15
#define LUCKY_LidarReturnParamsResponse_max_returns 16
#define LUCKY_SetLidarPresetRequest_preset 0
#define LUCKY_BakeLidarMaterialRequest_cell_size 0
#define LUCKY_BakeLidarMaterialRequest_max_dim 1
#define LUCKY_BakeLidarMaterialRequest_splat_radius 2
#define LUCKY_BakeLidarMaterialRequest_include_hidden 3
#define LUCKY_LidarBakeStatusResponse_valid 0
#define LUCKY_LidarBakeStatusResponse_format_version 1
#define LUCKY_LidarBakeStatusResponse_cell_size_m 2
#define LUCKY_LidarBakeStatusResponse_splat_radius 3
#define LUCKY_LidarBakeStatusResponse_dim_x 4
#define LUCKY_LidarBakeStatusResponse_dim_y 5
#define LUCKY_LidarBakeStatusResponse_dim_z 6
#define LUCKY_LidarBakeStatusResponse_filled_cells 7
#define LUCKY_LidarBakeStatusResponse_geom_materials 8
#define LUCKY_LidarBakeStatusResponse_material_fingerprint 9
#define LUCKY_LidarBakeStatusResponse_stale 10
#define LUCKY_SetLidarSecondaryCaptureRequest_sensor 0
#define LUCKY_SetLidarSecondaryCaptureRequest_capture 1
#define LUCKY_SetLidarSecondaryCaptureRequest_scope 2
#define LUCKY_LoadLidarBakeRequest_name 0
#define LUCKY_SaveLidarBakeRequest_name 0
#define LUCKY_GetLidarScanRequest_sensor 0
#define LUCKY_GetLidarScanRequest_material 1
#define LUCKY_GetLidarScanRequest_want_secondary 2
#define LUCKY_GetLidarScanRequest_want_intensity 3
#define LUCKY_LidarScanResponse_beams 0
#define LUCKY_LidarScanResponse_ranges 1
#define LUCKY_LidarScanResponse_secondary_ranges 2
#define LUCKY_LidarScanResponse_intensity 3
#define LUCKY_LidarScanResponse_reflectivity_calibrated 4
#define LUCKY_LidarBeamCountResponse_beams 0
#define LUCKY_LidarBeamAnglesResponse_beams 0
#define LUCKY_LidarBeamAnglesResponse_azimuth 1
#define LUCKY_LidarBeamAnglesResponse_elevation 2
#define LUCKY_SetSeedsRequest_seeds 0
#define LUCKY_SetSeedsRequest_mask 1
#define LUCKY_SetSeedsResponse_success 0
#define LUCKY_SetSeedsResponse_message 1
#define LUCKY_SetResetOptionsRequest_contract 0
#define LUCKY_SetResetOptionsRequest_options_json 1
#define LUCKY_SetResetOptionsResponse_success 0
#define LUCKY_SetResetOptionsResponse_message 1
#define LUCKY_GetWorldsResponse_maps 0
#define LUCKY_GetWorldsResponse_events 1
#define LUCKY_GetWorldsResponse_tick_s 2
#define LUCKY_SessionAction_payload 0
#define LUCKY_RecordedActions_tick 0
#define LUCKY_RecordedActions_actions 1
#define LUCKY_SessionRecording_map_name 0
#define LUCKY_SessionRecording_seed 1
#define LUCKY_SessionRecording_options_json 2
#define LUCKY_SessionRecording_ticks 3
#define LUCKY_SessionRecording_actions 4
#define LUCKY_CreateSessionRequest_map_name 0
#define LUCKY_CreateSessionRequest_seed 1
#define LUCKY_CreateSessionRequest_options_json 2
#define LUCKY_CreateSessionRequest_owned 3
#define LUCKY_CreateSessionRequest_record 4
#define LUCKY_CreateSessionRequest_recording 5
#define LUCKY_CreateSessionResponse_session_id 0
#define LUCKY_SessionRequest_session_id 0
#define LUCKY_SessionStatus_session_id 0
#define LUCKY_SessionStatus_map_name 1
#define LUCKY_SessionStatus_phase 2
#define LUCKY_SessionStatus_ticks 3
#define LUCKY_SessionStatus_is_over 4
#define LUCKY_SessionStatus_result 5
#define LUCKY_SessionStatus_score 6
#define LUCKY_SessionStatus_error 7
#define LUCKY_SessionStatus_dropped 8
#define LUCKY_SessionStatus_rate_hz 9
#define LUCKY_ListSessionsResponse_session_ids 0
#define LUCKY_SessionSnapshot_observation 0
#define LUCKY_SessionSnapshot_ticks 1
#define LUCKY_SessionSnapshot_is_over 2
#define LUCKY_SessionSnapshot_result 3
#define LUCKY_SessionSnapshot_score 4
#define LUCKY_AdvanceSessionRequest_session_id 0
#define LUCKY_AdvanceSessionRequest_ticks 1
#define LUCKY_AdvanceSessionRequest_actions 2
#define LUCKY_AdvanceSessionRequest_interrupts 3
#define LUCKY_AdvanceSessionRequest_check_every 4
#define LUCKY_AdvanceSessionResponse_snapshot 0
#define LUCKY_AdvanceSessionResponse_ticks_done 1
#define LUCKY_AdvanceSessionResponse_interrupt 2
#define LUCKY_ActInSessionRequest_session_id 0
#define LUCKY_ActInSessionRequest_actions 1
#define LUCKY_ActInSessionResponse_dropped 0
#define LUCKY_RunSessionRequest_session_id 0
#define LUCKY_RunSessionRequest_rate_hz 1
#define LUCKY_GetLatestRequest_session_id 0
#define LUCKY_GetLatestRequest_after_tick 1
#define LUCKY_RestartSessionRequest_session_id 0
#define LUCKY_RestartSessionRequest_seed 1
#define LUCKY_GetStateRequest_env 0
#define LUCKY_GetStateResponse_state 0
#define LUCKY_SetStateRequest_env 0
#define LUCKY_SetStateRequest_state 1
#define LUCKY_SetStateResponse_observation 0
#define LUCKY_JointDescriptor_index 0
#define LUCKY_JointDescriptor_name 1
#define LUCKY_JointDescriptor_type 2
#define LUCKY_JointDescriptor_qpos_adr 3
#define LUCKY_JointDescriptor_qvel_adr 4
#define LUCKY_JointDescriptor_limited 5
#define LUCKY_JointDescriptor_range_lo 6
#define LUCKY_JointDescriptor_range_hi 7
#define LUCKY_JointDescriptor_claimed_by_policy_slot_id 8
#define LUCKY_JointDescriptor_claimed_by_rl_agent 9
#define LUCKY_ActuatorDescriptor_index 0
#define LUCKY_ActuatorDescriptor_name 1
#define LUCKY_ActuatorDescriptor_ctrl_limited 2
#define LUCKY_ActuatorDescriptor_ctrl_range_lo 3
#define LUCKY_ActuatorDescriptor_ctrl_range_hi 4
#define LUCKY_ActuatorDescriptor_target_joint_index 5
#define LUCKY_ActuatorDescriptor_claimed_by_policy_slot_id 6
#define LUCKY_ActuatorDescriptor_claimed_by_rl_agent 7
#define LUCKY_GetModelInfoResponse_success 0
#define LUCKY_GetModelInfoResponse_message 1
#define LUCKY_GetModelInfoResponse_nq 2
#define LUCKY_GetModelInfoResponse_nv 3
#define LUCKY_GetModelInfoResponse_nu 4
#define LUCKY_GetModelInfoResponse_njnt 5
#define LUCKY_GetModelInfoResponse_joints 6
#define LUCKY_GetModelInfoResponse_actuators 7
#define LUCKY_FullState_qpos 0
#define LUCKY_FullState_qvel 1
#define LUCKY_FullState_ctrl 2
#define LUCKY_FullState_time 3
#define LUCKY_FullState_frame_number 4
#define LUCKY_GetFullStateRequest_include_qpos 0
#define LUCKY_GetFullStateRequest_include_qvel 1
#define LUCKY_GetFullStateRequest_include_ctrl 2
#define LUCKY_GetFullStateRequest_filter 3
#define LUCKY_GetFullStateResponse_success 0
#define LUCKY_GetFullStateResponse_message 1
#define LUCKY_GetFullStateResponse_state 2
#define LUCKY_GetFullStateResponse_included_joint_indices 3
#define LUCKY_GetFullStateResponse_included_actuator_indices 4
#define LUCKY_StreamFullStateRequest_target_fps 0
#define LUCKY_StreamFullStateRequest_include_qpos 1
#define LUCKY_StreamFullStateRequest_include_qvel 2
#define LUCKY_StreamFullStateRequest_include_ctrl 3
#define LUCKY_StreamFullStateRequest_filter 4
#define LUCKY_StateFilter_include_only_policy_claimed_joints 0
#define LUCKY_StateFilter_include_only_unclaimed_joints 1
#define LUCKY_StateFilter_filter_by_slot_id 2
#define LUCKY_NamedControlEntry_actuator_name 0
#define LUCKY_NamedControlEntry_value 1
#define LUCKY_IndexedControlEntry_actuator_index 0
#define LUCKY_IndexedControlEntry_value 1
#define LUCKY_SetControlRequest_bulk 0
#define LUCKY_SetControlRequest_indexed 1
#define LUCKY_SetControlRequest_named 2
#define LUCKY_SetControlRequest_wait_for_next_step 3
#define LUCKY_SetControlRequest_skip_range_clamp 4
#define LUCKY_SetControlResponse_success 0
#define LUCKY_SetControlResponse_message 1
#define LUCKY_SetControlResponse_actuators_written 2
#define LUCKY_SetControlResponse_rejected_actuators 3
#define LUCKY_IndexedQposEntry_qpos_index 0
#define LUCKY_IndexedQposEntry_value 1
#define LUCKY_SetQposRequest_bulk 0
#define LUCKY_SetQposRequest_indexed 1
#define LUCKY_SetQposRequest_force 2
#define LUCKY_SetQposRequest_skip_policy_reseed 3
#define LUCKY_SetQposResponse_success 0
#define LUCKY_SetQposResponse_message 1
#define LUCKY_SetQposResponse_values_written 2
#define LUCKY_ActuatorGainInfo_actuator_index 0
#define LUCKY_ActuatorGainInfo_actuator_name 1
#define LUCKY_ActuatorGainInfo_gain_prm_0 2
#define LUCKY_ActuatorGainInfo_bias_prm_0 3
#define LUCKY_ActuatorGainInfo_neutralized 4
#define LUCKY_GetActuatorGainsResponse_success 0
#define LUCKY_GetActuatorGainsResponse_message 1
#define LUCKY_GetActuatorGainsResponse_actuators 2
#define LUCKY_ResetSceneRequest_preserve_time 0
#define LUCKY_ResetSceneResponse_success 0
#define LUCKY_ResetSceneResponse_message 1

#endif
