"""The CUDA driver with what an engine does besides sharing memory: allocate, fill and free it."""

import ctypes
from typing import Any

from numpy.typing import NDArray

from lucky_transport.cuda.libcuda import CudaDriver

_Pointer = ctypes.c_uint64
_NON_BLOCKING = 1
_MORE: dict[str, tuple[type, ...]] = {
    "cuMemAlloc_v2": (ctypes.POINTER(_Pointer), ctypes.c_size_t),
    "cuMemFree_v2": (_Pointer,),
    "cuMemcpyHtoD_v2": (_Pointer, ctypes.c_void_p, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (ctypes.c_void_p, _Pointer, ctypes.c_size_t),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint),
    "cuMemcpyHtoDAsync_v2": (_Pointer, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, _Pointer, ctypes.c_size_t, ctypes.c_void_p),
}


class AllocatingDriver(CudaDriver):
    """Memory of one device. With a stream a copy comes after its work; without one it is done when it returns."""

    def __init__(self, library: str, ordinal: int = 0) -> None:
        super().__init__(library)
        self._ordinal = ordinal
        for name, arguments in _MORE.items():
            getattr(self._library, name).argtypes = arguments

    def allocate(self, size_bytes: int) -> int:
        """Return where it begins."""
        pointer = _Pointer()
        self._do("cuMemAlloc_v2", ctypes.byref(pointer), size_bytes)
        return pointer.value

    def free(self, pointer: int) -> None:
        self._do("cuMemFree_v2", pointer)

    def make_stream(self) -> int:
        """Return a stream that does not wait for the default one."""
        stream = ctypes.c_void_p()
        self._do("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        assert stream.value is not None
        return stream.value

    def write(self, pointer: int, array: NDArray[Any], stream: int | None = None) -> None:
        """Copy a C-contiguous array there, so that other processes see it; it may change afterwards."""
        if stream is None:
            self._do("cuMemcpyHtoD_v2", pointer, array.ctypes.data, array.nbytes)
            self._do("cuCtxSynchronize")  # it returns when it has read the array, which may be earlier
        else:
            self._do("cuMemcpyHtoDAsync_v2", pointer, array.ctypes.data, array.nbytes, stream)

    def read(self, array: NDArray[Any], pointer: int, stream: int | None = None) -> None:
        """Fill a C-contiguous array from there; it is filled when this returns."""
        if stream is None:
            self._do("cuMemcpyDtoH_v2", array.ctypes.data, pointer, array.nbytes)
        else:
            self._do("cuMemcpyDtoHAsync_v2", array.ctypes.data, pointer, array.nbytes, stream)
            self._do("cuStreamSynchronize", stream)

    def _do(self, name: str, *arguments: object) -> None:
        with self._current(self._ordinal):
            self._call(name, *arguments)
