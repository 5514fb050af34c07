"""The toy engine with streams that end, whose items show a world that moves from item to item.

Item i of a stream is what the engine's state comes to after i further moves, whatever the clock does, so that two
engines in one state send the same items. A stream ends after `items` items, but that of a controller, which goes on
until its call is over. The last element of an observation, and the velocity of a joint, is a NaN: a sensor that has no
reading. GetLidarBeamAngles waits for a short deadline of its call, GetLidarBeamCount knows no sensor 0, and the scene
has large ids, a long list and texts with NUL.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import CallHandler, Engine, Handler, StreamHandler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import UnknownName
from lucky_transport.messages import (
    CameraInfo,
    EntityId,
    EntityInfo,
    GetJointStateRequest,
    GetJointStateResponse,
    ImageFrame,
    JointState,
    LidarBeamAnglesResponse,
    LidarBeamCountResponse,
    LidarSensorRequest,
    ListCamerasResponse,
    ListEntitiesRequest,
    ListEntitiesResponse,
    PolicySlotSummary,
    RobotControllerSummary,
    StreamCameraRequest,
    StreamPolicySlotStateRequest,
    StreamRobotControllerRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
)

_RPC = "/hazel.rpc."
#: A handler that waits for its call's deadline does so for a shorter one only.
_SHORT_S = 2.0
_PERIOD_S = 0.002


class MovingEngine(ToyEngine):
    """See the module; `options` are those of `ToyEngine`."""

    def __init__(self, num_envs: int = 1, *, items: int = 30, episode_steps: int = 40, **options: Any) -> None:
        super().__init__(num_envs, episode_steps=episode_steps, **options)
        self._items = items

    def step(self, control: NDArray[np.uint8] | None) -> None:
        super().step(control)
        self._buffers.observations[:, -1] = np.nan

    def _joint_state(self, request: GetJointStateRequest) -> GetJointStateResponse:
        response = super()._joint_state(request)
        if response.state is not None:
            response.state.velocities = [math.nan]
        return response

    @property
    def services(self) -> Mapping[str, Handler]:
        return {
            **super().services,
            _RPC + "SceneService/ListEntities": self._list_many,
            _RPC + "CameraService/ListCameras": lambda request: ListCamerasResponse([CameraInfo(EntityId(9), "front")]),
            _RPC + "LidarService/GetLidarBeamCount": self._refused,
        }

    @property
    def call_handlers(self) -> Mapping[str, CallHandler]:
        return {_RPC + "LidarService/GetLidarBeamAngles": self._waits_for_its_deadline}

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {
            _RPC + "TelemetryService/StreamTelemetry": self._moving_telemetry,
            _RPC + "MujocoService/StreamJointState": self._moving_joint_state,
            _RPC + "AgentService/StreamPolicySlotState": self._moving_slots,
            _RPC + "AgentService/StreamRobotController": self._endless_controllers,
            _RPC + "CameraService/StreamCamera": self._moving_images,
        }

    def _moves(self, call: Call, env: int) -> Iterator[tuple[int, list[float], list[float]]]:
        """Yield number, point and action of one state after the other."""
        with call.between_steps():
            point, action, tick = self.state_of(env)
        for number in range(self._items):
            if call.is_over:
                return
            yield tick + number, point, action
            point = [0.9 * value + 0.01 * (number + 1) for value in point]

    def _moving_telemetry(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        for tick, point, action in self._moves(call, 0):
            yield TelemetryFrame(0, tick, 0, point, action)

    def _moving_joint_state(self, request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _, point, _ in self._moves(call, 0):
            yield GetJointStateResponse(True, "", JointState(point, [], len(point), 0))

    def _moving_slots(self, request: StreamPolicySlotStateRequest, call: Call) -> Iterator[PolicySlotSummary]:
        for number, _, _ in self._moves(call, 0):
            yield PolicySlotSummary(slot_id=number, name=f"slot_{number}")

    def _moving_images(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        for number, _, _ in self._moves(call, 0):
            data = bytes((7 * number + place) % 256 for place in range(48))
            yield ImageFrame(data, 4, 4, 3, "raw", 0, number + 1)

    def _endless_controllers(self, request: StreamRobotControllerRequest, call: Call) -> Iterator[Any]:
        number = 0
        while not call.is_over:
            yield RobotControllerSummary(EntityId(number), f"item {number}")
            number += 1
            call.wait(_PERIOD_S)

    def _list_many(self, request: ListEntitiesRequest) -> ListEntitiesResponse:
        names = (f"entity\0{number}" for number in range(200))
        return ListEntitiesResponse([EntityInfo(EntityId(2**53 + 1 + at), name) for at, name in enumerate(names)])

    def _waits_for_its_deadline(self, request: LidarSensorRequest, call: Call) -> LidarBeamAnglesResponse:
        while call.deadline is not None and call.deadline.remaining_s < _SHORT_S and call.wait(1.0):
            pass
        return LidarBeamAnglesResponse(request.sensor)

    def _refused(self, request: LidarSensorRequest) -> Any:
        if request.sensor:
            return LidarBeamCountResponse(request.sensor)
        raise UnknownName(f"no sensor {request.sensor}", hint="ask for one that there is")


def make_engine(variant: str = "", num_envs: int = 1, **options: Any) -> Engine:
    """Return a MovingEngine."""
    return MovingEngine(num_envs, **options)
