"""Options as a library takes them: each of exactly the type that it expects, for it does not convert.

str, bytes     -> UINT8[bytes of it, in UTF-8]      bool  -> UINT8[1]
int            -> INT32[1]                          float -> FLOAT32[1]
numpy array of uint8, int32, float32                -> its elements
{"dtype": "int32", "values": [1, 2]}                -> the same, where options travel as JSON
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport_libenv.interface import DTYPES, MAX_NAME_BYTES, Dtype, Option, Options

__all__ = ["OptionBlock", "as_json"]

_INT32 = np.iinfo(np.int32)


class OptionBlock:
    """Options in C's form, to be kept for as long as an env that was made with them; `value` is passed by value.

    Raises SpecError for a value or a name that a library cannot take, naming it.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._items = (Option * len(options))()
        self._data: list[ctypes.Array[ctypes.c_char]] = []
        for item, (name, value) in zip(self._items, options.items(), strict=True):
            dtype, count, data = _marshalled(name, value)
            kept = ctypes.create_string_buffer(data)  # with a NUL behind it, for who takes a text for C's
            self._data.append(kept)
            item.name, item.dtype, item.count = _encoded(name), dtype, count
            item.data = ctypes.addressof(kept)
        self.value = Options(self._items, len(options))


def as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that mean the same, of JSON's types only."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = np.frombuffer(value, np.uint8)
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": value.ravel().tolist()}
    return value


def _encoded(name: str) -> bytes:
    encoded = name.encode(errors="replace")
    if not encoded or len(encoded) >= MAX_NAME_BYTES - 1 or b"\0" in encoded:
        raise SpecError(
            f"libenv option {name!r}: a name of {len(encoded)} bytes, expected 1 to {MAX_NAME_BYTES - 2}, none 0",
            backend="libenv",
        )
    return encoded


def _marshalled(name: str, value: Any) -> tuple[Dtype, int, bytes]:
    """Return an option's element type, its number of elements, and their bytes."""
    match value:  # what its type does not tell is refused (a plain list, None), never guessed
        case bool():  # before int: a library ends its process over a number for a truth
            return Dtype.UINT8, 1, bytes([value])
        case str():
            return Dtype.UINT8, len(text := value.encode()), text
        case bytes():
            return Dtype.UINT8, len(value), value
        case int():
            if not _INT32.min <= value <= _INT32.max:
                raise _refusal(name, value, "an int has 32 bits here")
            return Dtype.INT32, 1, np.int32(value).tobytes()
        case float():
            return Dtype.FLOAT32, 1, np.float32(value).tobytes()
        case np.ndarray() if value.dtype.name in DTYPES:
            return DTYPES[value.dtype.name], value.size, value.tobytes()
        case {"dtype": str(dtype), "values": list(values)} if dtype in DTYPES:
            array = _array(name, dtype, values)
            return DTYPES[dtype], array.size, array.tobytes()
        case _:
            raise _refusal(
                name,
                value,
                "expected str, bytes, bool, int, float, an array of uint8, int32 or float32, "
                'or {"dtype": "int32", "values": [...]}',
            )


def _array(name: str, dtype: str, values: list[Any]) -> NDArray[Any]:
    try:
        array = np.array(values)
    except ValueError as error:
        raise _refusal(name, values, f"these are no {dtype}: {error}") from error
    if array.size:
        integer = dtype != "float32"
        fits = array.dtype.kind in ("iu" if integer else "iuf")
        if integer and fits:
            fits = np.iinfo(dtype).min <= array.min() and array.max() <= np.iinfo(dtype).max
        if not fits:
            raise _refusal(name, values, f"these are no {dtype}")
    return array.astype(dtype)


def _refusal(name: str, value: Any, why: str) -> SpecError:
    return SpecError(f"libenv option {name} = {value!r} ({type(value).__name__}): {why}", backend="libenv")
