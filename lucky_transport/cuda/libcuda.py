"""The real CUDA driver: `libcuda.so.1`, called through ctypes.

The library comes with NVIDIA's kernel driver, not with the CUDA toolkit or PyTorch. It is loaded when `load_driver` is
first called; a program that asks for nothing on a GPU never loads it. Every call runs in the device's primary context,
which is the one that PyTorch uses.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from lucky_transport.cuda.driver import Allocation, Device, DeviceCopy, ExportedEvent, ExportedMemory
from lucky_transport.errors import DeviceError

LIBRARY = "libcuda.so.1"
_HANDLE_BYTES = 64
_UUID_BYTES = 16
_NAME_BYTES = 128

_HOST_REGISTER_PORTABLE = 1  # for every context, also those made later
_IPC_LAZY_PEER_ACCESS = 1
_ATTRIBUTE_DEVICE_ORDINAL = 9
_EVENT_INTERPROCESS = 4 | 2  # of another process too, which must not be timed
_NOT_READY = 600
#: The driver's part of the process has ended; what it held is gone.
_DEINITIALIZED = 4

_NO_DRIVER = "install NVIDIA's driver on this host, in a container use `docker run --gpus all`; 'cpu' needs neither"


class _Handle(ctypes.Structure):
    """CUipcMemHandle or CUipcEventHandle, which are passed by value."""

    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


_Pointer = ctypes.c_uint64  # CUdeviceptr
_Context = ctypes.c_void_p
_Event = _Stream = ctypes.c_void_p
_Size = ctypes.c_size_t
_Int, _Unsigned = ctypes.c_int, ctypes.c_uint

#: Functions and their arguments; all return a CUresult. A name ending in _v2 is the one that cuda.h calls without it.
_SIGNATURES: dict[str, tuple[type, ...]] = {
    "cuInit": (_Unsigned,),
    "cuDriverGetVersion": (ctypes.POINTER(_Int),),
    "cuDeviceGetCount": (ctypes.POINTER(_Int),),
    "cuDeviceGet": (ctypes.POINTER(_Int), _Int),
    "cuDeviceGetName": (ctypes.c_char_p, _Int, _Int),
    "cuDeviceGetUuid": (ctypes.c_char_p, _Int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_Context), _Int),
    "cuCtxPushCurrent_v2": (_Context,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(_Context),),
    "cuMemHostRegister_v2": (ctypes.c_void_p, _Size, _Unsigned),
    "cuMemHostUnregister": (ctypes.c_void_p,),
    "cuPointerGetAttribute": (ctypes.c_void_p, _Int, _Pointer),
    "cuMemGetAddressRange_v2": (ctypes.POINTER(_Pointer), ctypes.POINTER(_Size), _Pointer),
    "cuIpcGetMemHandle": (ctypes.POINTER(_Handle), _Pointer),
    "cuIpcOpenMemHandle_v2": (ctypes.POINTER(_Pointer), _Handle, _Unsigned),
    "cuIpcCloseMemHandle": (_Pointer,),
    "cuEventCreate": (ctypes.POINTER(_Event), _Unsigned),
    "cuEventDestroy_v2": (_Event,),
    "cuEventQuery": (_Event,),
    "cuEventRecord": (_Event, _Stream),
    "cuStreamWaitEvent": (_Stream, _Event, _Unsigned),
    "cuStreamSynchronize": (_Stream,),
    "cuMemcpyDtoDAsync_v2": (_Pointer, _Pointer, _Size, _Stream),
    "cuIpcGetEventHandle": (ctypes.POINTER(_Handle), _Event),
    "cuIpcOpenEventHandle": (ctypes.POINTER(_Event), _Handle),
    "cuGetErrorName": (_Int, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (_Int, ctypes.POINTER(ctypes.c_char_p)),
}


def load_driver() -> CudaDriver:
    """Return the CUDA driver of this machine, initialised; one per process.

    Raises DeviceError when the library is not installed or finds no device, and in a child forked after the parent
    loaded it, where CUDA does not work.
    """
    driver = _load()
    if driver.pid != os.getpid():
        raise DeviceError(
            "the parent process loaded the CUDA driver before it forked this one",
            hint="start processes that use a GPU with multiprocessing's 'spawn' method",
        )
    return driver


@functools.cache
def _load() -> CudaDriver:
    return CudaDriver(LIBRARY)


def forget_driver() -> None:
    """Have `load_driver` load it anew."""
    _load.cache_clear()


class CudaDriver:
    """The calls of the driver. Each raises DeviceError with the driver's own name for what went wrong.

    A stream is a CUstream as a number, `torch.cuda.Stream.cuda_stream`; 0 is the device's default stream. pid: of the
    process that loaded the library. version: the newest CUDA version that the driver supports, for instance "12.4".
    """

    def __init__(self, library: str) -> None:
        """Load and initialise it. Raises DeviceError."""
        self.pid = os.getpid()
        try:
            self._library = ctypes.CDLL(library)
            for name, arguments in _SIGNATURES.items():
                getattr(self._library, name).argtypes = arguments
        except (OSError, AttributeError) as error:
            raise DeviceError(f"there is no CUDA driver here ({error})", hint=_NO_DRIVER) from error
        self._contexts: dict[int, _Context] = {}
        self._call("cuInit", 0)
        version = _Int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"
        count = _Int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self._devices = tuple(self._device(ordinal) for ordinal in range(count.value))
        if not self._devices:
            raise DeviceError("the CUDA driver sees no device", hint="see CUDA_VISIBLE_DEVICES and `nvidia-smi`")

    def devices(self) -> Sequence[Device]:
        """Return the GPUs that this process sees."""
        return self._devices

    def register(self, address: int, size_bytes: int, ordinal: int) -> None:
        """Lock the pages of host memory; copies between it and any device are asynchronous from now on."""
        with self._current(ordinal):
            self._call("cuMemHostRegister_v2", address, size_bytes, _HOST_REGISTER_PORTABLE)

    def unregister(self, address: int, ordinal: int) -> None:
        """Undo `register`."""
        self._release("cuMemHostUnregister", address, ordinal)

    def export(self, pointer: int) -> ExportedMemory:
        """Return what another process opens the device memory at `pointer` with."""
        ordinal = self.ordinal_of(pointer)
        handle = _Handle()
        with self._current(ordinal):
            begin, _ = self._allocation(pointer)
            self._call("cuIpcGetMemHandle", ctypes.byref(handle), pointer)
        return ExportedMemory(bytes(handle), pointer - begin, self._devices[ordinal])

    def open(self, handle: bytes, ordinal: int) -> Allocation:
        """Map another process's allocation on that device into this process."""
        pointer = _Pointer()
        with self._current(ordinal):
            passed = _Handle.from_buffer_copy(handle)
            self._call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), passed, _IPC_LAZY_PEER_ACCESS)
            return self._allocation(pointer.value)

    def close(self, pointer: int, ordinal: int) -> None:
        """Undo `open`."""
        self._release("cuIpcCloseMemHandle", pointer, ordinal)

    def ordinal_of(self, pointer: int) -> int:
        """Return the device that memory lies on."""
        ordinal = _Int()
        self._call("cuPointerGetAttribute", ctypes.byref(ordinal), _ATTRIBUTE_DEVICE_ORDINAL, pointer)
        return ordinal.value

    def make_event(self, ordinal: int) -> ExportedEvent:
        """Make an event that another process can open, record and wait for."""
        event, handle = _Event(), _Handle()
        with self._current(ordinal):
            self._call("cuEventCreate", ctypes.byref(event), _EVENT_INTERPROCESS)
            self._call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        return ExportedEvent(event.value or 0, bytes(handle))

    def open_event(self, handle: bytes, ordinal: int) -> int:
        """Open another process's event."""
        event = _Event()
        with self._current(ordinal):
            self._call("cuIpcOpenEventHandle", ctypes.byref(event), _Handle.from_buffer_copy(handle))
        return event.value or 0

    def close_event(self, event: int, ordinal: int) -> None:
        """Undo `make_event` or `open_event`."""
        self._release("cuEventDestroy_v2", event, ordinal)

    def is_done(self, event: int, ordinal: int) -> bool:
        """True when the work that the event was last recorded behind is done, and for one that never was recorded."""
        with self._current(ordinal) as usable:
            result = self._library.cuEventQuery(event) if usable else 0
        if result != _NOT_READY:
            self._check("cuEventQuery", result)
        return result != _NOT_READY

    def enqueue(self, stream: int, ordinal: int, after: Sequence[int], copy: DeviceCopy | None, record: int) -> None:
        """Append to a stream: wait for what the events `after` were last recorded behind, copy, record an event.

        record: 0 for none.
        """
        with self._current(ordinal):
            for event in after:
                self._call("cuStreamWaitEvent", stream, event, 0)
            if copy is not None:
                self._call("cuMemcpyDtoDAsync_v2", *copy, stream)
            if record:
                self._call("cuEventRecord", record, stream)

    def synchronize(self, stream: int, ordinal: int) -> None:
        """Wait until all work of a stream is done."""
        with self._current(ordinal):
            self._call("cuStreamSynchronize", stream)

    def _release(self, name: str, resource: int, ordinal: int) -> None:
        """Give something back, unless the driver's part has ended."""
        with self._current(ordinal) as usable:
            if usable:
                self._call(name, resource)

    def _allocation(self, pointer: int) -> Allocation:
        """Return the allocation that `pointer` lies in; its device's context is current."""
        begin, size = _Pointer(), _Size()
        self._call("cuMemGetAddressRange_v2", ctypes.byref(begin), ctypes.byref(size), pointer)
        return Allocation(begin.value, size.value)

    def _device(self, ordinal: int) -> Device:
        device = _Int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", name, _NAME_BYTES, device)
        uuid = ctypes.create_string_buffer(_UUID_BYTES)
        self._call("cuDeviceGetUuid", uuid, device)
        return Device(ordinal, uuid.raw, name.value.decode(errors="replace"))

    @contextmanager
    def _current(self, ordinal: int) -> Generator[bool]:
        """Make the device's primary context this thread's for a while; False once the driver's part has ended.

        The context is retained until the process ends: making one takes a good part of a second.
        """
        if ordinal not in self._contexts:
            device, context = _Int(), _Context()
            self._call("cuDeviceGet", ctypes.byref(device), ordinal)
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[ordinal] = context
        pushed = self._library.cuCtxPushCurrent_v2(self._contexts[ordinal])
        if pushed == _DEINITIALIZED:
            yield False
            return
        self._check("cuCtxPushCurrent_v2", pushed)
        try:
            yield True
        finally:
            self._library.cuCtxPopCurrent_v2(ctypes.byref(_Context()))

    def _call(self, name: str, *arguments: object) -> None:
        """Call a function; raises DeviceError with the driver's name and text for what it returns."""
        self._check(name, getattr(self._library, name)(*arguments))

    def _check(self, name: str, result: int) -> None:
        if result:
            what, text = ctypes.c_char_p(), ctypes.c_char_p()
            self._library.cuGetErrorName(result, ctypes.byref(what))
            self._library.cuGetErrorString(result, ctypes.byref(text))
            said = (text.value or b"no text").decode(errors="replace")
            raise DeviceError(f"{name} failed: {(what.value or str(result).encode()).decode()} ({said})")
