"""What a message costs to write and to read: our FlatBuffers codec and protobuf, the same content in one process.

    python -m tests.endurance.codec

A program's whole work is timed: from plain values to bytes, and from bytes to every field's value. Protobuf's message
class is made from the same fields, and both must give back the same values. The two take turns, batch by batch. Prints
nanoseconds a message, and the promise: at most 1.5 times as long as protobuf. Nothing is asserted.
"""

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages import AgentFrame
from lucky_transport.messages.fields import fields_of

_BATCH, _GOAL = 100, 1.5  # messages per sample: one takes hardly longer than reading the clock
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


def works() -> dict[str, Callable[[], Any]]:
    """Return what is timed. Raises ValueError when what was written reads as anything else."""
    fields = {field.name: field.shape == "list" for field in fields_of(AgentFrame)}
    cls, ours = _protobuf_class(), encode(AgentFrame(**_VALUES))
    theirs = cls(**_VALUES).SerializeToString()

    def read_ours() -> dict[str, Any]:
        message = decode(AgentFrame, ours)
        return {name: getattr(message, name) for name in fields}

    def read_theirs() -> dict[str, Any]:
        message = cls.FromString(theirs)
        return {name: list(getattr(message, name)) if many else getattr(message, name) for name, many in fields.items()}

    for read in (read_ours, read_theirs):
        if read() != _VALUES:
            raise ValueError(f"a message reads {read()} where {_VALUES} was written")
    return {
        "write, FlatBuffers": lambda: encode(AgentFrame(**_VALUES)),
        "write, protobuf": lambda: cls(**_VALUES).SerializeToString(),
        "read, FlatBuffers": read_ours,
        "read, protobuf": read_theirs,
    }


def _protobuf_class() -> Any:
    """Return a protobuf message class with AgentFrame's fields."""
    file: Any = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name=AgentFrame.__name__)
    for number, field in enumerate(fields_of(AgentFrame), 1):
        label = _REPEATED if field.shape == "list" else _OPTIONAL
        message.field.add(name=field.name, number=number, type=_KINDS[field.kind], label=label)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{AgentFrame.__name__}"))


def measure(seconds: float) -> dict[str, float]:
    """Return nanoseconds a message of each work, the median of batches that take turns."""
    given = works()
    samples: dict[str, list[float]] = {name: [] for name in given}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples["read, protobuf"]) < 3:
        for name, work in given.items():
            start = time.perf_counter_ns()
            for _ in range(_BATCH):
                work()
            samples[name].append((time.perf_counter_ns() - start) / _BATCH)
    return {name: float(np.median(one)) for name, one in samples.items()}


@click.command()
@click.option("--seconds", default=3.0, show_default=True)
def main(seconds: float) -> None:
    """Measure, and print what was found."""
    found = measure(seconds)
    for name, ns in found.items():
        click.echo(f"  {ns:10.0f} ns  {name}")
    for way in ("write", "read"):
        times = found[f"{way}, FlatBuffers"] / found[f"{way}, protobuf"]
        click.echo(f"  {times:10.2f}     times as long as protobuf to {way}: {'PASS' if times <= _GOAL else 'FAIL'}")


if __name__ == "__main__":
    main()
