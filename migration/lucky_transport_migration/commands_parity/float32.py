"""Numbers as a float32 field holds them."""

from __future__ import annotations

import struct

__all__ = ["f32"]


def f32(value: float) -> float:
    """Return `value` as float32 holds it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
