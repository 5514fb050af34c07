"""The header's GPU fields: what an engine says of its observations in device memory, and what of it a client has open.

    engine                                      client
    generation = odd                            generation, fields, generation: retry while odd or changed
    handle, offset, size, device                client_generation = generation | 1
    generation = the next even number           open the handle; generation: begin again when it changed

A generation stands for one handle. The engine frees older memory only when the client's word names no older generation;
the client sets its word before it opens a handle and clears it after it closed it. An engine that knows only the seed's
fields always has generation 0: its handle never changes.

An engine with the feature DEVICE_ONLY looks at `client_observations` in every step, and writes no observations into the
segment while the client reads them on the GPU alone. The client sets the word before the actions of that step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from mmap import mmap

from lucky_transport.cuda.driver import ExportedMemory
from lucky_transport.errors import SegmentError
from lucky_transport.shm.segment import header
from lucky_transport.spec.batch_spec import BatchSpec

__all__ = [
    "DeviceOffer",
    "clear_open",
    "current_generation",
    "is_offered",
    "is_older_open",
    "is_read_here",
    "mark_open",
    "read_here",
    "read_offer",
    "write_offer",
]

_CPU, _CUDA_IPC = 0, 1
#: How long an engine may take to write the fields.
_CHANGE_S = 1.0
_POLL_S = 0.0005
_OPEN = 1
_HERE, _GPU_ALONE = 0, 1  # client_observations


@dataclass(frozen=True, slots=True)
class DeviceOffer:
    """Observations of an engine on a GPU, as another process opens them; checked against the spec."""

    handle: bytes
    offset: int
    size_bytes: int
    ordinal: int
    uuid: bytes
    generation: int


def write_offer(mapping: mmap, memory: ExportedMemory | None, size_bytes: int = 0) -> None:
    """Say where the observations lie on a GPU; None: on none. For the engine; one thread at a time."""
    generation = header.get(mapping, "gpu_obs_generation") & ~1
    header.put(mapping, "gpu_obs_generation", generation + 1 & 0xFFFFFFFF)
    header.put(mapping, "gpu_available", 0 if memory is None else 1)
    header.put(mapping, "gpu_obs_mode", _CPU if memory is None else _CUDA_IPC)
    header.put(mapping, "gpu_obs_handle", b"" if memory is None else memory.handle)
    header.put(mapping, "gpu_obs_offset", 0 if memory is None else memory.offset)
    header.put(mapping, "gpu_obs_size", 0 if memory is None else size_bytes)
    header.put(mapping, "gpu_device_id", 0 if memory is None else memory.device.ordinal)
    header.put(mapping, "gpu_device_uuid", b"" if memory is None else memory.device.uuid)
    following = generation + 2 & 0xFFFFFFFF
    header.put(mapping, "gpu_obs_generation", following or 2)


def read_offer(mapping: mmap, spec: BatchSpec, where: str) -> DeviceOffer | None:
    """Return what the engine offers, None where its observations lie on no GPU or are shared in a way not known here.

    Raises SegmentError when it does not fit the spec.
    """
    end = time.monotonic() + _CHANGE_S
    while True:
        generation = current_generation(mapping)
        names = ("gpu_available", "gpu_obs_mode", "gpu_obs_handle", "gpu_obs_offset", "gpu_obs_size", "gpu_device_id")
        available, mode, handle, offset, size, ordinal = (header.get(mapping, name) for name in names)
        uuid = header.get(mapping, "gpu_device_uuid")
        if not generation & 1 and current_generation(mapping) == generation:
            break
        if time.monotonic() >= end:
            raise SegmentError(
                f"{where}: gpu_obs_generation is {generation}, in the middle of a change for {_CHANGE_S:g} s",
                backend="shm",
                hint="start the engine again",
            )
        time.sleep(_POLL_S)
    if not available or mode != _CUDA_IPC:
        return None
    expected = spec.num_envs * spec.observation.size * spec.observation.itemsize_bytes
    if size not in (0, expected):
        raise SegmentError(
            f"{where}: gpu_obs_size is {size}, the spec says {expected}",
            backend="shm",
            hint="the engine publishes exactly its observations: (num_envs, *shape) in the spec's dtype",
        )
    if offset % spec.observation.itemsize_bytes:
        raise SegmentError(
            f"{where}: gpu_obs_offset is {offset}, not aligned for {spec.observation.dtype}",
            backend="shm",
            hint="start the engine again",
        )
    return DeviceOffer(handle, offset, expected, ordinal, uuid, generation)


def is_offered(mapping: mmap) -> bool:
    """True where the engine says that its observations lie on a GPU, whichever way it shares them."""
    return bool(header.get(mapping, "gpu_available"))


def current_generation(mapping: mmap) -> int:
    """Return the generation of the present handle; odd while it is changed."""
    return header.get(mapping, "gpu_obs_generation")


def mark_open(mapping: mmap, generation: int) -> None:
    """Say that this client has, or is about to have, the handle of that generation open."""
    header.put(mapping, "gpu_client_generation", generation | _OPEN)


def clear_open(mapping: mmap, generation: int) -> None:
    """Say that the handle of that generation is closed, unless the word stands for another by now."""
    if header.get(mapping, "gpu_client_generation") == generation | _OPEN:
        header.put(mapping, "gpu_client_generation", 0)


def is_older_open(mapping: mmap) -> bool:
    """True while the client has a handle open that is not the present one."""
    opened = header.get(mapping, "gpu_client_generation")
    return bool(opened) and opened != current_generation(mapping) | _OPEN


def read_here(mapping: mmap, here: bool) -> None:
    """Say whether this client reads the observations of its next frames in the segment, or on the GPU alone."""
    header.put(mapping, "client_observations", _HERE if here else _GPU_ALONE)


def is_read_here(mapping: mmap) -> bool:
    """False while the client reads observations on the GPU alone."""
    return header.get(mapping, "client_observations") != _GPU_ALONE
