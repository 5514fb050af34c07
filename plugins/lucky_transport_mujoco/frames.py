"""Pictures as messages.

Colour is RGBA, a byte each; depth is little-endian uint16 codes of `depth_scale` metres, 0 where there is nothing to
measure.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError, UnknownName, did_you_mean
from lucky_transport.messages import CameraConfig, ImageFrame
from lucky_transport_mujoco.render_thread import MAX_SIDE

__all__ = ["colour_frame", "depth_frame", "size", "unknown"]

_MAX_CODE = 65535

#: There is no encoder, whatever format was asked for.
_FORMAT = "raw"


def colour_frame(picture: NDArray[np.uint8], number: int, memory: memoryview | None = None) -> ImageFrame:
    """Return the message of a picture (height, width, 4), which holds `memory` itself where it was drawn into that."""
    height, width, channels = picture.shape
    data = picture.tobytes() if memory is None else memory
    return ImageFrame(data, width, height, channels, _FORMAT, _now_ms(), number & 0xFFFFFFFF)


def depth_frame(metres: NDArray[np.float32], config: CameraConfig, number: int) -> ImageFrame:
    """Return the message of distances (height, width): out of the camera's range, or of uint16, is code 0."""
    codes = np.rint(metres / np.float32(config.depth_scale))
    measured = (metres >= config.min_range) & (metres <= config.max_range) & (codes <= _MAX_CODE)
    data = np.where(measured, codes, 0).astype("<u2").tobytes()
    height, width = metres.shape
    return ImageFrame(data, width, height, 1, _FORMAT, _now_ms(), number & 0xFFFFFFFF, config.depth_scale)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def size(width: int, height: int, native: tuple[int, int]) -> tuple[int, int]:
    """Return the size of a picture that was asked for with these numbers, 0 meaning native.

    Raises SpecError for one that is too large.
    """
    out = (width or native[0], height or native[1])
    if max(out) > MAX_SIDE:
        raise SpecError(f"a picture of {out[0]} x {out[1]} pixels", hint=f"ask for at most {MAX_SIDE} x {MAX_SIDE}")
    return out


def unknown(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that nothing has, with the nearest one and all there are."""
    names = list(known)
    hint = f"{did_you_mean(name, names)}there are: {', '.join(names)}"
    return UnknownName(f"no {kind} {name!r}", backend="mujoco", hint=hint)
