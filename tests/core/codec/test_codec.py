"""Messages survive the way to bytes and back, bit for bit; wrong values and classes are refused by name."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages import ObservationTermRequest, SetSeedsRequest, SimulationContract
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.scalars import F32, U32, U64
from lucky_transport.messages.scalars import struct as in_place
from lucky_transport.messages.values import EncodeError
from tests.support.message_strategies import Everything, Leaf, Mixed, Point, any_message, message_classes, messages


@dataclass(slots=True)
class Position:
    """A message of two numbers."""

    x: F32 = 0.0
    y: F32 = 0.0


@dataclass(slots=True)
class Chain:
    """A message that contains itself."""

    next: Chain | None = None


@dataclass(slots=True)
class Tree:
    """A message that contains itself in a list and in a map."""

    id: U64 = 0
    children: list[Tree] = field(default_factory=list["Tree"])
    named: dict[str, Tree] = field(default_factory=dict[str, "Tree"])


@dataclass(slots=True)
class Holder:
    """Holds a message that contains itself."""

    tree: Tree | None = None


def chain(length: int) -> Chain:
    """Return that many links, one inside the other."""
    link = Chain()
    for _ in range(length - 1):
        link = Chain(link)
    return link


def test_a_message_of_defaults_is_nothing_but_a_table() -> None:
    for cls in message_classes():
        data = encode(cls())
        root = int.from_bytes(data[:4], "little")
        vtable = root - int.from_bytes(data[root : root + 4], "little")
        assert len(data) == root + int.from_bytes(data[vtable + 2 : vtable + 4], "little"), cls.__name__
        assert decode(cls, data) == cls(), cls.__name__


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_float_bits_survive_in_lists_and_scalars(bits: list[int]) -> None:
    quiet = [b | 0x0040_0000 if (b & 0x7F80_0000) == 0x7F80_0000 and b & 0x007F_FFFF else b for b in bits]
    raw = struct.pack(f"<{len(quiet)}I", *quiet)  # a float of Python's own cannot be a signalling NaN
    values = list(struct.unpack(f"<{len(quiet)}f", raw))
    message = Everything(ratio=values[0], ratios=values)
    again = decode(Everything, encode(message))
    assert struct.pack(f"<{len(quiet)}f", *again.ratios) == raw
    assert struct.pack("<f", again.ratio) == raw[:4]


def test_a_float_list_lies_contiguously_in_the_bytes() -> None:
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    assert values.tobytes() in encode(SimulationContract(friction_range=values.tolist()))


@given(prefix_bytes=st.sampled_from([0, 4, 8]), message=messages(Everything))
def test_wide_values_and_nested_bytes_are_aligned_where_they_will_be_read(prefix_bytes: int, message: Any) -> None:
    marker = b"\xa5nested buffer\x5a"
    message.raw, message.bigs, message.big = marker, [0x1122_3344_5566_7788], 0x99AA_BBCC_DDEE_FF00
    data = bytes(prefix_bytes) + encode(message, prefix_bytes=prefix_bytes)
    assert data.index(marker) % 8 == 0
    assert data.index(struct.pack("<Q", message.bigs[0])) % 8 == 0
    assert data.index(struct.pack("<Q", message.big)) % 8 == 0
    assert repr(decode(type(message), data[prefix_bytes:])) == repr(message)


def test_a_map_is_written_sorted_by_the_bytes_of_its_keys() -> None:
    params = {"β": "3", "a": "1", "𝛽": "4", "b": "2"}  # UTF-16 would put the last one before the third
    data = encode(ObservationTermRequest(params=params))
    assert sorted(params, key=lambda key: data.index(key.encode() + b"\0")) == ["a", "b", "β", "𝛽"]
    assert data == encode(ObservationTermRequest(params=dict(reversed(params.items()))))


@dataclass(slots=True)
class NewerPosition:
    """What a later version of Position might be."""

    x: F32 = 0.0
    y: F32 = 0.0
    z: F32 = 0.0
    labels: list[str] = field(default_factory=list[str])
    id: U64 = 0


@given(message=messages(NewerPosition))
def test_fields_of_a_newer_peer_are_ignored(message: NewerPosition) -> None:
    again = decode(Position, encode(message))
    assert repr(again) == repr(Position(message.x, message.y))


def test_fields_an_older_peer_lacks_have_their_defaults() -> None:
    assert decode(NewerPosition, encode(Position(1.0, 2.0))) == NewerPosition(1.0, 2.0)


def test_a_message_that_contains_itself_travels_up_to_64_deep() -> None:
    assert decode(Chain, encode(chain(64))) == chain(64)
    with pytest.raises(ValueError, match=r"Chain(\.next)+: tables nested deeper than 64"):
        encode(chain(65))


def test_a_message_that_contains_itself_in_lists_and_maps_travels_too() -> None:
    tree = Tree(1, [Tree(2), Tree(3, [Tree(4)])], {"a": Tree(5, named={"b": Tree(6)})})
    for prefix_bytes in (0, 4):
        assert decode(Holder, encode(Holder(tree), prefix_bytes=prefix_bytes)) == Holder(tree)
    tree.named["c"] = tree
    with pytest.raises(ValueError, match=r"Tree(\.named\['c'\])+.*: tables nested deeper than 64"):
        encode(tree)


def test_a_message_of_very_many_fields_travels() -> None:
    many = make_dataclass("Many", [(f"f{index}", U32, 0) for index in range(200)], slots=True)
    message = many(*range(200))
    assert decode(many, encode(message)) == message


#: A value that the annotation excludes.
WORD: Any = "word"

WRONG_VALUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"small": 2**31}, ValueError, "small: 2147483648 is outside int32 (-2147483648 to 2147483647)"),
    ({"count": -1}, ValueError, "count: -1 is outside uint32 (0 to 4294967295)"),
    ({"bigs": [1, 2**64]}, ValueError, "bigs[1]: 18446744073709551616 is outside uint64"),
    ({"ratio": 1e39}, ValueError, "ratio: 1e+39 is outside float32"),
    ({"exact": 10**400}, ValueError, "exact: 10000"),
    ({"ratios": [0.0, -1e39]}, ValueError, "ratios[1]: -1e+39 is outside float32"),
    ({"name": "\ud800"}, ValueError, "name: '\\ud800' is no legal text"),
    ({"names": ["a", b"b"]}, TypeError, "names[1]: expected text, got b'b' of type bytes"),
    ({"names": "abc"}, TypeError, "names: expected a sequence, got 'abc' of type str"),
    ({"ratios": ["x"]}, TypeError, "ratios[0]: expected a number, got 'x' of type str"),
    ({"small": 1.5}, TypeError, "small: expected a whole number, got 1.5 of type float"),
    ({"ratio": "x"}, TypeError, "ratio: expected a number, got 'x' of type str"),
    ({"name": 5}, TypeError, "name: expected text, got 5 of type int"),
    ({"name": None}, TypeError, "name: expected text, got None of type NoneType"),
    ({"name": b""}, TypeError, "name: expected text, got b'' of type bytes"),
    ({"flag": "no"}, TypeError, "flag: expected True or False, got 'no' of type str"),
    ({"flag": None}, TypeError, "flag: expected True or False, got None of type NoneType"),
    ({"flags": [True, 1.0]}, TypeError, "flags[1]: expected True or False, got 1.0 of type float"),
    ({"flags": np.zeros(2)}, TypeError, "flags[0]: expected True or False, got"),
    ({"flag_of": {"a": 0.5}}, TypeError, "flag_of['a']: expected True or False, got 0.5 of type float"),
    ({"raw": None}, TypeError, "raw: expected bytes, got None of type NoneType"),
    ({"raw": 0}, TypeError, "raw: expected bytes, got 0 of type int"),
    ({"raw": "text"}, TypeError, "raw: expected bytes, got 'text' of type str"),
    ({"small": None}, TypeError, "small: expected a whole number, got None of type NoneType"),
    ({"maybe": "x"}, TypeError, "maybe: expected a number, got 'x' of type str"),
    ({"maybe": 1e39}, ValueError, "maybe: 1e+39 is outside float32"),
    ({"leaf": SetSeedsRequest()}, TypeError, "leaf: expected Leaf, got SetSeeds"),
    ({"leaf": Leaf(name="\ud800")}, ValueError, "leaf.name: '\\ud800' is no legal text"),
    ({"leaves": [Leaf(), None]}, TypeError, "leaves[1]: expected Leaf, got None of type NoneType"),
    ({"leaves": [Leaf(), Leaf(id=-1)]}, ValueError, "leaves[1].id: -1 is outside uint64"),
    ({"point": Mixed()}, TypeError, "point: expected Point, got Mixed(flag"),
    ({"point": Point(WORD)}, TypeError, "point.x: expected a number, got 'word' of type str"),
    ({"mixed": Mixed(count=2**31)}, ValueError, "mixed.count: 2147483648 is outside int32"),
    ({"points": [Point(), None]}, TypeError, "points[1]: expected Point, got None of type NoneType"),
    ({"mixeds": [Mixed(), Mixed(wide=WORD)]}, TypeError, "mixeds[1].wide: expected a number, got 'word' of type str"),
    ({"exacts": [0.0, "y"]}, TypeError, "exacts[1]: expected a number, got 'y' of type str"),
    ({"ratios": np.zeros((2, 2))}, ValueError, "ratios: an array of shape (2, 2), expected one axis"),
    ({"ratios": b"12"}, TypeError, "ratios: expected a sequence, got b'12' of type bytes"),
    ({"ratio_of": {"a": "x"}}, TypeError, "ratio_of['a']: expected a number, got 'x' of type str"),
    ({"ratio_of": {1: 1.0}}, TypeError, "ratio_of[1]: expected text, got 1 of type int"),
    ({"name_of": ["a"]}, TypeError, "name_of: expected a mapping from text, got ['a'] of type list"),
    ({"leaf_of": {"a": None}}, TypeError, "leaf_of['a']: expected Leaf, got None of type NoneType"),
    ({"leaf_of": {"a": Leaf(id=-1)}}, ValueError, "leaf_of['a'].id: -1 is outside uint64"),
    ({"raws": [b"", 3]}, TypeError, "raws[1]: expected bytes, got 3 of type int"),
    ({"colours": [2**31]}, ValueError, "colours[0]: 2147483648 is outside int32"),
    ({"point_of": {"a": None}}, TypeError, "point_of['a']: expected Point, got None of type NoneType"),
]


def test_whole_numbers_and_numpys_bools_are_true_or_false() -> None:
    values: list[Any] = [1, np.True_, 0, np.False_]
    assert [decode(Everything, encode(Everything(flag=value))).flag for value in values] == [True, True, False, False]


def test_a_value_that_does_not_fit_is_refused_with_its_path() -> None:
    for values, error, text in WRONG_VALUES:
        with pytest.raises(EncodeError) as refused:
            encode(Everything(**values))
        assert isinstance(refused.value, error), text
        assert f"Everything.{text}" in str(refused.value)


#: What no field can hold.
HOSTILE = st.sampled_from([object(), 1j, -(2**70), 2**70, "\ud800", [object()], {1: object()}, {"a": object()}, ...])


@given(data=st.data())
def test_a_hostile_value_at_any_depth_is_refused_with_its_path(data: st.DataObject) -> None:
    message = data.draw(any_message())
    spoiled, path = message, type(message).__name__
    while True:
        fields = fields_of(type(spoiled))
        if not fields:
            return
        field = data.draw(st.sampled_from(fields))
        path += f".{field.name}"
        value = getattr(spoiled, field.name)
        if field.kind == "message" and field.shape == "list" and value:
            spoiled, path = value[0], f"{path}[0]"
        elif field.kind == "message" and field.shape == "one" and value is not None:
            spoiled = value
        else:
            break
    hostile = data.draw(HOSTILE)
    if field.shape == "one" and field.kind in ("f32", "f64", "bool") and isinstance(hostile, int):
        hostile = "text"  # any integer is true or false, and these are numbers
    setattr(spoiled, field.name, hostile)
    with pytest.raises(EncodeError) as refused:
        encode(message)
    assert refused.value.path.startswith(path)
    assert str(refused.value).startswith(f"{refused.value.path}: ")


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
