"""Observations and actions on a GPU: how an engine says where they lie, and how a client sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

if TYPE_CHECKING:
    from lucky_transport.cuda.driver import DeviceCopy
    from lucky_transport.cuda.libcuda import CudaDriver


_POLL_S = 0.001


class DeviceBuffer(NamedTuple):
    """Device memory of this process. pointer: as the driver counts it (CUdeviceptr, `Tensor.data_ptr()`)."""

    pointer: int
    size_bytes: int


class DeviceWatcher(Protocol):
    """A server that passes on where an array of an engine lies."""

    def published(self, buffer: DeviceBuffer | None) -> None:
        """The array lies there from now on; None: no longer on a device. Raises DeviceError."""
        ...

    def is_older_open(self) -> bool:
        """True while a client has memory open that was published before the present one."""
        ...


class DeviceMemory:
    """Where one array of an engine lies on a GPU, for a client on the same host.

    The engine calls `publish` once the memory is allocated, and again whenever it moves: in its constructor, in `step`
    or between steps. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffer: DeviceBuffer | None = None
        self._watchers: list[DeviceWatcher] = []

    def publish(self, pointer: int, size_bytes: int) -> None:
        """Say that the array, C-contiguous (num_envs, *shape) in the spec's dtype, lies there from now on.

        The memory comes from cuMemAlloc or cudaMalloc (also through PyTorch's default allocator); memory of a CUDA
        memory pool or of expandable segments cannot be shared. What was published before stays allocated until
        `wait_unused` returns True. Raises DeviceError when the driver cannot share it.
        """
        self._tell(DeviceBuffer(pointer, size_bytes))

    def withdraw(self) -> None:
        """Say that the array lies on no device any more."""
        self._tell(None)

    def wait_unused(self, timeout_s: float) -> bool:
        """Wait until no client has older memory open than the present; False when one still has after `timeout_s`.

        A client closes it when it next uses the array, or closes. Only then may that memory be freed.
        """
        end = time.monotonic() + timeout_s
        while any(one.is_older_open() for one in list(self._watchers)):
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        return True

    def watch(self, watcher: DeviceWatcher) -> Callable[[], None]:
        """Have `watcher` told of what is published, and at once of what was; returns the function that ends that."""
        with self._lock:
            if self._buffer is not None:
                watcher.published(self._buffer)
            self._watchers.append(watcher)

        def end() -> None:
            with self._lock:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)

        return end

    def _tell(self, buffer: DeviceBuffer | None) -> None:
        with self._lock:
            self._buffer = buffer
            for watcher in self._watchers:
                watcher.published(buffer)


class DeviceObservations(DeviceMemory):
    """Where the observations of one engine lie on a GPU; `Engine.device_observations`."""

    def __init__(self, to_host: Callable[[NDArray[Any]], object] | None = None) -> None:
        """to_host: writes the newest frame's observations, all rows, into the array of this process that it is passed.

        An engine that passes it leaves the bound observations alone in `step`: they are written by `to_host` after each
        step whose client reads them there, and whenever somebody else is to see the last frame.
        """
        super().__init__()
        self.to_host = to_host


class DeviceActions(DeviceMemory):
    """Where one engine reads its actions on a GPU; `Engine.device_actions`.

    Memory that moves between two steps fails the step whose client has written its actions before: move it in `step`.
    """

    def __init__(self, from_host: Callable[[NDArray[Any]], object]) -> None:
        """from_host: copies actions, all rows, from the array of this process that it is passed into that memory.

        It is called before each step whose actions come from the host, as those of resets and of most clients do. The
        array may change once it returns. `step` finds the actions in the published memory, wherever they came from.
        """
        super().__init__()
        self.from_host = from_host


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


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array in device memory that another process owns; PyTorch and CuPy take it by `__cuda_array_interface__`.

    ordinal: of its device in this process. keeps: whatever keeps the memory mapped. events: None where the memory shows
    the frame already; otherwise a stream reads it after `events.wait_frame`, and `events.record_client` before the next
    exchange says that it did.
    """

    pointer: int
    shape: Sequence[int]
    dtype: str
    ordinal: int
    keeps: object
    events: DeviceEvents | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface; the memory is read-only by agreement, which it can only say of."""
        return {
            "shape": tuple(self.shape),
            "typestr": self.dtype,
            "data": (self.pointer, False),  # PyTorch refuses what is marked read-only
            "version": 3,
            "strides": None,
            "stream": None,
        }
