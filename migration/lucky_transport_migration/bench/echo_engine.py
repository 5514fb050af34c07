"""The engine of command benchmarks: it answers at once with what it was asked, so that only the transport is measured.

    LidarService/GetLidarBeamCount        answered inline: beams = the sensor's number
    LidarService/GetLidarBeamAngles       answered in the pool: the same
    StateService/SetState                 answered between two steps: observation = the state that came
    AgentService/StreamPolicySlotState    as many items as the slot's number says, numbered from 0, `item_bytes` long
    CameraService/StreamCamera            prepared images, numbered from 1, at `target_fps`, 0 = as fast as taken
    TelemetryService/StreamTelemetry      one point of a toy engine, at `target_fps`

A step takes `step_s` of computing in which other threads can run, as a simulator's does, and nothing else.

Every byte of image n is `shade(n)`, so that a reader can tell a torn or stale one.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.engine_options import check_options, option_names, unknown_variant
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import SpecError
from lucky_transport.messages import (
    ImageFrame,
    LidarBeamAnglesResponse,
    LidarBeamCountResponse,
    PolicySlotSummary,
    SetStateResponse,
    StreamCameraRequest,
    StreamPolicySlotStateRequest,
)

_RPC = "/hazel.rpc."
_PREPARED = 4
_CHANNELS = 4
_CHUNK = bytes(32 << 10)  # computed on without the GIL, about 10 us at a time


def shade(number: int) -> int:
    """Return the value of every byte of image `number`."""
    return 10 + number % _PREPARED


class EchoEngine(ToyEngine):
    """See the module. width, height: of the images, pixels. item_bytes: about, of a StreamPolicySlotState item."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        step_s: float = 0.0,
        width: int = 1280,
        height: int = 720,
        item_bytes: int = 1000,
        **options: Any,
    ) -> None:
        if width < 1 or height < 1 or item_bytes < 0:
            raise SpecError(f"echo engine: images of {width} x {height}, items of {item_bytes} bytes")
        super().__init__(num_envs, idle=True, **options)
        self.spec = replace(self.spec, engine="echo")
        self._step_s = step_s
        self._size = width, height
        self._text = "x" * item_bytes
        self._images = [bytes([shade(number)]) * (width * height * _CHANNELS) for number in range(_PREPARED)]

    @property
    def services(self) -> Mapping[str, Handler]:
        return {
            **super().services,
            _RPC + "LidarService/GetLidarBeamCount": lambda request: LidarBeamCountResponse(request.sensor),
            _RPC + "LidarService/GetLidarBeamAngles": lambda request: LidarBeamAnglesResponse(request.sensor),
            "/lucky_transport.v1.StateService/SetState": lambda request: SetStateResponse(request.state),
        }

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {
            **super().streams,
            _RPC + "AgentService/StreamPolicySlotState": self._items,
            _RPC + "CameraService/StreamCamera": self._stream_images,
        }

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if self._step_s:
            end = time.perf_counter() + self._step_s
            while time.perf_counter() < end:
                zlib.crc32(_CHUNK)

    def _items(self, request: StreamPolicySlotStateRequest, call: Call) -> Iterator[PolicySlotSummary]:
        for number in range(request.slot_id):
            if call.is_over:
                return
            yield PolicySlotSummary(slot_id=number, name=self._text)

    def _stream_images(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        ticks = call.ticks(request.target_fps) if request.target_fps else count()
        for number, _ in enumerate(ticks, 1):
            if call.is_over:
                return
            data = self._images[number % _PREPARED]
            yield ImageFrame(data, *self._size, _CHANNELS, "raw", time.time_ns() // 1_000_000, number)


def make_engine(variant: str = "", num_envs: int = 1, **options: Any) -> EchoEngine:
    """Return an EchoEngine; it has no variants. Raises UnknownName, ConfigError (no such option), SpecError."""
    if variant:
        raise unknown_variant("echo", variant, ())
    check_options("echo", options, option_names(EchoEngine, ToyEngine))
    try:
        return EchoEngine(num_envs, **options)
    except TypeError as error:
        raise SpecError(f"echo engine: {error}", hint="see EchoEngine for its options") from error
