"""What is asked of the CUDA driver: page-locked host memory, and device memory shared between processes.

`libcuda` asks the real driver; a test passes an object of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["Allocation", "CudaDriver", "Device", "ExportedMemory", "find_device"]


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


class CudaDriver(Protocol):
    """The calls of the driver. Each raises DeviceError with the driver's own name for what went wrong."""

    @property
    def version(self) -> str:
        """The newest CUDA version that the driver supports, for instance "12.4"."""
        ...

    def devices(self) -> Sequence[Device]:
        """Return the GPUs that this process sees."""
        ...

    def register(self, address: int, size_bytes: int, ordinal: int) -> None:
        """Lock the pages of host memory; copies between it and any device are asynchronous from now on."""
        ...

    def unregister(self, address: int, ordinal: int) -> None:
        """Undo `register`."""
        ...

    def export(self, pointer: int) -> ExportedMemory:
        """Return what another process opens the device memory at `pointer` with."""
        ...

    def open(self, handle: bytes, ordinal: int) -> Allocation:
        """Map another process's allocation on that device into this process."""
        ...

    def close(self, pointer: int, ordinal: int) -> None:
        """Undo `open`."""
        ...


def find_device(devices: Sequence[Device], uuid: bytes, ordinal: int) -> Device | None:
    """Return the device of that UUID, that with the ordinal where the UUID is all zeros; None when it is not there.

    An ordinal means the same device in two processes only where CUDA_VISIBLE_DEVICES does.
    """
    if any(uuid):
        return next((one for one in devices if one.uuid == uuid), None)
    return next((one for one in devices if one.ordinal == ordinal), None)
