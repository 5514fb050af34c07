"""The short way for an item or answer whose one picture lies in shared memory; as `plain` is for the others.

    bytes 0 to 48   root offset, vtable, distance back to it: always the same
    48 to 108       dropped, correlation id, kind, places of what follows, the picture's place, length of the payload
    108             the payload

Rule 1: it is an ordinary `Envelope`; every FlatBuffers peer reads it.
Rule 2: what does not look exactly like one is left to `decode_envelope`; so is the answer whether it is sound.
"""

from __future__ import annotations

import struct

from lucky_transport.codec.envelope import ImagePlace, Kind

__all__ = ["decode_pictured", "encode_pictured"]

#: Root table at byte 44, its vtable at byte 8: of the slots 0 to 15 correlation_id, kind, payload, dropped and images.
_HEAD = struct.pack("<I4x18Hi", 44, 36, 28, 0, 8, 16, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 4, 24, 36)
#: dropped, correlation_id, kind, offsets of payload and images, 1, the place (length, file, slot, number), length
_REST = struct.Struct("<IQIIIIQIII8xI")
_PAYLOAD_OFFSET, _IMAGES_OFFSET = 40, 4
_BEFORE = len(_HEAD) + _REST.size
_KINDS = tuple(Kind)

_pack, _unpack_from = _REST.pack, _REST.unpack_from
_join = b"".join


def encode_pictured(correlation_id: int, kind: int, dropped: int, payload: bytes, place: ImagePlace) -> bytes:
    """Return the record of an envelope with these fields; raises ValueError for numbers that do not fit."""
    try:
        rest = _pack(
            dropped,
            correlation_id,
            kind,
            _PAYLOAD_OFFSET,
            _IMAGES_OFFSET,
            1,
            place.length,
            place.file,
            place.slot,
            place.number,
            len(payload),
        )
    except struct.error as error:
        raise ValueError(f"an envelope of call {correlation_id}, kind {kind}, with {place}: {error}") from error
    return _join((_HEAD, rest, payload))


def decode_pictured(record: bytes) -> tuple[int, Kind, int, bytes, ImagePlace] | None:
    """Return (correlation id, kind, dropped, payload, place), None for any other bytes."""
    if len(record) < _BEFORE or not record.startswith(_HEAD):
        return None
    rest: tuple[int, ...] = _unpack_from(record, len(_HEAD))
    dropped, call, kind, payload, images, count, length, file, slot, number, size = rest
    if payload != _PAYLOAD_OFFSET or images != _IMAGES_OFFSET or count != 1 or size != len(record) - _BEFORE:
        return None
    if kind >= len(_KINDS):
        return None
    return call, _KINDS[kind], dropped, record[_BEFORE:], ImagePlace(length, file, slot, number)
