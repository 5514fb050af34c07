"""Images as they travel inside other messages.

Generated from proto/media.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucky_transport.messages.scalars import F32, U32, U64, Buffer

__all__ = ["ImageFrame", "NamedImageFrame"]


@dataclass(slots=True)
class ImageFrame:
    """One image, uncompressed: rows from the top, pixels from the left.

    data: uint8 [height, width, channels] for colour; little-endian uint16 [height, width] for depth, where metres =
    value * `depth_scale` (0 for colour). format: "raw". timestamp_ms: wall clock, milliseconds since 1970.
    frame_number: grows with each image of a stream.
    """

    data: Buffer = b""
    width: U32 = 0
    height: U32 = 0
    channels: U32 = 0  # per pixel; 4 for RGBA
    format: str = ""
    timestamp_ms: U64 = 0
    frame_number: U32 = 0
    depth_scale: F32 = 0.0


@dataclass(slots=True)
class NamedImageFrame:
    """An image and the name of the camera that rendered it."""

    name: str = ""
    frame: ImageFrame | None = None
