"""Cameras placed in the scene: listing, streaming, and the model of their depth sensor.

Generated from proto/camera.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages._generated.common import EntityId
from lucky_transport.messages.scalars import F32, U32, no_items, one_of

__all__ = [
    "CameraConfig",
    "CameraConfigAck",
    "CameraConfigResponse",
    "CameraInfo",
    "GetCameraConfigRequest",
    "ListCamerasRequest",
    "ListCamerasResponse",
    "SetCameraConfigRequest",
    "StreamCameraRequest",
]


@dataclass(slots=True)
class CameraInfo:
    """One camera of the scene."""

    id: EntityId | None = None
    name: str = ""


@dataclass(slots=True)
class ListCamerasRequest:
    """Asks for all cameras."""


@dataclass(slots=True)
class ListCamerasResponse:
    """All cameras of the scene."""

    cameras: list[CameraInfo] = field(default_factory=no_items)


@one_of("id", "name")
@dataclass(slots=True)
class StreamCameraRequest:
    """Asks for a camera's colour images, by entity or by name (`id` counts when given).

    target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 = the
    camera's own. format: "raw" or "jpeg"; engines always send raw.
    """

    id: EntityId | None = None
    name: str = ""
    target_fps: U32 = 0
    width: U32 = 0
    height: U32 = 0
    format: str = ""


@dataclass(slots=True)
class CameraConfig:
    """How a camera renders, and the model of its depth sensor.

    Always written as a whole: read it, change it, write it back.

    width, height: pixels. sensor_model: 0 exact depth, 1 active stereo, 2 indirect time of flight, 3 structured light,
    4 sparse direct time of flight. depth_scale: metres per step of the uint16 depth. min_range, max_range, baseline:
    metres. detect_floor: weakest signal that still counts, 0 to 1. subpixel_sigma: noise of the disparity, pixels.
    debug_channel: 0 = depth, else an internal term of the sensor model.
    """

    width: U32 = 0
    height: U32 = 0
    record_mask: bool = False
    record_depth: bool = False
    enabled: bool = False
    sensor_model: U32 = 0
    depth_scale: F32 = 0.0
    max_range: F32 = 0.0
    min_range: F32 = 0.0
    detect_floor: F32 = 0.0
    baseline: F32 = 0.0
    subpixel_sigma: F32 = 0.0
    debug_channel: U32 = 0


@one_of("id", "name")
@dataclass(slots=True)
class GetCameraConfigRequest:
    """Asks how a camera is set, by entity or by name (`id` counts when given)."""

    id: EntityId | None = None
    name: str = ""


@dataclass(slots=True)
class CameraConfigResponse:
    """How the camera is set; `found` is False where there is none."""

    found: bool = False
    config: CameraConfig | None = None


@one_of("id", "name")
@dataclass(slots=True)
class SetCameraConfigRequest:
    """Sets a camera, by entity or by name (`id` counts when given)."""

    id: EntityId | None = None
    name: str = ""
    config: CameraConfig | None = None


@dataclass(slots=True)
class CameraConfigAck:
    """Whether the camera was set, else why not."""

    ok: bool = False
    message: str = ""
