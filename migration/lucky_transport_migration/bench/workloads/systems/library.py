"""The suite's C library: compiled by the system's compiler, and called as a Python host calls it."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import EngineFailed
from lucky_transport.registry import load

__all__ = ["DirectLibrary", "compiled", "compiler"]

_OWNER = "bench --suite systems"
_PLUGIN = "lucky_transport_libenv"
_SOURCE = Path(__file__).with_name("points.c")
_COMPILE_S = 60.0
_SEEN, _PUSHES = 16, 4  # as in the source


def compiler() -> str | None:
    """Return the system's C compiler, None where there is none."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


@contextmanager
def compiled() -> Generator[str]:
    """The path of the library, in a folder of its own that goes with the context.

    Raises EngineFailed with the compiler's words.
    """
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        target = Path(directory) / "libpoints.so"
        command = [compiler() or "cc", "-O2", "-shared", "-fPIC", f"-I{_headers()}", "-o", str(target), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S)
        if done.returncode:
            raise EngineFailed(f"{_SOURCE.name} does not compile: {done.stderr.strip()}", backend="libenv")
        yield str(target)


def _headers() -> Path:
    """Return the folder of libenv.h, which the plugin has."""
    found = importlib.util.find_spec(_PLUGIN)
    places = None if found is None else found.submodule_search_locations
    assert places, f"{_PLUGIN} is a part of this distribution"
    return Path(places[0]) / "export"


class DirectLibrary:
    """One env of `num_envs` points in this process. observations: float32 (num_envs, 16), the library's own memory."""

    def __init__(self, path: str, num_envs: int) -> None:
        self._library: Any = load(f"{_PLUGIN}.library:Library", owner=_OWNER)(path)
        options, buffers = (load(f"{_PLUGIN}.interface:{name}", owner=_OWNER) for name in ("Options", "LibenvBuffers"))
        self.observations = np.zeros((num_envs, _SEEN), np.float32)
        self.actions = np.zeros((num_envs, _PUSHES), np.float32)
        self._rewards, self._first = np.zeros(num_envs, np.float32), np.zeros(num_envs, np.uint8)
        tables = [_rows(array) for array in (self.observations, self.actions)]
        ob, ac = (ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p)) for table in tables)
        self._places = buffers(ob, self._rewards.ctypes.data, self._first.ctypes.data, None, ac)
        self._tables: Sequence[object] = tables
        self._handle = self._library.make(num_envs, options())
        self._library.set_buffers(self._handle, ctypes.byref(self._places))

    def step(self, actions: NDArray[np.float32]) -> None:
        """Do what a host does for a step: hand over actions, act, observe."""
        np.copyto(self.actions, actions)
        self._library.act(self._handle)
        self._library.observe(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._library.close(self._handle)


def _rows(array: NDArray[Any]) -> Any:
    """Return C's table of pointers to an array's rows."""
    addresses = [array.ctypes.data + row * array.strides[0] for row in range(len(array))]
    return (ctypes.c_void_p * len(addresses))(*addresses)
