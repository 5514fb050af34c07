"""What one record of a command ring says: which call it belongs to, what it is, and its payload.

Rule 1: fields are only ever appended; their slots are the wire.
Rule 2: the record's length word stands right before the envelope, so that both together are a size-prefixed FlatBuffers
        buffer, aligned as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.scalars import U32, U64, no_items, struct

__all__ = ["Envelope", "ImagePlace", "Kind", "Metadatum", "decode_envelope", "encode_envelope"]

#: The record's length word; see Rule 2.
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


@struct
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


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope as the bytes of one record (without the record's length word).

    Raises TypeError or ValueError, with the field and its value, for what does not fit the field.
    """
    return encode(envelope, prefix_bytes=_PREFIX_BYTES)


def decode_envelope(record: bytes) -> Envelope:
    """Return the envelope that a record holds.

    Raises RemoteProtocolError for anything but a sound envelope of a known kind.
    """
    envelope = decode(Envelope, record)
    if envelope.kind.__class__ is not Kind:
        raise RemoteProtocolError(
            f"envelope of kind {int(envelope.kind)} for method {envelope.method}, call {envelope.correlation_id}; "
            f"known are 0 to {int(max(Kind))}",
            hint="update this side, the peer is newer",
        )
    return envelope
