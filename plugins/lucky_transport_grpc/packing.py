"""Arrays of packed bytes: row-major, little-endian, without padding."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import TransportError

if sys.byteorder != "little":  # pragma: no cover - no such machine runs an engine
    raise ImportError("lucky_transport packs arrays on little-endian machines only")


def unpack(what: str, data: bytes, dtype: str, shape: tuple[int, ...], refusal: type[TransportError]) -> NDArray[Any]:
    """Return `data` as a read-only array of `dtype` and `shape` that shares its memory and keeps it alive.

    Raises `refusal`, naming `what`, when the sizes do not fit.
    """
    kind = np.dtype(dtype)
    # a peer's bytes are checked before the first view of them exists
    expected = math.prod(shape) * kind.itemsize
    if len(data) != expected:
        raise refusal(f"{what}: {len(data)} bytes, expected {expected} ({dtype} {shape})", backend="grpc")
    if kind.kind == "b":  # any nonzero byte is true; NumPy only knows 1
        array = (np.frombuffer(data, np.uint8) != 0).reshape(shape)
        array.flags.writeable = False
        return array
    return np.frombuffer(data, kind).reshape(shape)
