"""The error region of a segment: why the last exchange has no frame.

u32 wire code, u32 length, UTF-8 text (`lucky_transport.shm.layout`).
"""

from __future__ import annotations

import struct

from lucky_transport.errors import TransportError, from_wire
from lucky_transport.shm.layout import ERROR_BYTES
from lucky_transport.shm.segment import Segment

__all__ = ["read", "write"]

_HEAD = struct.Struct("<II")


def write(segment: Segment, error: TransportError) -> None:
    """Leave the error there, its text cut to what there is room for."""
    text = str(error).encode()[: ERROR_BYTES - _HEAD.size]
    offset = segment.layout["error"].offset
    _HEAD.pack_into(segment.mapping, offset, error.wire_code, len(text))
    segment.mapping[offset + _HEAD.size : offset + _HEAD.size + len(text)] = text


def read(segment: Segment, backend: str) -> TransportError:
    """Return the error that the engine left."""
    offset = segment.layout["error"].offset
    code, length = _HEAD.unpack_from(segment.mapping, offset)
    start = offset + _HEAD.size
    text = segment.mapping[start : start + min(length, ERROR_BYTES - _HEAD.size)]
    return from_wire(code, text.decode(errors="replace"), backend=backend)
