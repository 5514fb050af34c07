"""The short way for the envelopes that travel most: requests, responses and stream items without anything special.

    bytes 0 to 32   root offset, vtable, distance back to it: the same in every plain envelope
    32 to 68        method, correlation id, deadline, kind, place and length of the payload: one `struct`
    68              the payload

Rule 1: a plain envelope is an ordinary `Envelope`; every FlatBuffers peer reads it.
Rule 2: what does not look exactly like one is left to `decode_envelope`; so is the answer whether it is sound.
"""

from __future__ import annotations

import struct

from lucky_transport.codec.envelope import Kind

__all__ = ["PLAIN_BYTES", "Plain", "decode_plain", "encode_plain"]

#: method, correlation id, deadline_ns, kind, payload
Plain = tuple[int, int, int, int, bytes]

#: Root table at byte 28, its vtable at byte 8: slots 0 to 7, of which `status`, `details` and `metadata` are absent.
_HEAD = struct.pack("<I4x10Hi", 28, 20, 32, 4, 8, 24, 16, 0, 0, 0, 28, 20)
#: method, correlation_id, deadline_ns, kind, offset of the payload, its length
_REST = struct.Struct("<IQQII4xI")
_PAYLOAD_OFFSET = 8
#: Bytes before the payload.
PLAIN_BYTES = len(_HEAD) + _REST.size
_LAST_KIND = int(max(Kind))

_pack, _unpack_from = _REST.pack, _REST.unpack_from
_join = b"".join


def encode_plain(method: int, correlation_id: int, kind: int, deadline_ns: int, payload: bytes) -> bytes:
    """Return the record of an envelope with these fields; raises ValueError for numbers that do not fit."""
    try:
        rest = _pack(method, correlation_id, deadline_ns, kind, _PAYLOAD_OFFSET, len(payload))
    except struct.error as error:
        raise ValueError(
            f"an envelope of method {method}, call {correlation_id}, kind {kind}, deadline {deadline_ns} ns and "
            f"{len(payload)} bytes of payload: {error}"
        ) from error
    return _join((_HEAD, rest, payload))


def decode_plain(record: bytes) -> Plain | None:
    """Return (method, correlation id, deadline_ns, kind, payload) of a plain envelope, None for any other bytes."""
    if len(record) < PLAIN_BYTES or not record.startswith(_HEAD):
        return None
    kind: int
    method, correlation_id, deadline_ns, kind, offset, length = _unpack_from(record, len(_HEAD))
    if offset != _PAYLOAD_OFFSET or length != len(record) - PLAIN_BYTES or kind > _LAST_KIND:
        return None
    return method, correlation_id, deadline_ns, kind, record[PLAIN_BYTES:]
