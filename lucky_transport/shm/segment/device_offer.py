"""The header's GPU fields: the engine's observations and actions in device memory, and what of it a client has open.

    engine                                      client
    generation = odd                            generation, fields, generation: retry while odd or changed
    handle, offset, size, device                client_generation = generation | 1
    generation = the next even number           open the handle; generation: begin again when it changed

`MemoryFields` are those of one array. A generation stands for one handle. The engine frees older memory only when the
client's word names no older generation; the client sets its word before it opens a handle and clears it after it closed
it. An engine that knows only the seed's fields always has generation 0: its handle never changes. The handles of the
two events (`lucky_transport.cuda.driver`) are changed and read in the same way.

An engine with the feature DEVICE_ONLY looks at `client_observations` in every step, and writes no observations into the
segment while the client reads them on the GPU alone. The client sets the word before the actions of that step. So it
sets `gpu_act_seq` to the exchange whose actions it has written on the GPU; for any other one the segment has them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Any, NamedTuple

from lucky_transport.cuda.driver import ExportedMemory
from lucky_transport.errors import SegmentError
from lucky_transport.shm.segment import header
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

_CPU, _CUDA_IPC = 0, 1
#: How long an engine may take to write the fields.
_CHANGE_S = 1.0
_POLL_S = 0.0005
_OPEN = 1
_HERE, _GPU_ALONE = 0, 1  # client_observations
_EVENTS = "gpu_events_generation"
_EVENT_FIELDS = ("gpu_frame_event", "gpu_client_event", "gpu_events_device_id", "gpu_events_device_uuid")


class MemoryFields(NamedTuple):
    """The header's fields of one array in device memory: what their names begin with, some as the seed has them."""

    array: str
    prefix: str
    seed_prefix: str

    @property
    def offer(self) -> tuple[str, ...]:
        """The names of what the engine says under one generation."""
        ours, seeds = self.prefix, self.seed_prefix
        names = (f"{ours}_{name}" for name in ("mode", "handle", "offset", "size"))
        return (self.available, *names, f"{seeds}_device_id", f"{seeds}_device_uuid")

    @property
    def available(self) -> str:
        return f"{self.seed_prefix}_available"

    @property
    def generation(self) -> str:
        return f"{self.prefix}_generation"

    @property
    def opened(self) -> str:
        """Of what the client has open."""
        return f"{self.seed_prefix}_client_generation"

    def spec_of(self, spec: BatchSpec) -> ArraySpec:
        """Return what a batch's spec says of a row of the array."""
        return spec.action if self.array == "actions" else spec.observation


OBSERVATIONS = MemoryFields("observations", "gpu_obs", "gpu")
ACTIONS = MemoryFields("actions", "gpu_act", "gpu_act")


@dataclass(frozen=True, slots=True)
class DeviceOffer:
    """An array of an engine on a GPU, as another process opens it; checked against the spec."""

    handle: bytes
    offset: int
    size_bytes: int
    ordinal: int
    uuid: bytes
    generation: int


class EventOffer(NamedTuple):
    """The handles of an engine's two events, as another process opens them."""

    frame: bytes
    client: bytes
    ordinal: int
    uuid: bytes


def array_bytes(spec: BatchSpec, of: MemoryFields) -> int:
    """Return how many bytes the whole array has."""
    return spec.num_envs * of.spec_of(spec).size * of.spec_of(spec).itemsize_bytes


def write_offer(mapping: mmap, of: MemoryFields, memory: ExportedMemory | None, size_bytes: int = 0) -> None:
    """Say where an array lies on a GPU; None: on none. For the engine; one thread at a time."""
    values: tuple[Any, ...] = (0, _CPU, b"", 0, 0, 0, b"")
    if memory is not None:
        device = memory.device
        values = (1, _CUDA_IPC, memory.handle, memory.offset, size_bytes, device.ordinal, device.uuid)
    _change(mapping, of.generation, dict(zip(of.offer, values, strict=True)))


def write_events(mapping: mmap, events: EventOffer | None) -> None:
    """Offer two events; None: none. For the engine; one thread at a time."""
    _change(mapping, _EVENTS, dict(zip(_EVENT_FIELDS, events or (b"", b"", 0, b""), strict=True)))


def _change(mapping: mmap, generation_name: str, values: Mapping[str, Any]) -> None:
    generation = header.get(mapping, generation_name) & ~1
    header.put(mapping, generation_name, generation + 1 & 0xFFFFFFFF)
    for name, value in values.items():
        header.put(mapping, name, value)
    header.put(mapping, generation_name, generation + 2 & 0xFFFFFFFF or 2)


def read_offer(mapping: mmap, of: MemoryFields, spec: BatchSpec, where: str) -> DeviceOffer | None:
    """Return what the engine offers, None where the array lies on no GPU or is shared in a way not known here.

    Raises SegmentError when it does not fit the spec.
    """
    generation, values = _stable(mapping, of.generation, of.offer, where)
    available, mode, handle, offset, size, ordinal, uuid = values
    if not available or mode != _CUDA_IPC:
        return None
    expected = array_bytes(spec, of)
    if size not in (0, expected):
        raise SegmentError(
            f"{where}: {of.prefix}_size is {size}, the spec says {expected}",
            backend="shm",
            hint=f"the engine publishes exactly its {of.array}: (num_envs, *shape) in the spec's dtype",
        )
    row = of.spec_of(spec)
    if offset % row.itemsize_bytes:
        raise SegmentError(
            f"{where}: {of.prefix}_offset is {offset}, not aligned for {row.dtype}",
            backend="shm",
            hint="start the engine again",
        )
    return DeviceOffer(handle, offset, expected, ordinal, uuid, generation)


def is_offered(mapping: mmap, of: MemoryFields) -> bool:
    """True where the engine says that an array lies on a GPU, whichever way it shares it."""
    return bool(header.get(mapping, of.available))


def read_events(mapping: mmap, where: str) -> tuple[int, EventOffer | None]:
    """Return the generation of the events that the engine offers, and these; None where it offers none."""
    generation, values = _stable(mapping, _EVENTS, _EVENT_FIELDS, where)
    offer = EventOffer(*values)
    return generation, offer if any(offer.frame) and any(offer.client) else None


def events_generation(mapping: mmap) -> int:
    """Return the generation of the present events."""
    return header.get(mapping, _EVENTS)


def _stable(mapping: mmap, generation_name: str, names: tuple[str, ...], where: str) -> tuple[int, list[Any]]:
    """Return a generation and its fields."""
    end = time.monotonic() + _CHANGE_S
    while True:
        generation = header.get(mapping, generation_name)
        values = [header.get(mapping, name) for name in names]
        if not generation & 1 and header.get(mapping, generation_name) == generation:
            return generation, values
        if time.monotonic() >= end:
            raise SegmentError(
                f"{where}: {generation_name} is {generation}, in the middle of a change for {_CHANGE_S:g} s",
                backend="shm",
                hint="start the engine again",
            )
        time.sleep(_POLL_S)


def current_generation(mapping: mmap, of: MemoryFields) -> int:
    """Return the generation of the present handle; odd while it is changed."""
    return header.get(mapping, of.generation)


def mark_open(mapping: mmap, of: MemoryFields, generation: int) -> None:
    """Say that this client has, or is about to have, the handle of that generation open."""
    header.put(mapping, of.opened, generation | _OPEN)


def clear_open(mapping: mmap, of: MemoryFields, generation: int) -> None:
    """Say that the handle of that generation is closed, unless the word stands for another by now."""
    if header.get(mapping, of.opened) == generation | _OPEN:
        header.put(mapping, of.opened, 0)


def is_open(mapping: mmap, of: MemoryFields) -> bool:
    """True while the client has the present handle open."""
    return header.get(mapping, of.opened) == current_generation(mapping, of) | _OPEN


def is_older_open(mapping: mmap, of: MemoryFields) -> bool:
    """True while the client has a handle open that is not the present one."""
    return bool(header.get(mapping, of.opened)) and not is_open(mapping, of)


def read_here(mapping: mmap, here: bool) -> None:
    """Say whether this client reads the observations of its next frames in the segment, or on the GPU alone."""
    header.put(mapping, "client_observations", _HERE if here else _GPU_ALONE)


def is_read_here(mapping: mmap) -> bool:
    """False while the client reads observations on the GPU alone."""
    return header.get(mapping, "client_observations") != _GPU_ALONE
