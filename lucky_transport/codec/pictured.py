"""The short way for an item or answer whose one picture lies in shared memory; as `plain` is for the others.

    bytes 0 to 48   root offset, vtable, distance back to it: always the same
    48 to 108       dropped, correlation id, kind, places of what follows, the picture's place, length of the payload
    108             the payload

Rule 1: it is an ordinary `Envelope`; every FlatBuffers peer reads it.
Rule 2: what does not look exactly like one is left to `decode_envelope`; so is the answer whether it is sound.
"""

from __future__ import annotations

import struct

from lucky_transport.codec.envelope import Kind

__all__ = ["PICTURED_BYTES", "PicturedFields", "decode_pictured", "encode_pictured"]

#: correlation id, kind, dropped, payload, and the picture's place: length, file, slot, number
PicturedFields = tuple[int, int, int, bytes, int, int, int, int]

#: Root table at byte 44, its vtable at byte 8: of the slots 0 to 15 correlation_id, kind, payload, dropped and images.
_HEAD = struct.pack("<I4x18Hi", 44, 36, 28, 0, 8, 16, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 4, 24, 36)
#: dropped, correlation_id, kind, offsets of payload and images, 1, the place (length, file, slot, number), length
_REST = struct.Struct("<IQIIIIQIII8xI")
_PAYLOAD_OFFSET, _IMAGES_OFFSET = 40, 4
#: Bytes before the payload.
PICTURED_BYTES = len(_HEAD) + _REST.size
_LAST_KIND = int(max(Kind))

_pack, _unpack_from = _REST.pack, _REST.unpack_from
_join = b"".join


def encode_pictured(
    correlation_id: int, kind: int, dropped: int, payload: bytes, length: int, file: int, slot: int, number: int
) -> bytes:
    """Return the record of an envelope with these fields; raises ValueError for numbers that do not fit."""
    places = (_PAYLOAD_OFFSET, _IMAGES_OFFSET, 1)
    try:
        rest = _pack(dropped, correlation_id, kind, *places, length, file, slot, number, len(payload))
    except struct.error as error:
        raise ValueError(
            f"an envelope of call {correlation_id}, kind {kind}, {dropped} dropped, with a picture of {length} bytes "
            f"in slot {slot} of file {file}, number {number}: {error}"
        ) from error
    return _join((_HEAD, rest, payload))


def decode_pictured(record: bytes) -> PicturedFields | None:
    """Return the fields of the envelope, None for any other bytes."""
    if len(record) < PICTURED_BYTES or not record.startswith(_HEAD):
        return None
    rest: tuple[int, ...] = _unpack_from(record, len(_HEAD))
    dropped, call, kind, payload, images, count, length, file, slot, number, size = rest
    if payload != _PAYLOAD_OFFSET or images != _IMAGES_OFFSET or count != 1 or size != len(record) - PICTURED_BYTES:
        return None
    return (call, kind, dropped, record[PICTURED_BYTES:], length, file, slot, number) if kind <= _LAST_KIND else None
