"""Finding a library and loading it, and the extra functions `get_state` and `set_state` that some have.

    libenv:/opt/envs/libmaze.so     that file
    libenv:/opt/envs/maze           /opt/envs/libmaze.so (.dylib on macOS, maze.dll on Windows)
    libenv:maze                     libmaze.so in the present folder, else wherever the system's loader looks

A library is asked for its version before anything else of it is called.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from lucky_transport.errors import EngineFailed, SpecError, Unimplemented, UnknownName
from lucky_transport.messages.methods import method
from lucky_transport_libenv.interface import FUNCTIONS, VERSION


def file_name(name: str, platform: str = sys.platform) -> str:
    """Return what the library `name` is called on a system (`sys.platform`'s word for it)."""
    if platform == "win32":
        return f"{name}.dll"
    return f"lib{name}.dylib" if platform == "darwin" else f"lib{name}.so"


def find(name: str) -> str:
    """Return what the system's loader is given for `name`: an absolute path, or a bare file name for it to look up.

    Raises UnknownName for an empty name and for a path where nothing is.
    """
    if not name:
        raise UnknownName("the libenv engine needs a library", hint="use libenv:/path/to/libenv.so or libenv:name")
    path = Path(name).expanduser()
    decorated = path.with_name(file_name(path.name))
    for candidate in (path, decorated):
        if candidate.is_file():
            return str(candidate.resolve())
    if path.name != name:
        raise UnknownName(f"no library at {path} or {decorated}", backend="libenv", hint="check the path")
    return decorated.name


class Library:
    """A loaded library of the right version; its functions are attributes by their names without `libenv_`.

    Raises UnknownName (not found), EngineFailed (it does not load), SpecError (no libenv library, another version).
    """

    make: Any
    get_tensortypes: Any
    set_buffers: Any
    observe: Any
    act: Any
    close: Any

    def __init__(self, name: str) -> None:
        self.path = find(name)
        try:
            # symbols stay the library's own, so that two libraries in one process do not meet
            self._library = ctypes.CDLL(self.path, mode=os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0))
        except OSError as error:
            raise _not_loaded(self.path, error) from error
        for symbol, (result, arguments) in FUNCTIONS.items():
            setattr(self, symbol.removeprefix("libenv_"), self.function(symbol, result, *arguments))
            if symbol == "libenv_version":  # asked before anything else is called
                self._check_version()

    def function(self, symbol: str, result: Any, *arguments: Any) -> Any:
        """Return the C function `symbol` with these ctypes; raises SpecError when the library has none."""
        try:
            function = self._library[symbol]
        except AttributeError as error:
            raise SpecError(
                f"{self.path} exports no {symbol}",
                backend="libenv",
                hint=f"a libenv library exports {', '.join(FUNCTIONS)}",
            ) from error
        function.restype, function.argtypes = result, list(arguments)
        return function

    def _check_version(self) -> None:
        version = self.version()
        if version != VERSION:
            raise SpecError(
                f"{self.path} was compiled for version {version} of libenv, expected {VERSION}",
                backend="libenv",
                hint="compile it against a libenv.h of that version",
            )

    version: Any


def _not_loaded(path: str, error: OSError) -> UnknownName | EngineFailed:
    """Return the error that says what the system's loader did not like."""
    if os.path.dirname(path):
        return EngineFailed(f"{path} does not load: {error}", backend="libenv")
    return UnknownName(f"no library {path!r}: {error}", backend="libenv", hint="give its path: libenv:/path/to/it")


GET_STATE = method("/lucky_transport.v1.StateService/GetState")
SET_STATE = method("/lucky_transport.v1.StateService/SetState")

_CAPACITY_BYTES = 1 << 20


class StateFunctions:
    """A library's `get_state` and `set_state`, which procgen has, looked up when they are used.

    int get_state(libenv_env *, int env_index, char *data, int capacity)      -> bytes written, negative: an error
    void set_state(libenv_env *, int env_index, char *data, int size)
    """

    def __init__(self, library: Library) -> None:
        self._library = library

    def get(self, handle: int, index: int) -> bytes:
        """Return the state of one env; raises Unimplemented without such a function, EngineFailed without a state."""
        function = self._function("get_state", ctypes.c_int)
        data = ctypes.create_string_buffer(_CAPACITY_BYTES)
        size = function(handle, index, data, _CAPACITY_BYTES)
        if not 0 <= size <= _CAPACITY_BYTES:
            raise EngineFailed(f"{self._library.path}: get_state returned {size}", backend="libenv")
        return data.raw[:size]

    def set(self, handle: int, index: int, state: bytes) -> None:
        """Put one env into a state; raises Unimplemented without such a function."""
        self._function("set_state", None)(handle, index, ctypes.create_string_buffer(state, len(state)), len(state))

    def _function(self, symbol: str, result: Any) -> Any:
        try:
            return self._library.function(symbol, result, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        except SpecError as error:
            raise Unimplemented(f"{self._library.path} has no {symbol}", backend="libenv") from error
