"""What shared memory holds, as vectors: headers of segments, rings and what is done to them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Any

from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.native import RingReader, RingWriter
from lucky_transport.shm.ring import DEFAULT_RING_BYTES, HEAD_BYTES, SKIP
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import EXTENSION_BYTES, EXTENSION_OFFSET, FIELDS, plan
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

__all__ = ["rings", "segments"]

#: Bytes of a header that are not always 0.
_HEADER_BYTES = EXTENSION_OFFSET + EXTENSION_BYTES
_PID, _STARTED = 4242, 987_654_321


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


def segments() -> Iterator[dict[str, Any]]:
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


def rings() -> Iterator[dict[str, Any]]:
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
