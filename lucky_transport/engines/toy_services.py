"""The typed methods of a toy engine: a few of each kind, so that transports can be tried without a simulator.

Responses show the points as they are between two steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    EntityId,
    EntityInfo,
    GetJointStateRequest,
    GetJointStateResponse,
    GetSceneInfoRequest,
    GetSceneInfoResponse,
    GetTelemetrySchemaRequest,
    GetTelemetrySchemaResponse,
    ImageFrame,
    JointState,
    LidarBeamAnglesResponse,
    LidarBeamCountResponse,
    LidarSensorRequest,
    ListEntitiesRequest,
    ListEntitiesResponse,
    PolicySlotSummary,
    Quat,
    StartViewportStreamRequest,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
    TelemetrySchema,
    Transform,
    Vec3,
)

if TYPE_CHECKING:
    from lucky_transport.engines.toy import ToyEngine

__all__ = ["ToyServices"]

_RPC = "/hazel.rpc."
_DEFAULT_HZ = 30


class ToyServices:
    """The handlers of a toy engine.

    answer_delay_s: GetLidarBeamAngles answers after that long. faulty: GetLidarBeamCount and StreamViewport raise.
    slots: number of items of StreamPolicySlotState, which are sent without delay.
    """

    def __init__(self, engine: ToyEngine, *, answer_delay_s: float, faulty: bool, slots: int) -> None:
        self._engine = engine
        self._answer_delay_s = answer_delay_s
        self._faulty = faulty
        self._slots = slots

    @property
    def services(self) -> Mapping[str, Handler]:
        """The unary methods, by full name."""
        found: dict[str, Handler] = {
            _RPC + "TelemetryService/GetTelemetrySchema": self._telemetry_schema,
            _RPC + "MujocoService/GetJointState": self._joint_state,
            _RPC + "SceneService/GetSceneInfo": self._scene_info,
            _RPC + "SceneService/ListEntities": self._list_entities,
        }
        if self._answer_delay_s:
            found[_RPC + "LidarService/GetLidarBeamAngles"] = self._slow_answer
        if self._faulty:
            found[_RPC + "LidarService/GetLidarBeamCount"] = self._failing_answer
        return found

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        """The server streams, by full name."""
        found: dict[str, StreamHandler] = {
            _RPC + "TelemetryService/StreamTelemetry": self._stream_telemetry,
            _RPC + "MujocoService/StreamJointState": self._stream_joint_state,
        }
        if self._slots:
            found[_RPC + "AgentService/StreamPolicySlotState"] = self._stream_slots
        if self._faulty:
            found[_RPC + "ViewportService/StreamViewport"] = self._failing_stream
        return found

    def _telemetry_schema(self, _: GetTelemetrySchemaRequest) -> GetTelemetrySchemaResponse:
        spec = self._engine.spec
        names, actions = list(spec.observation_names), list(spec.action_names)
        return GetTelemetrySchemaResponse(TelemetrySchema(names, actions, spec.observation.size, spec.action.size))

    def _telemetry(self) -> TelemetryFrame:
        point, action, tick = self._engine.state_of(0)
        return TelemetryFrame(time.time_ns() // 1_000_000, tick, 0, point, action)

    def _stream_telemetry(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        for _ in call.ticks(request.target_fps or _DEFAULT_HZ):
            with call.between_steps():
                frame = self._telemetry()
            yield frame

    def _joint_state(self, request: GetJointStateRequest) -> GetJointStateResponse:
        spec = self._engine.spec
        env = agent_index(spec, request.robot_name)
        if env < 0:
            known = f"there are agent_0 to agent_{spec.num_envs - 1}"
            return GetJointStateResponse(False, f"no robot {request.robot_name!r}; {known}")
        point, _, _ = self._engine.state_of(env)
        return GetJointStateResponse(True, "", JointState(point, [], len(point), 0))

    def _stream_joint_state(self, request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _ in call.ticks(_DEFAULT_HZ):
            with call.between_steps():
                state = self._joint_state(request)
            yield state
            if not state.success:
                return

    def _scene_info(self, _: GetSceneInfoRequest) -> GetSceneInfoResponse:
        return GetSceneInfoResponse("toy", "", self._engine.spec.num_envs)

    def _list_entities(self, request: ListEntitiesRequest) -> ListEntitiesResponse:
        entities: list[EntityInfo] = []
        for env in range(self._engine.spec.num_envs):
            entity = EntityInfo(EntityId(env + 1), f"agent_{env}")
            if request.include_transforms:
                place = Vec3(self._engine.state_of(env)[0][0], 0.0, 0.0)
                upright, as_authored = Quat(w=1.0), Vec3(1.0, 1.0, 1.0)
                entity.transform = Transform(place, upright, as_authored)
            if request.include_components:
                entity.components = ["point"]
            entities.append(entity)
        return ListEntitiesResponse(entities)

    def _slow_answer(self, request: LidarSensorRequest) -> LidarBeamAnglesResponse:
        time.sleep(self._answer_delay_s)
        return LidarBeamAnglesResponse(request.sensor)

    def _failing_answer(self, request: LidarSensorRequest) -> LidarBeamCountResponse:
        raise LookupError(f"toy engine was asked to fail over sensor {request.sensor}")

    def _failing_stream(self, _: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        for number in range(2):
            yield ImageFrame(frame_number=number)
        raise ArithmeticError("toy engine was asked to fail in this stream")

    def _stream_slots(self, request: StreamPolicySlotStateRequest, call: Call) -> Iterator[PolicySlotSummary]:
        for slot in range(self._slots):
            if call.is_over:
                return
            yield PolicySlotSummary(slot_id=slot, name=f"slot_{slot}")
