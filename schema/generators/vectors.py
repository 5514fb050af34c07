"""The conformance vectors: what the Python implementation writes, reads and refuses, as JSON.

`schema/kits/vectors/README.md` says how each file is read. Bytes are hexadecimal.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Any
from unittest.mock import patch

import flatbuffers
import numpy as np

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
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.errors import RemoteProtocolError, SpecError, TransportError
from lucky_transport.messages import (
    GetJointStateRequest,
    GetJointStateResponse,
    ImageFrame,
    JointState,
    SetSeedsRequest,
    SetSeedsResponse,
    StreamCameraRequest,
)
from lucky_transport.native import EngineChannel, RingReader, RingWriter
from lucky_transport.rpc.error_envelope import error_envelope
from lucky_transport.rpc.flow_control import LATEST
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.requests import RequestEncoder
from lucky_transport.shm.ring import HEAD_BYTES, SKIP
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result, channel_offsets
from lucky_transport.shm.segment.layout import DEFAULT_RING_BYTES, EXTENSION_BYTES, EXTENSION_OFFSET, FIELDS, plan
from lucky_transport.spec import batch_spec
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

__all__ = ["render"]

#: Bytes of a header that are not always 0.
_HEADER_BYTES = EXTENSION_OFFSET + EXTENSION_BYTES
_PID, _STARTED = 4242, 987_654_321


@patch.object(batch_spec, "version", str)  # the kits say none
def render() -> dict[str, str]:
    """Return the text of each file of `schema/kits/vectors`, by its name."""
    files = {
        "segments.json": list(_segments()),
        "rings.json": list(_rings()),
        "envelopes.json": list(_envelopes()),
        "messages.json": list(_messages()),
        "exchanges.json": list(_exchanges()),
        "errors.json": list(_errors()),
        "pendulum.json": _pendulum(),
    }
    return {name: json.dumps(content, indent=1) + "\n" for name, content in files.items()}


# -- segments -----------------------------------------------------------------------------------------------------


def _specs() -> Iterator[tuple[str, BatchSpec, int]]:
    yield "one pendulum", PendulumEngine(1).spec, DEFAULT_RING_BYTES
    yield "4,096 pendulums in small rings", PendulumEngine(4096).spec, 4096
    flat = ArraySpec("uint8", (7,), 0, 255)
    yield "odd sizes", BatchSpec("odd", 3, flat, ArraySpec("int64", (), 0, 3, 4)), 8192
    wide = ArraySpec("float64", (5, 2))
    terms = ("alive", "upright", "far")
    yield (
        "no hold, many terms, names beyond ASCII",
        BatchSpec("völlig", 2, wide, ArraySpec("float32", (2,), -1.0, 1.0), terms, ("fell", "late"), hold=False),
        4096,
    )


def _segments() -> Iterator[dict[str, Any]]:
    for name, spec, ring_bytes in _specs():
        layout = plan(spec, ring_bytes=ring_bytes)
        mapping = mmap(-1, layout.total_size)
        header.write(mapping, layout, spec, pid=_PID, started=_STARTED, namespace=0, lock=0, ring_bytes=ring_bytes)
        yield {
            "name": name,
            "spec": spec.to_json(),
            "num_envs": spec.num_envs,
            "observation": {"dtype": header.get(mapping, "obs_dtype"), "size": spec.observation.size},
            "action": {"dtype": header.get(mapping, "act_dtype"), "size": spec.action.size},
            "num_terms": spec.num_terms,
            "hold": spec.hold,
            "ring_bytes": ring_bytes,
            "pid": _PID,
            "started": _STARTED,
            "total_size": layout.total_size,
            "regions": {region.name: [region.offset, region.size] for region in layout.regions.values()},
            "fields": {field: _plain(header.get(mapping, field)) for field in FIELDS},
            "header": mapping[:_HEADER_BYTES].hex(),
        }


def _plain(value: int | bytes) -> int | str:
    return value.hex() if isinstance(value, bytes) else value


# -- rings --------------------------------------------------------------------------------------------------------


def _rings() -> Iterator[dict[str, Any]]:
    numbers = [bytes([n]) * (5 * n + 1) for n in range(1, 9)]
    yield _ring("a record", 256, 0, [("write", b"hello"), ("read", b"")])
    yield _ring("in order, read when full", 256, 0, [("write", one) for one in numbers] + [("read", b"")] * 9)
    yield _ring("the largest record, and one byte more", 256, 0, [("write", b"x" * 60), ("write", b"x" * 61)])
    yield _ring("an empty record", 256, 0, [("write", b"")])
    wraps = [("write", b"a" * 36), ("write", b"b" * 52), ("read", b""), ("read", b""), ("read", b"")]
    yield _ring("a skip before the end", 128, 72, [("write", b"c" * 20), ("write", b"d" * 28), *[("read", b"")] * 3])
    yield _ring("exactly to the end", 128, 64, [("write", b"e" * 28), ("write", b"f" * 28), *[("read", b"")] * 2])
    yield _ring("positions beyond 2**32", 256, (1 << 32) - 40, wraps)
    yield from _hostile_rings()


def _ring(name: str, size: int, position: int, steps: Iterable[tuple[str, bytes]]) -> dict[str, Any]:
    """Return what each step does to a ring that begins at that position. A read of b"" takes what there is."""
    memory = bytearray(HEAD_BYTES + size)
    _put_positions(memory, position, position)
    writer, reader = RingWriter(memory, 0, size), RingReader(memory, 0, size)
    done: list[dict[str, Any]] = []
    for step, record in steps:
        if step == "write":
            done.append({"write": record.hex(), "result": _try_write(writer, record)})
        else:
            found = reader.try_pop()
            done.append({"read": None if found is None else found.hex()})
    return {"name": name, "size": size, "position": position, "steps": done, "memory": memory.hex()}


def _try_write(writer: RingWriter, record: bytes) -> str:
    """Return "written", "full" (try again once the reader has read) or "refused" (it never fits)."""
    try:
        return "written" if writer.try_push(record) else "full"
    except SpecError:
        return "refused"


def _put_positions(memory: bytearray, write: int, read: int) -> None:
    struct.pack_into("<I", memory, 0, write)
    struct.pack_into("<I", memory, 128, read)


def _hostile_rings() -> Iterator[dict[str, Any]]:
    """Yield rings that no writer leaves: a reader takes what lies before the lie, and refuses the rest."""
    size = 128
    cases: dict[str, tuple[int, int, dict[int, int]]] = {
        "the writer is further ahead than the ring is long": (size + 8, 0, {0: 4}),
        "the writer is behind": (0, 8, {}),
        "a position that is no multiple of 8": (12, 0, {0: 4}),
        "a record of no bytes": (16, 0, {0: 0}),
        "a record longer than a quarter": (64, 0, {0: 29}),
        "a record beyond what is published": (16, 0, {0: 16}),
        "a record across the end": (size + 8, size - 16, {size - 16: 20}),
        "a length of nearly 2**32": (64, 0, {0: SKIP - 1}),
        "a skip of a quarter": (size + 16, size - 32, {size - 32: SKIP, 0: 4}),
        "a skip beyond what is published": (size - 8, size - 24, {size - 24: SKIP}),
        "a skip in the place of a skip": (size + 16, size - 8, {size - 8: SKIP, 0: SKIP}),
        "a sound record, then a lie": (32, 0, {0: 4, 4: 0x64636261, 8: 200}),
    }
    for name, (write, read, words) in cases.items():
        memory = bytearray(HEAD_BYTES + size)
        _put_positions(memory, write, read)
        for index, word in words.items():
            struct.pack_into("<I", memory, HEAD_BYTES + index, word)
        before = memory.hex()
        taken: list[str] = []
        try:
            reader = RingReader(memory, 0, size)
            while (record := reader.try_pop()) is not None:
                taken.append(record.hex())
        except RemoteProtocolError:
            yield {"name": name, "size": size, "hostile": before, "reads": taken}
        else:
            raise AssertionError(f"{name}: not refused")


# -- envelopes ----------------------------------------------------------------------------------------------------


def _envelopes() -> Iterator[dict[str, Any]]:
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
        yield _envelope(name, record, "python")
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


# -- typed messages -----------------------------------------------------------------------------------------------


def _messages() -> Iterator[dict[str, Any]]:
    for message in (
        GetJointStateRequest(),
        GetJointStateRequest("agent_3"),
        GetJointStateResponse(True, "", JointState([0.5], [-1.25], 1, 1)),
        GetJointStateResponse(False, "no robot 'agent_9'"),
        SetSeedsRequest([1, 2, (1 << 64) - 1], b"\1\0\1"),
        SetSeedsResponse(True),
        SetSeedsResponse(False, "3 seeds for 2 envs: expected one per env"),
        StreamCameraRequest(name="front", target_fps=10, width=64, height=48),
        ImageFrame(b"\1\2\3\4", 1, 1, 4, "raw", 1_700_000_000_000, 7, 0.0),
        ImageFrame(b"", 64, 64, 4, "raw", 1_700_000_000_000, 8, 0.0),
    ):
        data = encode(message)
        assert decode(type(message), data) == message
        yield {"message": type(message).__name__, "fields": _values(message), "bytes": data.hex()}


def _values(message: Any) -> Any:
    if dataclasses.is_dataclass(message):
        return {field.name: _values(getattr(message, field.name)) for field in dataclasses.fields(message)}
    return message.hex() if isinstance(message, bytes) else message


# -- exchanges ----------------------------------------------------------------------------------------------------

_NUM_ENVS = 2
_FOUND = {Result.HAS_ACTIONS: "actions", Result.HAS_CONTROL: "control", Result.HAS_COMMANDS: "commands"}


class _Script:
    """Records what is done to a segment of two pendulums, and what the engine's channel finds and leaves there."""

    def __init__(self, name: str) -> None:
        spec = PendulumEngine(_NUM_ENVS).spec
        layout = plan(spec, ring_bytes=4096)
        self._mapping = mmap(-1, layout.total_size)
        header.write(self._mapping, layout, spec, pid=_PID, started=_STARTED, namespace=0, lock=0, ring_bytes=4096)
        self._channel = EngineChannel(self._mapping, channel_offsets(layout, _NUM_ENVS), strategy=2)
        self._channel.set_peer(3)
        self._control = layout["control"].offset
        self._commands = layout["ring_c2s"].offset
        self.steps: list[dict[str, Any]] = []
        self.case = {"name": name, "num_envs": _NUM_ENVS, "ring_bytes": 4096, "steps": self.steps}

    def store(self, word: str, value: int) -> None:
        self.steps.append({"do": "store", "word": word, "value": value})
        if word == "commands":
            struct.pack_into("<I", self._mapping, self._commands, value)
        else:
            header.put(self._mapping, word, value)

    def control(self, *values: int) -> None:
        self.steps.append({"do": "control", "bytes": bytes(values).hex()})
        self._mapping[self._control : self._control + _NUM_ENVS] = bytes(values)

    def next(self) -> None:
        found = self._channel.next(0)
        names = [name for bit, name in _FOUND.items() if found > 0 and found & bit]
        self.steps.append({"do": "next", "found": ["out of order"] if found == Result.OUT_OF_ORDER else names})

    def publish(self, status: int = 0) -> None:
        self._channel.publish(status)
        self.steps.append({"do": "publish", "status": status})
        self.expect("frame_seq", "frame_status", "park_frame")

    def resync(self) -> None:
        self._channel.resync()
        self.steps.append({"do": "resync"})
        self.expect("action_seq")

    def commands_read(self, position: int) -> None:
        self._channel.commands_read(position)
        self.steps.append({"do": "commands_read", "value": position})

    def expect(self, *words: str) -> None:
        for word in words:
            self.steps.append({"do": "expect", "word": word, "value": header.get(self._mapping, word)})


def _exchanges() -> Iterator[dict[str, Any]]:
    script = _Script("idle, then two plain exchanges")
    script.next()
    for seq in (1, 2):
        script.store("action_seq", seq)
        script.next()
        script.publish()
    script.next()
    yield script.case

    script = _Script("reset, hold, and neither again")
    for seq, control in enumerate(((RESET, HOLD), (HOLD, 0), (RESET | HOLD, 4), (0, 0)), start=1):
        script.control(*control)
        script.store("action_seq", seq)
        script.next()
        script.publish()
    yield script.case

    script = _Script("a client that is parked is woken, one that is not is left alone")
    script.store("action_seq", 1)
    script.next()
    script.store("park_frame", 1)
    script.publish()
    script.store("action_seq", 2)
    script.next()
    script.publish()
    yield script.case

    script = _Script("a refused exchange, then a frame")
    script.store("action_seq", 1)
    script.next()
    script.publish(errors.EngineFailed.wire_code)
    script.store("action_seq", 2)
    script.next()
    script.publish()
    yield script.case

    script = _Script("commands alone, and before actions")
    script.store("commands", 64)
    script.next()
    script.commands_read(64)
    script.next()
    script.store("commands", 96)
    script.store("action_seq", 1)
    script.next()
    script.commands_read(96)
    script.next()
    script.publish()
    script.next()
    yield script.case

    for name, seq in {
        "two exchanges at once": 2,
        "a counter of the largest number": (1 << 64) - 1,
    }.items():
        script = _Script(name)
        script.store("action_seq", seq)
        script.next()
        script.resync()
        script.next()
        script.store("action_seq", 1)
        script.next()
        script.publish()
        yield script.case


def _errors() -> Iterator[dict[str, Any]]:
    for cls in (TransportError, *TransportError.__subclasses__()):
        yield {"error": cls.__name__, "wire_code": cls.wire_code}


# -- the example engine -------------------------------------------------------------------------------------------


def _pendulum() -> dict[str, Any]:
    """Return what two pendulums do: actions and control bytes, and each frame's bytes."""
    engine = PendulumEngine(2, max_ticks=5)
    buffers = Buffers.allocate(engine.spec)
    engine.bind(buffers)
    seeds = [11, (1 << 64) - 1]
    engine.services["/lucky_transport.v1.BatchService/SetSeeds"](SetSeedsRequest(seeds))
    controls = [(1, 1), None, None, (2, 0), (0, 1), None, None, (0, 2), (3, 0), None, None, None]
    frames: list[dict[str, Any]] = []
    for number, control in enumerate(controls):
        buffers.actions[:, 0] = (0.25 * number - 1.0, 2.5 - number)
        engine.step(None if control is None else np.array(control, np.uint8))
        reset = np.zeros(2, bool) if control is None else (np.array(control) & RESET) != 0
        for array in (buffers.rewards, buffers.truncated):  # as the host does
            array[reset] = 0
        buffers.signals[:, reset] = 0
        frames.append(
            {
                "actions": buffers.actions.tobytes().hex(),
                "control": bytes(control or (0, 0)).hex(),
                "observations": buffers.observations.tobytes().hex(),
                "rewards": buffers.rewards.tobytes().hex(),
                "truncated": buffers.truncated.tobytes().hex(),
                "signals": buffers.signals.tobytes().hex(),
            }
        )
    return {"num_envs": 2, "max_ticks": 5, "seeds": seeds, "frames": frames}
