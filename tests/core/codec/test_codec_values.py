"""What a message may hold: arrays, tuples, any buffer of bytes, enums, None; and what is refused, with its place."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.scalars import F32, F64, I32, U32, U64
from lucky_transport.messages.scalars import struct as in_place
from tests.support.sample_messages import Colour, Leaf, Mixed, Point


@dataclass(slots=True)
class Holder:
    """Fields that take more than one kind of value, or refuse one."""

    name: str = ""
    raw: bytes = b""
    colour: Annotated[Colour, "i32"] = Colour.RED
    maybe: F32 | None = None
    perhaps: bool | None = None
    point: Point | None = None
    mixed: Mixed | None = None
    leaf: Leaf | None = None
    flags: list[bool] = field(default_factory=list[bool])
    smalls: list[I32] = field(default_factory=list[I32])
    bigs: list[U64] = field(default_factory=list[U64])
    ratios: list[F32] = field(default_factory=list[F32])
    exacts: list[F64] = field(default_factory=list[F64])
    names: list[str] = field(default_factory=list[str])
    colours: list[Annotated[Colour, "i32"]] = field(default_factory=list[Colour])
    points: list[Point] = field(default_factory=list[Point])
    mixeds: list[Mixed] = field(default_factory=list[Mixed])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    ratio_of: dict[str, F32] = field(default_factory=dict[str, F32])
    point_of: dict[str, Point] = field(default_factory=dict[str, Point])


@given(values=st.lists(st.floats(width=32), max_size=70))
def test_arrays_and_tuples_are_lists_whatever_they_hold(values: list[float]) -> None:
    expected = repr(values)
    for given_as in (tuple(values), np.array(values, dtype=np.float32), np.array(values, dtype=np.float64)):
        message = Holder(ratios=given_as, exacts=given_as)  # pyright: ignore[reportArgumentType]
        assert repr(decode(Holder, encode(message)).ratios) == expected
        assert repr(decode(Holder, encode(message)).exacts) == expected


@pytest.mark.parametrize("dtype", ["?", ">f4", "<f4", "<f8", ">i4", "<i4", "<u4", "<u8", "<i2"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7])
def test_an_array_is_the_list_of_its_values_whatever_its_type_and_order(dtype: str, count: int) -> None:
    array = np.arange(2 * count).astype(dtype)[::2]
    for name in ("flags", "smalls", "bigs", "ratios", "exacts"):
        if array.dtype.kind == "f" and name in ("smalls", "bigs"):
            continue  # a float is no integer
        again = decode(Holder, encode(Holder(**{name: array, "names": ["after"]})))
        assert again == decode(Holder, encode(Holder(**{name: array.tolist(), "names": ["after"]})))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8, 1000])
def test_bytes_may_be_given_as_any_kind_of_buffer(kind: type, size: int) -> None:
    raw = np.random.default_rng(size).bytes(size)
    message = Holder(raw=kind(raw), name="after")
    assert decode(Holder, encode(message)) == Holder(raw=raw, name="after")


def test_a_memoryview_counts_by_its_bytes() -> None:
    pixels: Any = np.arange(12, dtype=np.uint32).reshape(3, 4)
    view, strided = memoryview(pixels), memoryview(pixels[:, ::2])
    assert decode(Holder, encode(Holder(raw=view))).raw == pixels.tobytes()  # pyright: ignore[reportArgumentType]
    assert decode(Holder, encode(Holder(raw=strided))).raw == strided.tobytes()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_bytes_are_copied_once_each_way(kind: type) -> None:
    size = 4_000_000
    message = Holder(name="front", raw=kind(bytes(size)))
    encode(message)
    tracemalloc.start()
    try:
        data = encode(message)
        encoding = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        again = decode(Holder, data)
        decoding = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(again.raw) == size
    assert size <= encoding < 1.1 * size
    assert size <= decoding < 1.1 * size


def test_a_bytearray_may_change_after_encoding_without_changing_the_message() -> None:
    raw = bytearray(b"before")
    data = encode(Holder(raw=raw))  # pyright: ignore[reportArgumentType]
    raw[:] = b"after!"
    assert decode(Holder, data).raw == b"before"


def test_a_bytearray_may_change_after_decoding_without_changing_the_message() -> None:
    data = bytearray(encode(Holder(raw=b"before", names=["a"])))
    again = decode(Holder, data)  # pyright: ignore[reportArgumentType]
    data[:] = bytes(len(data))
    assert again == Holder(raw=b"before", names=["a"])


def test_absent_and_zero_are_told_apart_where_a_field_may_be_none() -> None:
    for value in (None, 0.0, -0.0, 1.5, math.inf):
        again = decode(Holder, encode(Holder(maybe=value, perhaps=None if value is None else bool(value))))
        assert repr(again.maybe) == repr(value)
        assert again.perhaps is (None if value is None else bool(value))


def test_a_known_value_of_an_enum_comes_back_as_its_member_an_unknown_one_as_it_is() -> None:
    assert decode(Holder, encode(Holder(colour=Colour.BLUE))).colour is Colour.BLUE
    assert decode(Holder, encode(Holder(colour=7))).colour == 7  # pyright: ignore[reportArgumentType]
    again = decode(Holder, encode(Holder(colours=[Colour.BLUE, 9])))  # pyright: ignore[reportArgumentType]
    assert repr(again.colours) == repr([Colour.BLUE, 9])


TEXT: Any = "text"

WRONG_VALUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"point": Mixed()}, TypeError, r"Holder\.point: Mixed\(.*\) is Mixed, expected Point"),
    ({"point": Point(TEXT)}, TypeError, r"Holder\.point\.x: 'text' is str, expected a number that fits f32"),
    ({"mixed": Mixed(count=2**31)}, ValueError, r"Holder\.mixed\.count: 2147483648 does not fit i32"),
    ({"points": [Point(), None]}, TypeError, r"Holder\.points\[1\]: None is NoneType, expected Point"),
    ({"mixeds": [Mixed(), Mixed(wide=TEXT)]}, TypeError, r"Holder\.mixeds\[1\]\.wide: 'text' is str"),
    ({"point_of": {"a": None}}, TypeError, r"Holder\.point_of\[0\]\.value: None is NoneType, expected Point"),
    ({"exacts": [0.0, "y"]}, TypeError, r"Holder\.exacts\[1\]: 'y' is str, expected a number that fits f64"),
    ({"leaves": [Leaf(), Leaf(id=-1)]}, ValueError, r"Holder\.leaves\[1\]\.id: -1 does not fit u64"),
    ({"leaf": Leaf(name="\ud800")}, ValueError, r"Holder\.leaf\.name: '\\ud800' is no legal text"),
    ({"ratios": np.zeros((2, 2))}, ValueError, r"Holder\.ratios\[0\]: array\(.*\) does not fit f32"),
    ({"ratios": b"12"}, TypeError, r"Holder\.ratios: b'12' is bytes, expected a list"),
    ({"ratio_of": {"a": "x"}}, TypeError, r"Holder\.ratio_of\[0\]\.value: 'x' is str, expected a number that fits f32"),
    ({"ratio_of": {1: 1.0}}, TypeError, r"Holder\.ratio_of\[0\]\.key: 1 is int, expected str"),
    ({"name": None}, TypeError, r"Holder\.name: None"),
    ({"name": 0}, TypeError, r"Holder\.name: 0"),
    ({"raw": 0}, TypeError, r"Holder\.raw: 0"),
    ({"maybe": "x"}, TypeError, r"Holder\.maybe: 'x' is str, expected a number that fits f32"),
    ({"maybe": 1e39}, ValueError, r"Holder\.maybe: 1e\+39 does not fit f32"),
]


@pytest.mark.parametrize(("values", "error", "text"), WRONG_VALUES)
def test_a_value_that_does_not_fit_is_refused_with_its_place(
    values: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        encode(Holder(**values))


@dataclass(slots=True)
class Outer:
    """Holds a class that FlatBuffers cannot carry."""

    inner: Optimist | None = None


@dataclass(slots=True)
class Optimist:
    """Its default is not zero."""

    size: U32 = 1


def test_a_contained_class_with_a_default_that_is_not_zero_is_refused_too() -> None:
    with pytest.raises(TypeError, match=r"Optimist has a default that is not zero or empty"):
        encode(Outer(Optimist(2)))


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


def test_a_struct_without_fields_or_with_others_than_scalars_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"the struct Wordy needs fields, all of them single scalars; not so: \['word'\]"
    ):
        encode(Careless())
    with pytest.raises(TypeError, match=r"the struct Hollow needs fields, all of them single scalars"):
        encode(Empty())
