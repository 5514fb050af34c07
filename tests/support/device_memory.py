"""The CUDA driver with what an engine does besides sharing memory: allocate, fill and free it."""

from __future__ import annotations

import ctypes
from typing import Any

from numpy.typing import NDArray

from lucky_transport.cuda.libcuda import LibCuda

__all__ = ["DeviceMemory"]

_Pointer = ctypes.c_uint64
_MORE: dict[str, tuple[type, ...]] = {
    "cuMemAlloc_v2": (ctypes.POINTER(_Pointer), ctypes.c_size_t),
    "cuMemFree_v2": (_Pointer,),
    "cuMemcpyHtoD_v2": (_Pointer, ctypes.c_void_p, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (ctypes.c_void_p, _Pointer, ctypes.c_size_t),
    "cuCtxSynchronize": (),
}


class DeviceMemory(LibCuda):
    """Memory of one device; every copy has been done when its method returns."""

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

    def write(self, pointer: int, array: NDArray[Any]) -> None:
        """Copy a C-contiguous array there, so that other processes see it."""
        self._do("cuMemcpyHtoD_v2", pointer, array.ctypes.data, array.nbytes)
        self._do("cuCtxSynchronize")  # it returns when it has read the array, which may be earlier

    def read(self, array: NDArray[Any], pointer: int) -> None:
        """Fill a C-contiguous array from there."""
        self._do("cuMemcpyDtoH_v2", array.ctypes.data, pointer, array.nbytes)

    def _do(self, name: str, *arguments: object) -> None:
        with self._current(self._ordinal):
            self._call(name, *arguments)
