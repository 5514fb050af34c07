"""What is asked of the CUDA driver: page-locked host memory, and device memory and events shared between processes.

`libcuda` asks the real driver; a test passes an object of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


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


class CudaDriver(Protocol):
    """The calls of the driver. Each raises DeviceError with the driver's own name for what went wrong.

    A stream is a CUstream as a number, `torch.cuda.Stream.cuda_stream`; 0 is the device's default stream.
    """

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

    def ordinal_of(self, pointer: int) -> int:
        """Return the device that memory lies on."""
        ...

    def make_event(self, ordinal: int) -> ExportedEvent:
        """Make an event that another process can open, record and wait for."""
        ...

    def open_event(self, handle: bytes, ordinal: int) -> int:
        """Open another process's event."""
        ...

    def close_event(self, event: int, ordinal: int) -> None:
        """Undo `make_event` or `open_event`."""
        ...

    def is_done(self, event: int, ordinal: int) -> bool:
        """True when the work that the event was last recorded behind is done, and for one that never was recorded."""
        ...

    def enqueue(self, stream: int, ordinal: int, after: Sequence[int], copy: DeviceCopy | None, record: int) -> None:
        """Append to a stream: wait for what the events `after` were last recorded behind, copy, record an event.

        record: 0 for none.
        """
        ...

    def synchronize(self, stream: int, ordinal: int) -> None:
        """Wait until all work of a stream is done."""
        ...


def find_device(devices: Sequence[Device], uuid: bytes, ordinal: int) -> Device | None:
    """Return the device of that UUID, that with the ordinal where the UUID is all zeros; None when it is not there.

    An ordinal means the same device in two processes only where CUDA_VISIBLE_DEVICES does.
    """
    if any(uuid):
        return next((one for one in devices if one.uuid == uuid), None)
    return next((one for one in devices if one.ordinal == ordinal), None)


class DeviceEvents:
    """The two events of one engine on one device, in one of the two processes: neither process waits for the other.

    `frame` is recorded behind the engine's work of each step, `client` behind the client's. Each side's stream waits
    for the other's event. A wait for an event that was never recorded is none: CUDA documents that such an event stands
    for an empty set of work (cuEventRecord). A wait that is queued ends when the recorded work does; of work that dies
    with its process CUDA documents nothing, so a side that finds its peer dead queues no wait and holds on to no other.
    """

    def __init__(self, driver: CudaDriver, ordinal: int, frame: int, client: int) -> None:
        self._driver = driver
        self._ordinal = ordinal
        self._frame, self._client = frame, client

    def wait_frame(self, stream: int) -> None:
        """Have later work of the client's stream come after the engine's last step."""
        self._driver.enqueue(stream, self._ordinal, (self._frame,), None, 0)

    def record_client(self, stream: int, copy: DeviceCopy | None = None) -> None:
        """Have the engine's next step come after what a stream of the client was given so far, and after `copy`.

        The copy comes after the engine's last step, and after what other streams recorded.
        """
        self._driver.enqueue(stream, self._ordinal, (self._client, self._frame), copy, self._client)

    def wait_client(self, stream: int) -> None:
        """Have later work of the engine's stream come after the client's."""
        self._driver.enqueue(stream, self._ordinal, (self._client,), None, 0)

    def record_frame(self, stream: int) -> None:
        """Have the client's later work come after what the engine's stream was given so far."""
        self._driver.enqueue(stream, self._ordinal, (), None, self._frame)

    @property
    def is_done(self) -> bool:
        """True when nothing that was recorded is still under way, and so nothing waits for it."""
        return all(self._driver.is_done(event, self._ordinal) for event in (self._frame, self._client))

    def close(self) -> None:
        """Close both; DeviceError where the driver cannot."""
        for event in (self._frame, self._client):
            self._driver.close_event(event, self._ordinal)
