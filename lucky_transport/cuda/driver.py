"""What the CUDA driver tells: its devices, and memory and events that processes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU that this process sees. ordinal: its number here; uuid: its 16 bytes, the same in every process."""

    ordinal: int
    uuid: bytes
    name: str


class Allocation(NamedTuple):
    """A whole allocation of device memory: where it begins, in bytes of this process's address space, and its size."""

    pointer: int
    size_bytes: int


class ExportedMemory(NamedTuple):
    """What another process needs to open device memory.

    handle: cudaIpcMemHandle_t, 64 bytes, of the allocation. offset: bytes from the allocation's begin.
    """

    handle: bytes
    offset: int
    device: Device


class ExportedEvent(NamedTuple):
    """An event of this process (CUevent), and what another process opens it with: cudaIpcEventHandle_t, 64 bytes."""

    event: int
    handle: bytes


class DeviceCopy(NamedTuple):
    """Bytes to copy from one place in a device's memory to another."""

    to: int
    source: int
    size_bytes: int


def find_device(devices: Sequence[Device], uuid: bytes, ordinal: int) -> Device | None:
    """Return the device of that UUID, that with the ordinal where the UUID is all zeros; None when it is not there.

    An ordinal means the same device in two processes only where CUDA_VISIBLE_DEVICES does.
    """
    if any(uuid):
        return next((one for one in devices if one.uuid == uuid), None)
    return next((one for one in devices if one.ordinal == ordinal), None)
