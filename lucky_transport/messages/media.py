"""Pictures, as they travel inside other messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lucky_transport.messages.scalars import F32, U32, U64, Buffer

__all__ = [
    "CameraStreamKind",
    "ImageFrame",
    "NamedImageFrame",
]


class CameraStreamKind(IntEnum):
    """What a picture holds.

    COLOR is RGBA, one byte per channel; DEPTH is one uint16 per pixel, in steps of `depth_scale`.
    """

    COLOR = 0
    DEPTH = 1


@dataclass(slots=True)
class ImageFrame:
    """One picture, uncompressed: rows from the top, pixels from the left.

    data: uint8 [height, width, channels] for colour; little-endian uint16 [height, width] for depth, where metres =
    value * `depth_scale` (0 for colour). format: "raw". timestamp_ms: wall clock, milliseconds since 1970.
    frame_number: grows with each picture of a stream.
    """

    data: Buffer = b""  # a memoryview where one was asked for: `Stream` with copy=False, `Call.image_buffer`
    width: U32 = 0
    height: U32 = 0
    channels: U32 = 0
    format: str = ""
    timestamp_ms: U64 = 0
    frame_number: U32 = 0
    depth_scale: F32 = 0.0


@dataclass(slots=True)
class NamedImageFrame:
    """A picture and the name of the camera that took it."""

    name: str = ""
    frame: ImageFrame | None = None
