"""What a message costs to write and to read: our FlatBuffers codec and protobuf, the same content in one process.

A program's whole work is timed: from plain values to bytes, and from bytes to every field's value. Protobuf's message
class is made from the same fields, and both must give back the same values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import AgentFrame
from lucky_transport.messages.fields import fields_of
from lucky_transport_migration.bench.measuring import Effort, Samples

__all__ = ["DIRECTIONS", "measure_codec", "protobuf_class"]

DIRECTIONS = ("write", "read")
_BATCH = 100  # messages per sample: one takes hardly longer than reading the clock
_KINDS = {"f32": 2, "f64": 1, "i32": 5, "u32": 13, "u64": 4, "bool": 8, "str": 9, "bytes": 12}  # descriptor.proto
_REPEATED, _OPTIONAL = 3, 1

#: A typical message: what an agent of twelve joints observes.
_VALUES: dict[str, Any] = {
    "timestamp_ms": 1_700_000_000_123,
    "frame_number": 4711,
    "observations": [float(np.float32(0.1 * i)) for i in range(12)],
    "actions": [float(np.float32(-0.1 * i)) for i in range(12)],
    "agent_name": "agent_0",
    "target_fps": 50,
}


def measure_codec(effort: Effort) -> dict[tuple[str, str], Samples]:
    """Return nanoseconds per message, by (path, direction); the paths are "shm" and "grpc" for what they carry.

    Without protobuf only ours is measured. Raises RemoteProtocolError when what was written reads as anything else.
    """
    work = {("shm", direction): call for direction, call in _ours().items()}
    theirs = _theirs()
    if theirs is not None:
        work |= {("grpc", direction): call for direction, call in theirs.items()}
    return _interleaved(work, effort)


def _ours() -> dict[str, Callable[[], Any]]:
    names = [field.name for field in fields_of(AgentFrame)]
    content = encode(AgentFrame(**_VALUES))

    def write() -> bytes:
        return encode(AgentFrame(**_VALUES))

    def read() -> list[Any]:
        message = decode(AgentFrame, content)
        return [getattr(message, name) for name in names]

    _check(dict(zip(names, read(), strict=True)))
    return {"write": write, "read": read}


def _theirs() -> dict[str, Callable[[], Any]] | None:
    cls = protobuf_class()
    if cls is None:
        return None
    fields = [(field.name, field.shape == "list") for field in fields_of(AgentFrame)]
    content = cls(**_VALUES).SerializeToString()

    def write() -> bytes:
        return cls(**_VALUES).SerializeToString()

    def read() -> list[Any]:
        message = cls.FromString(content)
        return [list(getattr(message, name)) if many else getattr(message, name) for name, many in fields]

    _check(dict(zip((name for name, _ in fields), read(), strict=True)))
    return {"write": write, "read": read}


def _check(found: dict[str, Any]) -> None:
    if found != _VALUES:
        raise RemoteProtocolError(f"a message reads {found} where {_VALUES} was written")


def protobuf_class() -> Any:
    """Return a protobuf message class with AgentFrame's fields, None where protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        return None
    file: Any = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name=AgentFrame.__name__)
    for number, field in enumerate(fields_of(AgentFrame), 1):
        label = _REPEATED if field.shape == "list" else _OPTIONAL
        message.field.add(name=field.name, number=number, type=_KINDS[field.kind], label=label)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{AgentFrame.__name__}"))


def _interleaved(work: dict[tuple[str, str], Callable[[], Any]], effort: Effort) -> dict[tuple[str, str], Samples]:
    """Return nanoseconds per message of each piece of work, the pieces taking turns batch by batch."""
    samples: dict[tuple[str, str], list[int]] = {key: [] for key in work}
    end = time.perf_counter() + effort.budget_s * (1 + len(work))
    while time.perf_counter() < end or len(next(iter(samples.values()))) < max(effort.least, 3):
        for key, call in work.items():
            start = time.perf_counter_ns()
            for _ in range(_BATCH):
                call()
            samples[key].append((time.perf_counter_ns() - start) // _BATCH)
    return {key: np.asarray(values[1:], np.int64) for key, values in samples.items()}
