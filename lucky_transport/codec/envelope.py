"""The envelope: the form of one record of a command ring: its call, its kind and its payload.

Every envelope is a FlatBuffers table. The two that travel most have a fixed layout besides, which one `struct` writes
and reads: the compact envelope carries a request, response or stream item, the image envelope also says where the
message's one image lies in shared memory. `_native/envelope.c` writes and reads the same bytes.

    compact   0 to 32    root offset, vtable, distance back to it: always the same
              32 to 68   method, correlation id, deadline, kind, offset and length of the payload
              68         the payload
    image     0 to 48    root offset, vtable, distance back to it: always the same
              48 to 108  dropped, correlation id, kind, offsets, the image's place, length of the payload
              108        the payload

The record's length word stands right before the envelope: both together are a size-prefixed buffer, aligned as one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport import native
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.scalars import U32, U64, no_items
from lucky_transport.messages.scalars import struct as in_place

#: What an envelope may have around its message: names, texts, metadata.
AROUND_MESSAGE = 64 << 10
#: A payload from this length on travels apart from what is before it, without being copied in between.
APART_BYTES = 4096
#: The record's length word.
_PREFIX_BYTES = 4


class Kind(IntEnum):
    """What an envelope is in the life of its call.

    REQUEST opens a call; its payload is the request, empty where requests are streamed. RESPONSE answers a call and
    ends it. STREAM_ITEM: one item of a stream, in either direction. CREDIT allows the sender of a stream more items.
    HALF_CLOSE: the client sends no further items. END: the server sends no further items; ends the call. CANCEL: the
    client wants no more; ends the call. ERROR: the call failed, `status` and `details` say why; ends the call.
    FRAGMENT: a part of an envelope that is longer than the longest record; `window` is the length of the message in
    it. HEADERS: metadata that the server sends ahead of its first message.
    """

    REQUEST = 0
    RESPONSE = 1
    STREAM_ITEM = 2
    CREDIT = 3
    HALF_CLOSE = 4
    END = 5
    CANCEL = 6
    ERROR = 7
    FRAGMENT = 8
    HEADERS = 9


@dataclass(slots=True)
class Metadatum:
    """One entry of a call's metadata; keys may repeat and their order counts, as in gRPC."""

    key: str = ""
    value: bytes = b""


@in_place
@dataclass(slots=True)
class ImagePlace:
    """Where one image of the message lies: `length` bytes in a slot of a file beside the segment
    (`<segment>.images.<file>`), where they stay as long as the slot has that number. file 0: in the message itself.
    """

    length: U64 = 0
    file: U32 = 0
    slot: U32 = 0
    number: U32 = 0


@dataclass(slots=True)
class Envelope:
    """One record of a command ring: one message of one call.

    The record's length word stands right before it, so that both together are a size-prefixed buffer.

    method: the method's id. correlation_id: the caller's number for the call, the same in everything that belongs to
    it. deadline_ns: nanoseconds that the caller still waits, 0 = no limit. status: class of the error (`wire_code` in
    lucky_transport/errors.py), 0 = ok; details: its text. payload: the method's request or response as a buffer of its
    own, at a multiple of 8, or raw bytes where the method carries a foreign message.

    path: full name of a method that has no id. streams: of a request, bit 0 = the caller sends a stream, bit 1 = it
    takes one. items, window: messages and payload bytes that the receiver of a request or credit may send in addition
    to what it was granted before; a message may be sent while both are above zero, however long it is. offset, total:
    of a fragment, where its payload lies in an envelope of that many bytes; fragments of a call come in order. dropped:
    items that a stream skipped so far. images: places of the message's images, in the order in which they are in it;
    empty when they are all in the message. code: status of a protocol that travels inside ours (gRPC's number), where a
    handler ended its call with one; `status` is then that of `StatusError`.
    """

    method: U32 = 0
    correlation_id: U64 = 0
    kind: Annotated[Kind, "u32"] = Kind.REQUEST
    deadline_ns: U64 = 0
    status: U32 = 0
    details: str = ""
    metadata: list[Metadatum] = field(default_factory=no_items)
    payload: bytes = b""
    path: str = ""
    streams: U32 = 0
    items: U32 = 0
    window: U32 = 0
    offset: U64 = 0
    total: U64 = 0
    dropped: U32 = 0
    images: list[ImagePlace] = field(default_factory=no_items)
    code: U32 = 0


#: Where an image lies: length, file, slot, number.
ImageFields = tuple[int, int, int, int]
#: kind, correlation id, payload, method, deadline_ns, dropped, image: what `Pipe.push` takes, in its order.
CompactFields = tuple[int, int, bytes, int, int, int, ImageFields | None]
#: A record that ends with the envelope's payload: all that is before it, and the payload.
Pieces = list[bytes]
#: A record on its way into a pipe.
Record = bytes | Pieces
#: What comes out of a ring: the fields of a compact or image envelope; of any other record its bytes, or its pieces
#: where it ends with a payload of `APART_BYTES` or more. The first piece then says that the payload is empty.
Popped = CompactFields | bytes | Pieces
#: Consecutive compact stream items of one call: its correlation id, and their payloads.
ItemRun = tuple[int, list[bytes]]
#: In the place of a message that was left in shared memory: its call, its bytes, and how many are allowed.
TooLong = tuple[int, int, int]

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

#: Stands where a payload is to come, at the end of its envelope: such a length needs no padding.
_STAND_IN = b"last"
_LAST_KIND = int(max(Kind))
_join = b"".join


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope as the bytes of one record (without the record's length word).

    Raises TypeError or ValueError, with the field and its value, for what does not fit the field.
    """
    return encode(envelope, prefix_bytes=_PREFIX_BYTES)


def encode_record(envelope: Envelope) -> Record:
    """Return the envelope as a record, in pieces where its payload is long: the second one is the payload itself.

    Raises as `encode_envelope`.
    """
    payload = envelope.payload
    if len(payload) < APART_BYTES or payload.__class__ is not bytes or envelope.path or envelope.images:
        return encode_envelope(envelope)
    envelope.payload = _STAND_IN
    try:
        record = encode_envelope(envelope)
    finally:
        envelope.payload = payload
    return [record[: -len(_STAND_IN) - 4] + len(payload).to_bytes(4, "little"), payload]


def joined(record: Record) -> bytes:
    """Return the record's bytes."""
    return record if isinstance(record, bytes) else _join(record)


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


def decode_compact(record: bytes) -> Popped:
    """Return the fields of a compact or image envelope, the record itself when it is neither.

    The record itself may be an envelope of another layout or unsound; `decode_envelope` checks it.
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
    return record


def decode_envelope(popped: Popped) -> Envelope:
    """Return the envelope that a record, or what came of it out of a ring, holds.

    Raises RemoteProtocolError for anything but a sound envelope of a known kind. The bytes of a payload that comes
    apart belong to nothing else: an envelope whose other fields reach into them is refused, in one piece too.
    """
    if isinstance(popped, tuple):
        kind, correlation_id, payload, method, deadline_ns, dropped, image = popped
        images = [] if image is None else [ImagePlace(*image)]
        return Envelope(
            method, correlation_id, Kind(kind), deadline_ns, payload=payload, dropped=dropped, images=images
        )
    front, *rest = popped if isinstance(popped, list) else _pieces(popped)
    envelope = decode(Envelope, front)
    if rest:
        [envelope.payload] = rest
    if envelope.kind.__class__ is not Kind:
        raise RemoteProtocolError(
            f"envelope of kind {int(envelope.kind)} for method {envelope.method}, call {envelope.correlation_id}; "
            f"known are 0 to {int(max(Kind))}",
            hint="update this side, the peer is newer",
        )
    return envelope


def _pieces(record: bytes) -> Pieces:
    """Return the record as a ring hands it out: in one piece, or in two."""
    start = native.payload_at_end(record) if len(record) >= APART_BYTES else 0
    if not start:
        return [record]
    end = start + int.from_bytes(record[start - 4 : start], "little")
    return [record[: start - 4] + bytes(4), record[start:end]]
