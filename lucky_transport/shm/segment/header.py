"""Writes a segment's header, and reads one that another process wrote.

A peer's bytes are untrusted: each field is read once into a local, checked against the size that is mapped, and only
the local is used afterwards. Nothing is repaired: a field that does not fit raises SegmentError with its name, its
value and what was expected.
"""

from __future__ import annotations

import hashlib
import struct
from itertools import pairwise
from mmap import mmap
from typing import TYPE_CHECKING, Any

from lucky_transport import native
from lucky_transport.errors import SegmentError, SpecError
from lucky_transport.shm.arena import LARGEST_ARENA, PAGE
from lucky_transport.shm.files.liveness import LockHolder, Peer, Process
from lucky_transport.shm.files.lockfile import ENGINE
from lucky_transport.shm.segment.layout import (
    ERROR_BYTES,
    EXTENSION_BYTES,
    FIELDS,
    HEADER_BYTES,
    LEAST_EXTENSION_BYTES,
    MAGIC,
    MOST_SLOTS,
    REGION_ALIGNMENT,
    RING_HEAD_BYTES,
    VERSION,
    EngineState,
    Feature,
    Region,
    SegmentLayout,
    dtype_code,
    plan,
)

if TYPE_CHECKING:
    from lucky_transport.spec.batch_spec import BatchSpec


ENGINE_FEATURES = Feature.WAKE | Feature.HOLD | Feature.STATUS | Feature.SIGNALS | Feature.TRUNCATED | Feature.SPEC

#: A segment larger than this is a lie, not a training batch.
_LARGEST = 1 << 40
#: A lock's byte comes from memory that a peer writes; offsets have 63 bits.
_LARGEST_BYTE = (1 << 63) - 1


def get(mapping: mmap, name: str) -> Any:
    """Return one header field (int; bytes for raw fields); a word by one load with acquire order."""
    place = FIELDS[name]
    if place.code == "I":
        return native.load32(mapping, place.offset)
    if place.code == "Q":
        return native.load64(mapping, place.offset)
    return struct.unpack_from("<" + place.code, mapping, place.offset)[0]


def put(mapping: mmap, name: str, value: Any) -> None:
    """Write one header field that no waiter is parked on; a word by one store with release order."""
    place = FIELDS[name]
    if place.code == "I":
        native.store32(mapping, place.offset, value)
        return
    if place.code == "Q":
        native.store64(mapping, place.offset, value)
        return
    struct.pack_into("<" + place.code, mapping, place.offset, value)


def write(
    mapping: mmap,
    layout: SegmentLayout,
    spec: BatchSpec,
    *,
    pid: int,
    started: int,
    namespace: int,
    lock: int,
    ring_bytes: int,
) -> None:
    """Fill the header of a fresh segment, all but the version word: it is not ready yet.

    The engine is process `pid` of pid `namespace`, `started` then, and holds byte `lock` of the lock file.
    """
    text = spec.to_json().encode()
    features = ENGINE_FEATURES if spec.hold else ENGINE_FEATURES & ~Feature.HOLD
    if layout.observation_slots > 1:
        features |= Feature.SLOTS
    if layout.arena_bytes:
        features |= Feature.ARENAS
    if layout.has_env_words:
        features |= Feature.ENVS
    values: dict[str, Any] = {
        "magic": MAGIC,
        "server_pid": pid,
        "server_start": started,
        "server_lock": lock,
        "server_pid_namespace": namespace,
        "num_envs": spec.num_envs,
        "obs_size": spec.observation.size,
        "act_size": spec.action.size,
        "obs_offset": layout["observations"].offset,
        "act_offset": layout["actions"].offset,
        "rewards_offset": layout["rewards"].offset,
        "dones_offset": layout["terminated"].offset,
        "resets_offset": layout["control"].offset,
        "cmd_s2c_offset": layout["ring_s2c"].offset,
        "cmd_c2s_offset": layout["ring_c2s"].offset,
        "cmd_ring_size": ring_bytes,
        "image_offset": layout["images"].offset if layout["images"].size else 0,
        "ext_size": EXTENSION_BYTES,
        "engine_features": int(features),
        "engine_state": EngineState.READY,
        "total_size": layout.total_size,
        "truncated_offset": layout["truncated"].offset,
        "signals_offset": layout["signals"].offset,
        "num_terms": spec.num_terms,
        "obs_dtype": dtype_code(spec.observation.dtype),
        "act_dtype": dtype_code(spec.action.dtype),
        "obs_slots": layout.observation_slots,
        "spec_offset": layout["spec"].offset,
        "spec_size": len(text),
        "error_size": ERROR_BYTES,
        "error_offset": layout["error"].offset,
        "schema_hash": _digest(text),
        "arena_offset": layout.arena_offset,
        "arena_size": layout.arena_bytes,
        "envs_offset": layout["envs"].offset if layout.has_env_words else 0,
    }
    for name, value in values.items():
        put(mapping, name, value)
    mapping[layout["spec"].offset : layout["spec"].offset + len(text)] = text


def _digest(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def read(mapping: mmap, where: str) -> tuple[BatchSpec, SegmentLayout]:
    """Return what a ready segment's header says, checked against the bytes really mapped.

    Raises SegmentError for a foreign magic, another version, and any size, offset or spec that does not fit.
    """
    size = len(mapping)
    if size < HEADER_BYTES:
        raise SegmentError(f"{where}: {size} bytes, a segment has at least {HEADER_BYTES}", backend="shm")
    header = {name: get(mapping, name) for name in FIELDS}
    _expect(where, "magic", bool(header["magic"] == MAGIC), f"{header['magic']:#x}, expected {MAGIC:#x} ('LRBC')")
    _check_version(where, header["version"])
    ext = header["ext_size"]
    _expect(
        where, "ext_size", ext >= LEAST_EXTENSION_BYTES, f"{ext}, need {LEAST_EXTENSION_BYTES}: the engine is too old"
    )
    total = header["total_size"]
    _expect(where, "total_size", HEADER_BYTES <= total <= min(size, _LARGEST), f"{total}, mapped are {size}")
    spec = _read_spec(mapping, where, header, total)
    expected = {
        "num_envs": spec.num_envs,
        "obs_size": spec.observation.size,
        "act_size": spec.action.size,
        "num_terms": spec.num_terms,
    }
    for name, value in expected.items():
        _expect(where, name, header[name] == value, f"{header[name]}, the spec says {value}")
    for name, dtype in (("obs_dtype", spec.observation.dtype), ("act_dtype", spec.action.dtype)):
        _expect(where, name, header[name] == dtype_code(dtype), f"{header[name]}, the spec says {dtype}")
    return spec, _read_layout(where, header, spec, size)


def _check_version(where: str, version: int) -> None:
    if version != VERSION:
        older = "here: the engine's is newer" if version > VERSION else "where the engine runs, and start it again"
        raise SegmentError(
            f"{where}: version is {version}, this side speaks {VERSION}",
            backend="shm",
            hint=f"upgrade lucky-transport {older}",
        )


def _expect(where: str, field: str, fits: bool, text: str) -> None:
    if not fits:
        raise SegmentError(
            f"{where}: {field} is {text}", backend="shm", hint="start the engine again; `lucky-transport ls` lists them"
        )


def _read_spec(mapping: mmap, where: str, header: dict[str, Any], total: int) -> BatchSpec:
    from lucky_transport.spec.batch_spec import BatchSpec  # brings NumPy, which listing segments does not need

    offset, size = header["spec_offset"], header["spec_size"]
    _expect(where, "spec_offset", offset >= HEADER_BYTES and offset + size <= total, f"{offset} (+{size}) of {total}")
    text = mapping[offset : offset + size]
    _expect(where, "schema_hash", header["schema_hash"] == _digest(text), "not that of the spec's bytes")
    try:
        return BatchSpec.from_json(text)
    except SpecError as error:
        raise SegmentError(f"{where}: {error}", backend="shm") from error


def _read_layout(where: str, header: dict[str, Any], spec: BatchSpec, size: int) -> SegmentLayout:
    """Return the regions at the offsets the peer states, with the sizes that the spec implies.

    size: bytes that are mapped.
    """
    ring, total = header["cmd_ring_size"], header["total_size"]
    slots = header["obs_slots"] if header["engine_features"] & Feature.SLOTS else 1
    _expect(where, "obs_slots", 1 <= slots <= MOST_SLOTS, f"{slots}, expected from 1 to {MOST_SLOTS}")
    alone = bool(header["engine_features"] & Feature.ENVS)
    try:
        planned = plan(spec, ring_bytes=ring, observation_slots=slots, envs_alone=alone)
    except SpecError as error:
        raise SegmentError(f"{where}: cmd_ring_size: {error}", backend="shm") from error
    stated = {
        "observations": "obs_offset",
        "actions": "act_offset",
        "rewards": "rewards_offset",
        "terminated": "dones_offset",
        "truncated": "truncated_offset",
        "control": "resets_offset",
        "signals": "signals_offset",
        "ring_s2c": "cmd_s2c_offset",
        "ring_c2s": "cmd_c2s_offset",
        "error": "error_offset",
    } | ({"envs": "envs_offset"} if alone else {})
    regions: dict[str, Region] = {}
    for name, field in stated.items():
        offset, length = header[field], planned[name].size
        fits = HEADER_BYTES <= offset <= total - length and offset % REGION_ALIGNMENT == 0
        _expect(where, field, fits, f"{offset}: {length} bytes there do not fit into {total}, or are not aligned")
        regions[name] = Region(name, offset, length)
    ordered = sorted(regions.values(), key=lambda region: region.offset)
    for before, after in pairwise(ordered):
        overlap = before.offset + before.size > after.offset
        _expect(where, stated[after.name], not overlap, f"{after.offset}: overlaps {before.name}")
    _expect(where, "error_size", header["error_size"] == ERROR_BYTES, f"{header['error_size']}, not {ERROR_BYTES}")
    assert regions["ring_s2c"].size == RING_HEAD_BYTES + ring
    arena_offset = arena_bytes = 0
    if header["engine_features"] & Feature.ARENAS:
        arena_offset, arena_bytes = header["arena_offset"], header["arena_size"]
    fits = arena_bytes % PAGE == 0 and arena_bytes <= LARGEST_ARENA
    _expect(where, "arena_size", fits, f"{arena_bytes}, expected a multiple of {PAGE} up to {LARGEST_ARENA}")
    fits = not arena_bytes or (arena_offset % PAGE == 0 and total <= arena_offset <= size - 2 * arena_bytes)
    _expect(where, "arena_offset", fits, f"{arena_offset}: two arenas of {arena_bytes} do not fit, mapped are {size}")
    return SegmentLayout(regions, total, slots, arena_offset, arena_bytes)


def engine_of(mapping: mmap, lock_path: str) -> LockHolder:
    """Return the engine of a segment; the caller closes it. Raises SegmentError for a lock file that is not ours."""
    byte = get(mapping, "server_lock") & _LARGEST_BYTE
    pid, namespace = get(mapping, "server_pid"), get(mapping, "server_pid_namespace")
    return LockHolder(lock_path, byte or ENGINE, pid, namespace)


def client_of(mapping: mmap, lock_path: str) -> Process:
    """Return the client that is attached to a segment; the caller closes it.

    One that knows no locks is known by its pid and start time, which works within one pid namespace only.
    """
    byte = get(mapping, "client_lock") & _LARGEST_BYTE
    pid, namespace = get(mapping, "client_pid"), get(mapping, "client_pid_namespace")
    if byte:
        return LockHolder(lock_path, byte, pid, namespace)
    return Peer(pid, get(mapping, "client_start"))
