"""The extra functions `get_state` and `set_state` of some libraries, as procgen has them.

int get_state(libenv_env *, int env_index, char *data, int capacity)      -> bytes written, negative: an error
void set_state(libenv_env *, int env_index, char *data, int size)
"""

from __future__ import annotations

import ctypes
from typing import Any

from lucky_transport.errors import EngineFailed, SpecError, Unimplemented
from lucky_transport.messages.methods import method
from lucky_transport_libenv.library import Library

__all__ = ["GET_STATE", "SET_STATE", "StateFunctions"]

GET_STATE = method("/lucky_transport.v1.StateService/GetState")
SET_STATE = method("/lucky_transport.v1.StateService/SetState")

_CAPACITY_BYTES = 1 << 20


class StateFunctions:
    """A library's `get_state` and `set_state`, looked up when they are used."""

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
