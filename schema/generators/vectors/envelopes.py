"""Envelopes as vectors: our own, such as code of flatc writes, and bytes that are none."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

import flatbuffers

from lucky_transport import errors
from lucky_transport.codec.envelope import (
    Envelope,
    ImagePlace,
    Kind,
    Metadatum,
    decode_envelope,
    encode_compact,
    encode_envelope,
)
from lucky_transport.codec.flatbuffers import encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import (
    GetJointStateRequest,
    StreamCameraRequest,
)
from lucky_transport.rpc.error_envelope import error_envelope
from lucky_transport.rpc.flow_control import LATEST
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.requests import RequestEncoder

__all__ = ["envelopes"]


def envelopes() -> Iterator[dict[str, Any]]:
    joint = encode(GetJointStateRequest("agent_3"))
    camera = encode(StreamCameraRequest(name="front", width=64))
    requests = RequestEncoder(1 << 16)
    image = ImagePlace(16384, 3, 2, 8)
    for name, record in {
        "compact request": requests.encode(40, 7, joint, 5_000_000_000, ()),
        "compact request without a payload": requests.encode(60, 8, b"", 0, ()),
        "request of a stream": requests.encode(81, 9, camera, 0, (), Shape.SERVER_STREAM, LATEST),
        "request with metadata": requests.encode(40, 2, joint, 1, (("a", "b"), ("c-bin", b"\0\xff"))),
        "request by name": requests.encode("/my.Service/Method", 11, b"raw", 0, ()),
        "compact response": encode_envelope(Envelope(0, 7, Kind.RESPONSE, payload=joint)),
        "compact stream item": encode_envelope(Envelope(0, 9, Kind.STREAM_ITEM, payload=joint)),
        "stream item with dropped ones": encode_envelope(Envelope(0, 9, Kind.STREAM_ITEM, payload=joint, dropped=3)),
        "image item": encode_envelope(Envelope(0, 9, Kind.STREAM_ITEM, payload=camera, dropped=1, images=[image])),
        "item with two images": encode_envelope(
            Envelope(0, 9, Kind.STREAM_ITEM, payload=camera, images=[image, ImagePlace(5, 0, 0, 0)])
        ),
        "credit": encode_envelope(Envelope(0, 9, Kind.CREDIT, items=2, window=1 << 30)),
        "half-close": encode_envelope(Envelope(0, 9, Kind.HALF_CLOSE)),
        "end": encode_envelope(Envelope(0, 9, Kind.END)),
        "cancel": encode_envelope(Envelope(0, 9, Kind.CANCEL)),
        "error": encode_envelope(error_envelope(0, 7, errors.Unimplemented("the engine does not know method 60"))),
        "error with the largest numbers": encode_envelope(
            Envelope((1 << 32) - 1, (1 << 64) - 1, Kind.ERROR, (1 << 64) - 1, 16, "größer")
        ),
        "goaway": encode_envelope(error_envelope(0, 0, errors.ClosedError("the engine is closing"))),
        "fragment": encode_envelope(Envelope(0, 5, Kind.FRAGMENT, payload=b"piece", window=200, offset=95, total=300)),
        "headers": encode_envelope(Envelope(0, 5, Kind.HEADERS, metadata=[Metadatum("key", b"value")])),
    }.items():
        yield _envelope(name, record if isinstance(record, bytes) else encode_compact(*record), "python")
    everything = Envelope(
        40, 7, Kind.ERROR, 5, 16, "why", [Metadatum("k", b"v")], b"payload", "/a.B/C", 2, 3, 4, 5, 6, 7, [image], 8
    )
    yield _envelope("everything, fields in reverse, 8-aligned payload", _flatc_like(everything), "flatc")
    defaults = Envelope(0, 7, Kind.RESPONSE, payload=b"")
    yield _envelope("defaults written out, a newer peer's fields", _flatc_like(defaults, newer=True), "flatc")
    yield from _hostile_envelopes(encode_envelope(everything))


def _envelope(name: str, record: bytes, writer: str) -> dict[str, Any]:
    envelope = decode_envelope(record)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(envelope):
        value: Any = getattr(envelope, field.name)
        if field.name == "metadata":
            value = [[entry.key, entry.value.hex()] for entry in value]
        elif field.name == "images":
            value = [[place.length, place.file, place.slot, place.number] for place in value]
        fields[field.name] = value.hex() if isinstance(value, bytes) else value
    return {"name": name, "writer": writer, "record": record.hex(), "fields": fields}


def _flatc_like(envelope: Envelope, *, newer: bool = False) -> bytes:
    """Return the envelope as code of flatc may lay it out, which is legal and not as ours."""
    builder = flatbuffers.Builder(64)
    if newer:
        builder.ForceDefaults(True)
    payload = builder.CreateByteVector(envelope.payload + b"\0" * (-len(envelope.payload) % 8 if newer else 0))
    details, path = builder.CreateString(envelope.details), builder.CreateString(envelope.path)
    entries: list[int] = []
    for entry in envelope.metadata:
        value, key = builder.CreateByteVector(entry.value), builder.CreateString(entry.key)
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(1, value, 0)
        builder.PrependUOffsetTRelativeSlot(0, key, 0)
        entries.append(builder.EndObject())
    builder.StartVector(4, len(entries), 4)
    for entry in reversed(entries):
        builder.PrependUOffsetTRelative(entry)
    metadata = builder.EndVector()
    builder.StartVector(24, len(envelope.images), 8)
    for image in reversed(envelope.images):
        builder.Prep(8, 24)
        builder.Pad(4)
        for number in (image.number, image.slot, image.file):
            builder.PrependUint32(number)
        builder.PrependUint64(image.length)
    images = builder.EndVector()
    newest = builder.CreateString("a field of the future") if newer else 0
    builder.StartObject(19 if newer else 17)
    if newer:
        builder.PrependUOffsetTRelativeSlot(18, newest, 0)
        builder.PrependFloat64Slot(17, 0.5, 0.0)
    builder.PrependUint32Slot(16, envelope.code, 0)
    builder.PrependUOffsetTRelativeSlot(15, images, 0)
    for slot, value in ((14, envelope.dropped), (11, envelope.window), (10, envelope.items), (9, envelope.streams)):
        builder.PrependUint32Slot(slot, value, 0)
    for slot, value in ((13, envelope.total), (12, envelope.offset), (3, envelope.deadline_ns)):
        builder.PrependUint64Slot(slot, value, 0)
    for slot, place in ((8, path), (7, payload), (6, metadata), (5, details)):
        builder.PrependUOffsetTRelativeSlot(slot, place, 0)
    for slot, value in ((4, envelope.status), (2, int(envelope.kind)), (0, envelope.method)):
        builder.PrependUint32Slot(slot, value, 0)
    builder.PrependUint64Slot(1, envelope.correlation_id, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _hostile_envelopes(sound: bytes) -> Iterator[dict[str, Any]]:
    """Yield bytes that are no envelope; a reader refuses them and touches nothing outside of them."""
    compact = encode_compact(Kind.REQUEST, 7, b"payload", 40)
    root = struct.unpack_from("<I", sound)[0]
    vtable = root - struct.unpack_from("<i", sound, root)[0]

    def changed(record: bytes, at: int, form: str, value: int) -> bytes:
        return record[:at] + struct.pack(form, value) + record[at + struct.calcsize(form) :]

    def field_at(slot: int) -> int:
        return root + struct.unpack_from("<H", sound, vtable + 4 + 2 * slot)[0]

    def target(at: int) -> int:
        return at + struct.unpack_from("<I", sound, at)[0]

    details, metadata = target(field_at(5)), target(field_at(6))
    entry = target(metadata + 4)
    cases = {
        "no bytes": b"",
        "four bytes": sound[:4],
        "a root beyond the end": changed(sound, 0, "<I", len(sound)),
        "a root of 0": changed(sound, 0, "<I", 0),
        "a root of nearly 2**32": changed(sound, 0, "<I", (1 << 32) - 4),
        "a root that is not aligned": changed(sound, 0, "<I", root + 2),
        "a vtable before the start": changed(sound, root, "<i", root + 4),
        "a vtable beyond the end": changed(sound, root, "<i", -len(sound)),
        "a vtable of 2 bytes": changed(sound, vtable, "<H", 2),
        "a vtable of an odd length": changed(sound, vtable, "<H", 37),
        "a vtable longer than what is left": changed(sound, vtable, "<H", 0xFFFE),
        "a table longer than what is left": changed(sound, vtable + 2, "<H", 0xFFFF),
        "a field beyond its table": changed(sound, vtable + 4, "<H", 0xFFFC),
        "a payload beyond the end": changed(sound, field_at(7), "<I", len(sound)),
        "a payload longer than what is left": changed(compact, 64, "<I", 8),
        "a payload of nearly 2**32 bytes": changed(compact, 64, "<I", (1 << 32) - 1),
        "details without a zero at their end": changed(sound, details, "<I", 2),
        "details longer than what is left": changed(sound, details, "<I", len(sound)),
        "more metadata than fit": changed(sound, metadata, "<I", 1 << 30),
        "metadata that point outside": changed(sound, metadata + 4, "<I", len(sound)),
        "metadata with a vtable outside": changed(sound, entry, "<i", -(1 << 30)),
        "more images than fit": changed(sound, target(field_at(15)), "<I", 0x10000000),
        "an unknown kind": changed(compact, 52, "<I", 10),
        "cut in the payload": compact[:-1],
        "cut in the table": sound[: root + 8],
    }
    for name, record in cases.items():
        try:
            decode_envelope(record)
        except RemoteProtocolError:
            yield {"name": name, "hostile": record.hex()}
        else:
            raise AssertionError(f"{name}: not refused")
