"""Options as a library takes them, each of exactly the type that it expects, and those that say how it is driven.

    str, bytes     -> UINT8[bytes of it, in UTF-8]      bool  -> UINT8[1]
    int            -> INT32[1]                          float -> FLOAT32[1]
    numpy array of uint8, int32, float32                -> its elements
    {"dtype": "int32", "values": [1, 2]}                -> the same, where options travel as JSON

What cannot be told apart by its type is refused, never guessed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import ConfigError, SpecError, did_you_mean
from lucky_transport.spec.array_spec import fitting
from lucky_transport_libenv.interface import DTYPES, MAX_NAME_BYTES, Dtype, Option, Options

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
            kept = ctypes.create_string_buffer(data)  # with a NUL behind it, for a library that takes a text for C's
            self._data.append(kept)
            item.name, item.dtype, item.count = _encoded(name), dtype, count
            item.data = ctypes.addressof(kept)
        self.value = Options(self._items, len(options))


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
    match value:
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
            return Dtype.FLOAT32, 1, _array(name, "float32", value).tobytes()
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


def _array(name: str, dtype: str, values: float | list[Any]) -> NDArray[Any]:
    try:
        return fitting(values, dtype).astype(dtype)
    except ValueError as error:
        raise _refusal(name, values, f"these are no {dtype}: {error}") from error


def _refusal(name: str, value: Any, why: str) -> SpecError:
    return SpecError(f"libenv option {name} = {value!r} ({type(value).__name__}): {why}", backend="libenv")


@dataclass(frozen=True, slots=True)
class LibenvSettings:
    """How a library is driven: options={"libenv": {"handles": 4, ...}}; every other option is the library's.

    handles: how many envs of the library make the batch, each with num_envs / handles rows. 1: as gym3 does it, and
    the fastest. num_envs: each row on its own, which can be held and reset. threads: how many of them step at a time.
    seed_option: the library's int option that is its seed, "" when it has none.
    """

    handles: int = 1
    threads: int = 1
    seed_option: str = ""

    @classmethod
    def of(cls, values: Any) -> Self:
        """Return the settings that `values` say, a mapping or None.

        Raises ConfigError for what is no setting, SpecError for a value of another kind.
        """
        if values is None:
            return cls()
        if not isinstance(values, Mapping):
            raise SpecError(f"option libenv = {values!r}: expected a dict", hint='{"libenv": {"handles": 1}}')
        known = {field.name: field for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                hint = f"{did_you_mean(name, known)}it has {', '.join(known)}"
                raise ConfigError(f"option libenv has no {name!r}", backend="libenv", hint=hint)
            if type(value) is not (kind := type(known[name].default)):
                raise SpecError(f"option libenv: {name} = {value!r}: expected {kind.__name__}")
        return cls(**values)

    def check(self, num_envs: int) -> None:
        """Raise SpecError unless a batch of `num_envs` can be made like this."""
        if num_envs < 1:
            raise SpecError(f"num_envs {num_envs}: expected at least 1")
        if not 1 <= self.handles <= num_envs or num_envs % self.handles:
            raise SpecError(f"option libenv: {self.handles} handles for {num_envs} envs: expected a divisor of it")
        if not 1 <= self.threads <= self.handles:
            raise SpecError(f"option libenv: {self.threads} threads for {self.handles} handles: expected 1 to as many")
