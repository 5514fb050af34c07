"""Fixed layouts for the envelopes that travel most, written and read by one `struct` instead of the compiled codec.

A compact envelope carries a request, response or stream item; an image envelope also says where the message's one image
lies in shared memory. Both are ordinary `Envelope` tables: every FlatBuffers peer reads them.

    compact   0 to 32    root offset, vtable, distance back to it: always the same
              32 to 68   method, correlation id, deadline, kind, offset and length of the payload
              68         the payload
    image     0 to 48    root offset, vtable, distance back to it: always the same
              48 to 108  dropped, correlation id, kind, offsets, the image's place, length of the payload
              108        the payload

The native module writes and reads the same bytes (`shm/_native/envelope.c`).
"""

from __future__ import annotations

import struct

from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, decode_envelope

__all__ = [
    "COMPACT_BYTES",
    "IMAGE_BYTES",
    "CompactFields",
    "ImageFields",
    "ItemRun",
    "Popped",
    "decode_compact",
    "encode_compact",
    "envelope_of",
    "fields_of",
]

#: Where an image lies: length, file, slot, number.
ImageFields = tuple[int, int, int, int]
#: kind, correlation id, payload, method, deadline_ns, dropped, image: what `Pipe.push` takes, in its order.
CompactFields = tuple[int, int, bytes, int, int, int, ImageFields | None]
#: What comes out of a ring: the fields of a compact or image envelope, the bytes of any other record.
Popped = CompactFields | bytes
#: Consecutive compact stream items of one call: its correlation id, and their payloads.
ItemRun = tuple[int, list[bytes]]

#: Root table at byte 28, its vtable at byte 8: slots 0 to 7, of which `status`, `details` and `metadata` are absent.
_COMPACT_HEAD = struct.pack("<I4x10Hi", 28, 20, 32, 4, 8, 24, 16, 0, 0, 0, 28, 20)
#: method, correlation_id, deadline_ns, kind, offset of the payload, its length
_COMPACT_REST = struct.Struct("<IQQII4xI")
_COMPACT_PAYLOAD = 8
#: Bytes before the payload of a compact envelope.
COMPACT_BYTES = len(_COMPACT_HEAD) + _COMPACT_REST.size

#: Root table at byte 44, its vtable at byte 8: of the slots 0 to 15 correlation_id, kind, payload, dropped and images.
_IMAGE_HEAD = struct.pack("<I4x18Hi", 44, 36, 28, 0, 8, 16, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 4, 24, 36)
#: dropped, correlation_id, kind, offsets of payload and images, 1, the place (length, file, slot, number), length
_IMAGE_REST = struct.Struct("<IQIIIIQIII8xI")
_IMAGE_OFFSETS = (40, 4, 1)
#: Bytes before the payload of an image envelope.
IMAGE_BYTES = len(_IMAGE_HEAD) + _IMAGE_REST.size

_LAST_KIND = int(max(Kind))
_join = b"".join


def encode_compact(
    kind: int,
    correlation_id: int,
    payload: bytes,
    method: int = 0,
    deadline_ns: int = 0,
    dropped: int = 0,
    image: ImageFields | None = None,
) -> bytes:
    """Return the record of a compact envelope, of an image envelope when `image` is given.

    Raises ValueError for numbers that do not fit, and for fields that the layout lacks: a compact envelope has no
    `dropped`, an image envelope neither method nor deadline.
    """
    if dropped if image is None else method or deadline_ns:
        raise ValueError("a compact envelope has no dropped, an image envelope no method and no deadline")
    try:
        if image is None:
            fields = (method, correlation_id, deadline_ns, kind, _COMPACT_PAYLOAD, len(payload))
            return _join((_COMPACT_HEAD, _COMPACT_REST.pack(*fields), payload))
        rest = _IMAGE_REST.pack(dropped, correlation_id, kind, *_IMAGE_OFFSETS, *image, len(payload))
    except struct.error as error:
        raise ValueError(
            f"an envelope of kind {kind}, call {correlation_id}, method {method}, deadline {deadline_ns} ns, "
            f"{dropped} dropped, image {image} and {len(payload)} bytes of payload: {error}"
        ) from error
    return _join((_IMAGE_HEAD, rest, payload))


def decode_compact(record: bytes) -> CompactFields | None:
    """Return the fields of a compact or image envelope, None for any other bytes.

    None says nothing about the record: `decode_envelope` tells whether it is another layout or unsound.
    """
    if len(record) >= COMPACT_BYTES and record.startswith(_COMPACT_HEAD):
        values: tuple[int, ...] = _COMPACT_REST.unpack_from(record, len(_COMPACT_HEAD))
        method, correlation_id, deadline_ns, kind, offset, length = values
        if offset == _COMPACT_PAYLOAD and length == len(record) - COMPACT_BYTES and kind <= _LAST_KIND:
            return kind, correlation_id, record[COMPACT_BYTES:], method, deadline_ns, 0, None
    elif len(record) >= IMAGE_BYTES and record.startswith(_IMAGE_HEAD):
        values = _IMAGE_REST.unpack_from(record, len(_IMAGE_HEAD))
        dropped, correlation_id, kind, *offsets, length, file, slot, number, size = values
        if tuple(offsets) == _IMAGE_OFFSETS and size == len(record) - IMAGE_BYTES and kind <= _LAST_KIND:
            return kind, correlation_id, record[IMAGE_BYTES:], 0, 0, dropped, (length, file, slot, number)
    return None


def fields_of(record: bytes) -> Popped:
    """Return the fields of a compact or image envelope, the record itself when it is neither."""
    return decode_compact(record) or record


def envelope_of(popped: Popped) -> Envelope:
    """Return the whole envelope of what came out of a ring. Raises RemoteProtocolError for an unsound record."""
    if not isinstance(popped, tuple):
        return decode_envelope(popped)
    kind, correlation_id, payload, method, deadline_ns, dropped, image = popped
    return Envelope(
        method,
        correlation_id,
        Kind(kind),
        deadline_ns,
        payload=payload,
        dropped=dropped,
        images=[] if image is None else [ImagePlace(*image)],
    )
