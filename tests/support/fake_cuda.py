"""A CUDA driver and the part of PyTorch that `observations_torch` uses, without a GPU.

Device memory is ordinary memory of this process. Work on a stream is done only when somebody waits for the stream or
an event of it, so that a test sees what is overwritten or read too early.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.cuda.driver import Allocation, Device, DeviceCopy, ExportedEvent, ExportedMemory
from lucky_transport.errors import DeviceError


class FakeDriver:
    """Counts what is registered and opened. fails: calls that end with that name of an error."""

    version = "12.4"

    def __init__(self, devices: int = 1) -> None:
        self._devices = tuple(Device(n, bytes([n + 1] * 16), f"Fake GPU {n}") for n in range(devices))
        self._numbers = itertools.count(1)
        self._exported: dict[bytes, NDArray[np.uint8]] = {}
        self._allocations: list[NDArray[np.uint8]] = []
        self.registered: dict[int, int] = {}
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.fails: dict[str, str] = {}
        #: Both sides' events by number, and the numbers of those that are open.
        self.events: dict[int, FakeEvent] = {}
        self.open_events: list[int] = []

    def allocate(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return device memory."""
        self._allocations.append(np.zeros(size_bytes, np.uint8))
        return self._allocations[-1]

    def devices(self) -> Sequence[Device]:
        return self._devices

    def register(self, address: int, size_bytes: int, ordinal: int) -> None:
        self._may_fail("register")
        assert address not in self.registered
        self.registered[address] = size_bytes

    def unregister(self, address: int, ordinal: int) -> None:
        self._may_fail("unregister")
        del self.registered[address]

    def export(self, pointer: int) -> ExportedMemory:
        self._may_fail("export")
        for memory in self._allocations:
            begin = memory.ctypes.data
            if begin <= pointer < begin + memory.nbytes:
                handle = next(self._numbers).to_bytes(64, "little")
                self._exported[handle] = memory
                return ExportedMemory(handle, pointer - begin, self._devices[0])
        raise DeviceError("cuIpcGetMemHandle failed: CUDA_ERROR_INVALID_VALUE (invalid argument)")

    def open(self, handle: bytes, ordinal: int) -> Allocation:
        self._may_fail("open")
        if handle not in self._exported:
            raise DeviceError("cuIpcOpenMemHandle_v2 failed: CUDA_ERROR_INVALID_HANDLE (invalid resource handle)")
        memory = self._exported[handle]
        self.opened.append(memory.ctypes.data)
        return Allocation(memory.ctypes.data, memory.nbytes)

    def close(self, pointer: int, ordinal: int) -> None:
        self._may_fail("close")
        assert self.opened.count(pointer) > self.closed.count(pointer)
        self.closed.append(pointer)

    @property
    def open_count(self) -> int:
        """How many allocations are open now."""
        return len(self.opened) - len(self.closed)

    def ordinal_of(self, pointer: int) -> int:
        return 0

    def make_event(self, ordinal: int) -> ExportedEvent:
        self._may_fail("make_event")
        event = next(self._numbers)
        self.events[event] = FakeEvent()
        self.open_events.append(event)
        return ExportedEvent(event, event.to_bytes(64, "little"))

    def open_event(self, handle: bytes, ordinal: int) -> int:
        self._may_fail("open_event")
        event = int.from_bytes(handle, "little")
        if event not in self.events:
            raise DeviceError("cuIpcOpenEventHandle failed: CUDA_ERROR_INVALID_HANDLE (invalid resource handle)")
        self.open_events.append(event)
        return event

    def close_event(self, event: int, ordinal: int) -> None:
        self._may_fail("close_event")
        self.open_events.remove(event)

    def is_done(self, event: int, ordinal: int) -> bool:
        self._may_fail("is_done")
        try:
            self.events[event].synchronize()  # a GPU goes on while somebody asks
        except NeverEnds:
            return False
        return True

    def enqueue(self, stream: int, ordinal: int, after: Sequence[int], copy: DeviceCopy | None, record: int) -> None:
        self._may_fail("enqueue")
        given = FakeStream.by_number[stream]
        for event in after:
            given.wait_event(self.events[event])
        if copy is not None:
            given.append_work(partial(ctypes.memmove, *copy))
        if record:
            self.events[record].record(given)

    def synchronize(self, stream: int, ordinal: int) -> None:
        FakeStream.by_number[stream].synchronize()

    def _may_fail(self, call: str) -> None:
        if call in self.fails:
            raise DeviceError(f"{call} failed: {self.fails[call]}")


class FakeTensor:
    """An array on a device."""

    def __init__(self, array: NDArray[Any], device: FakeDevice) -> None:
        self._array = array
        self.device = device
        self.source: object = None

    def to(self, device: FakeDevice | str, *, non_blocking: bool = False, copy: bool = False) -> FakeTensor:
        target = FakeDevice(device) if isinstance(device, str) else device
        if target.type == "mps":
            raise RuntimeError("PyTorch is not linked with support for mps devices")
        if target.type == "cuda" and target.index is None:
            target = FakeDevice("cuda", 0)
        made = FakeTensor(np.full_like(self._array, 99), target)
        if non_blocking or self.device.type == target.type == "cuda":
            FakeStream.active.append_work(partial(np.copyto, made.numpy(), self.numpy()))  # which keeps no tensor
        else:
            FakeStream.active.synchronize()
            np.copyto(made.numpy(), self.numpy())
        return made

    def map(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> FakeTensor:
        """Return what `function` makes of the values, computed on the present stream."""
        source, result = self._array, np.full_like(function(self._array), 99)
        FakeStream.active.append_work(lambda: np.copyto(result, function(source)))
        return FakeTensor(result, self.device)

    def __getitem__(self, place: Any) -> FakeTensor:
        return self.map(lambda array: array[place])

    def contiguous(self) -> FakeTensor:
        return self.map(np.ascontiguousarray)

    def detach(self) -> FakeTensor:
        return self

    def cpu(self) -> FakeTensor:
        return self.to("cpu")

    def record_stream(self, stream: FakeStream) -> None:
        stream.knows.append(self)

    def numpy(self) -> NDArray[Any]:
        """Return the values as they are by now."""
        return self._array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 2, as PyTorch's: it does not tell the stream."""
        if self.device.type != "cuda":
            raise AttributeError(f"a tensor on {self.device.type} has no __cuda_array_interface__")
        array = self._array
        strides = None if array.flags.c_contiguous else array.strides
        data = (array.ctypes.data, False)
        return {"shape": array.shape, "typestr": array.dtype.str, "strides": strides, "data": data, "version": 2}


class FakeDevice:
    def __init__(self, kind: str, index: int | None = None) -> None:
        name, _, number = kind.partition(":")
        if name not in ("cpu", "cuda", "meta", "mps"):
            raise RuntimeError(f"Expected one of cpu, cuda device type: {kind}")
        self.type = name
        if number and not number.isdigit():
            raise RuntimeError(f"Invalid device string: {kind!r}")
        self.index = int(number) if number else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeDevice) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class NeverEnds(Exception):
    """Somebody waits for work that does not end."""


def never() -> None:
    """Work of a process that died in the middle of it."""
    raise NeverEnds


class FakeEvent:
    """The work that a stream had when this was recorded on it, last."""

    made = 0

    def __init__(self, stream: FakeStream | None = None) -> None:
        FakeEvent.made += 1
        self.stream: FakeStream | None = None
        self.given = 0
        if stream is not None:
            self.record(stream)

    def record(self, stream: FakeStream) -> None:
        self.stream, self.given = stream, stream.given

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.work_off(self.given)


class FakeStream:
    """Work in its order; given, done: how much there was of it so far, and how much of that was begun."""

    active: FakeStream
    made = 0
    #: Work is done when it is given: beside a driver that does so too.
    at_once = False
    #: As a driver finds them.
    by_number: ClassVar[weakref.WeakValueDictionary[int, FakeStream]] = weakref.WeakValueDictionary()

    def __init__(self, device: object = None) -> None:
        FakeStream.made += 1
        self.cuda_stream = FakeStream.made
        FakeStream.by_number[self.cuda_stream] = self
        self._work: list[Callable[[], object]] = []
        self.given = self.done = 0
        self.knows: list[FakeTensor] = []
        self.synchronized = 0

    def append_work(self, work: Callable[[], object]) -> None:
        self._work.append(work)
        self.given += 1
        if FakeStream.at_once:
            self.work_off(self.given)

    def record_event(self) -> FakeEvent:
        return FakeEvent(self)

    def wait_event(self, event: FakeEvent) -> None:
        stream, given = event.stream, event.given  # what is recorded later is not waited for
        if stream is not None:
            self.append_work(lambda: stream.work_off(given))

    def work_off(self, given: int) -> None:
        """Do the work up to that, as many as there were once."""
        while self.done < given:
            self.done += 1
            work = self._work.pop(0)
            try:
                work()
            except NeverEnds:
                self.done -= 1
                self._work.insert(0, work)
                raise

    def synchronize(self) -> None:
        self.synchronized += 1
        self.work_off(self.given)


class FakeTorch:
    """The module `torch`; `cuda` is itself."""

    __version__ = "2.0.fake"
    device = FakeDevice
    Stream = FakeStream
    Event = FakeEvent
    Tensor = FakeTensor

    def __init__(self, devices: int = 1) -> None:
        self._devices = devices
        self.cuda = self
        self.lacks = ""  # a dtype
        self._kept: list[NDArray[Any]] = []
        self.streams: dict[int, FakeStream] = {n: FakeStream() for n in range(devices)}
        FakeStream.active = self.streams.get(0, FakeStream())

    def is_available(self) -> bool:
        return self._devices > 0

    def device_count(self) -> int:
        return self._devices

    def current_device(self) -> int:
        return 0

    def current_stream(self, device: FakeDevice) -> FakeStream:
        assert device.index is not None
        return self.streams[device.index]

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Generator[None]:
        before, FakeStream.active = FakeStream.active, stream
        yield
        FakeStream.active = before

    @contextlib.contextmanager
    def present(self, stream: FakeStream) -> Generator[None]:
        """Have another stream of the first device be the present one."""
        before, self.streams[0] = self.streams[0], stream
        with self.stream(stream):
            yield
        self.streams[0] = before

    def on_gpu(self, array: NDArray[Any]) -> FakeTensor:
        """Return an array of device memory; it stays, as PyTorch gives memory away in the order of the stream."""
        self._kept.append(array)
        return FakeTensor(array, FakeDevice("cuda", 0))

    def from_numpy(self, array: NDArray[Any]) -> FakeTensor:
        assert array.flags.writeable, "PyTorch warns of read-only arrays"
        if array.dtype.name == self.lacks:
            raise TypeError(f"can't convert np.ndarray of type numpy.{array.dtype}")
        return FakeTensor(array, FakeDevice("cpu"))

    def as_tensor(self, source: Any, device: FakeDevice) -> FakeTensor:
        seen = source.__cuda_array_interface__
        dtype = np.dtype(seen["typestr"])
        if dtype.name == self.lacks:
            raise TypeError(f"can't convert np.ndarray of type numpy.{dtype}")
        size = int(np.prod(seen["shape"])) * dtype.itemsize
        memory: Any = (ctypes.c_char * size).from_address(seen["data"][0])
        tensor = FakeTensor(np.frombuffer(memory, dtype).reshape(seen["shape"]), device)
        tensor.source = source  # PyTorch keeps it as well
        return tensor
