"""TelemetryService: positions and controls of the shown world, for dashboards and recorders."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.messages import (
    GetTelemetrySchemaRequest,
    GetTelemetrySchemaResponse,
    StreamTelemetryRequest,
    TelemetryFrame,
    TelemetrySchema,
)
from lucky_transport_mujoco.rates import rate_hz
from lucky_transport_mujoco.world import SHOWN, MujocoWorlds

__all__ = ["telemetry_handlers", "telemetry_streams"]

_PREFIX = "/hazel.rpc.TelemetryService/"
_BASE = ("base/x", "base/y", "base/z", "base/qw", "base/qx", "base/qy", "base/qz")


def telemetry_handlers(world: MujocoWorlds) -> Mapping[str, Handler]:
    """Return the handler, by full method name."""
    robot = world.robot

    def schema(_: GetTelemetrySchemaRequest) -> GetTelemetrySchemaResponse:
        names, actuators = [*_BASE, *robot.joint_names], list(robot.actuator_names)
        return GetTelemetrySchemaResponse(TelemetrySchema(names, actuators, robot.nq, robot.nu))

    return {_PREFIX + "GetTelemetrySchema": schema}


def telemetry_streams(world: MujocoWorlds) -> Mapping[str, StreamHandler]:
    """Return the stream's handler, by full method name."""

    def stream(request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        for _ in call.ticks(rate_hz(request.target_fps)):
            with call.between_steps():
                frame = TelemetryFrame(
                    timestamp_ms=time.time_ns() // 1_000_000,
                    frame_number=world.frame_number() & 0xFFFF_FFFF,
                    task_index=0,  # one task per engine
                    observation_qpos=world.qpos().tolist(),
                    action_ctrl=world.ctrl[SHOWN].tolist(),
                )
            yield frame

    return {_PREFIX + "StreamTelemetry": stream}
