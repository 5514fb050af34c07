"""What a message may hold: arrays, tuples, any buffer of bytes, enums, None; and which classes are refused."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.scalars import F32, U32
from lucky_transport.messages.scalars import struct as in_place
from tests.support.message_strategies import Colour, Everything


def test_an_array_or_a_tuple_is_the_list_of_its_values_whatever_its_type_and_order() -> None:
    for dtype in ("?", ">f4", "<f4", "<f8", ">i4", "<i4", "<u4", "<u8", "<i2"):
        for count in (0, 1, 2, 3, 4, 5, 7):
            array = np.arange(2 * count).astype(dtype)[::2]
            for name in ("flags", "smalls", "bigs", "ratios", "exacts"):
                if array.dtype.kind == "f" and name in ("smalls", "bigs", "flags"):
                    continue  # a float is no integer, nor true or false
                found = [
                    decode(Everything, encode(Everything(**{name: values, "names": ["after"]})))
                    for values in (array, array.tolist(), tuple(array.tolist()))
                ]
                assert found[0] == found[1] == found[2], (dtype, count, name)


def test_bytes_may_be_given_as_any_kind_of_buffer_which_counts_by_its_bytes() -> None:
    pixels: Any = np.arange(12, dtype=np.uint32).reshape(3, 4)
    raws = [np.random.default_rng(size).bytes(size) for size in (0, 1, 3, 4, 5, 8, 1000)]
    given = [kind(raw) for raw in raws for kind in (bytes, bytearray, memoryview)]
    for buffer in (*given, memoryview(pixels), memoryview(pixels[:, ::2])):
        again = decode(Everything, encode(Everything(raw=buffer, name="after")))  # pyright: ignore[reportArgumentType]
        assert again == Everything(raw=bytes(buffer), name="after")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_bytes_are_copied_once_each_way(kind: type) -> None:
    size = 4_000_000
    message = Everything(name="front", raw=kind(bytes(size)))
    encode(message)
    tracemalloc.start()
    try:
        data = encode(message)
        encoding = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        again = decode(Everything, data)
        decoding = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(again.raw) == size
    assert size <= encoding < 1.1 * size
    assert size <= decoding < 1.1 * size


def test_a_bytearray_may_change_after_encoding_and_after_decoding_without_changing_the_message() -> None:
    raw = bytearray(b"before")
    data = bytearray(encode(Everything(raw=raw, names=["a"])))  # pyright: ignore[reportArgumentType]
    raw[:] = b"after!"
    again = decode(Everything, data)  # pyright: ignore[reportArgumentType]
    data[:] = bytes(len(data))
    assert again == Everything(raw=b"before", names=["a"])


def test_absent_and_zero_are_told_apart_where_a_field_may_be_none() -> None:
    for value in (None, 0.0, -0.0, 1.5, math.inf):
        again = decode(Everything, encode(Everything(maybe=value, perhaps=None if value is None else bool(value))))
        assert repr(again.maybe) == repr(value)
        assert again.perhaps is (None if value is None else bool(value))


def test_a_known_value_of_an_enum_comes_back_as_its_member_an_unknown_one_as_it_is() -> None:
    assert decode(Everything, encode(Everything(colour=Colour.BLUE))).colour is Colour.BLUE
    assert decode(Everything, encode(Everything(colour=7))).colour == 7  # pyright: ignore[reportArgumentType]
    several: Any = [Colour.BLUE, 9]
    again = decode(Everything, encode(Everything(colours=several, colour_of=dict(zip("ab", several, strict=True)))))
    assert repr(again.colours) == repr(several)
    assert repr(again.colour_of) == repr({"a": Colour.BLUE, "b": 9})


@dataclass(slots=True)
class Outer:
    """Holds a class that FlatBuffers cannot carry."""

    inner: Optimist | None = None


@dataclass(slots=True)
class Optimist:
    """Its default is not zero."""

    size: U32 = 1


@in_place
@dataclass(slots=True)
class Wordy:
    """A struct must not hold text."""

    x: F32 = 0.0
    word: str = ""


@in_place
@dataclass(slots=True)
class Hollow:
    """A struct must hold something."""


@dataclass(slots=True)
class Careless:
    """Holds structs that are none."""

    wordy: Wordy | None = None


@dataclass(slots=True)
class Empty:
    """Holds a struct that is none."""

    hollows: list[Hollow] = field(default_factory=list[Hollow])


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Optimist(2), "Optimist has a default that is not zero or empty"),
        (Outer(Optimist(2)), "Optimist has a default that is not zero or empty"),
        (Careless(), r"the struct Wordy needs fields, all of them single scalars; not so: \['word'\]"),
        (Empty(), "the struct Hollow needs fields, all of them single scalars"),
    ],
)
def test_a_class_that_flatbuffers_cannot_carry_is_refused(message: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        encode(message)
