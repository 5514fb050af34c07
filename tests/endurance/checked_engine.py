"""An engine whose answers all follow from their requests, so that a torn or foreign one is seen (`workloads`).

step                                  observations[i, j] = first action of env i, plus j; rewards = that action
LidarService/GetLidarBeamAngles       beams = the sensor's number, azimuth and elevation = `angles` of it
the rest                              as of the echo engine
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.messages import LidarBeamAnglesResponse, LidarSensorRequest
from lucky_transport_migration.bench.echo_engine import EchoEngine

NAME = "checked"
_BEAMS = 100
#: The first answers are as long as a record of a ring of the default size can be, about: after some of them the writer
#: has to skip what is left at the ring's end. (What is longer lies beside the ring.)
_MANY, LONG_SENSOR = 15_000, 3


def observations(actions: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Return what a step with these actions answers, float32 (num_envs, size)."""
    return np.add(actions[:, :1], np.arange(size), dtype=np.float32)


def angles(sensor: int) -> list[float]:
    """Return the directions of a sensor's beams."""
    return [float(sensor % 1000 + beam) for beam in range(_MANY if sensor <= LONG_SENSOR else _BEAMS)]


class CheckedSteps(ToyEngine):
    """The steps and angles, for an engine of the tests."""

    def bind(self, buffers: Buffers) -> None:
        super().bind(buffers)
        self._shared = buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        return {**super().services, "/hazel.rpc.LidarService/GetLidarBeamAngles": _angles}

    def step(self, control: NDArray[np.uint8] | None) -> None:
        shared = self._shared
        shared.observations[:] = observations(shared.actions, shared.observations.shape[1])
        shared.rewards[:] = shared.actions[:, 0]


class CheckedEngine(CheckedSteps, EchoEngine):
    """See the module; `options` are those of EchoEngine."""

    def __init__(self, num_envs: int = 16, *, obs_size: int = 64, **options: Any) -> None:
        super().__init__(num_envs, obs_size=obs_size, **options)
        self.spec = replace(self.spec, engine=NAME)


def _angles(request: LidarSensorRequest) -> LidarBeamAnglesResponse:
    shown = angles(request.sensor)
    return LidarBeamAnglesResponse(request.sensor, shown, shown)
