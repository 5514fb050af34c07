"""Messages survive the way to bytes and back, bit for bit, and wrong values are refused by name."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages import (
    AgentSchema,
    GetAgentSchemaResponse,
    MdpComponentDescriptor,
    MdpParamDescriptor,
    ObservationTermRequest,
    SetSeedsRequest,
    SimulationContract,
)
from lucky_transport.messages.scalars import F32, I32, U32, U64
from tests.support.message_strategies import any_message, message_classes, messages


@dataclass(slots=True)
class Point:
    """A message inside another one."""

    x: F32 = 0.0
    y: F32 = 0.0


@dataclass(slots=True)
class Everything:
    """Each kind in each shape."""

    flag: bool = False
    small: I32 = 0
    count: U32 = 0
    big: U64 = 0
    ratio: F32 = 0.0
    name: str = ""
    raw: bytes = b""
    point: Point | None = None
    flags: list[bool] = field(default_factory=list[bool])
    smalls: list[I32] = field(default_factory=list[I32])
    counts: list[U32] = field(default_factory=list[U32])
    bigs: list[U64] = field(default_factory=list[U64])
    ratios: list[F32] = field(default_factory=list[F32])
    names: list[str] = field(default_factory=list[str])
    raws: list[bytes] = field(default_factory=list[bytes])
    points: list[Point] = field(default_factory=list[Point])
    flag_of: dict[str, bool] = field(default_factory=dict[str, bool])
    small_of: dict[str, I32] = field(default_factory=dict[str, I32])
    big_of: dict[str, U64] = field(default_factory=dict[str, U64])
    ratio_of: dict[str, F32] = field(default_factory=dict[str, F32])
    name_of: dict[str, str] = field(default_factory=dict[str, str])
    raw_of: dict[str, bytes] = field(default_factory=dict[str, bytes])
    point_of: dict[str, Point] = field(default_factory=dict[str, Point])


@dataclass(slots=True)
class Chain:
    """A message that contains itself."""

    next: Chain | None = None


def chain(length: int) -> Chain:
    """Return that many links, one inside the other."""
    link = Chain()
    for _ in range(length - 1):
        link = Chain(link)
    return link


@settings(max_examples=200)
@given(message=any_message())
def test_any_message_survives_the_round_trip(message: Any) -> None:
    again = decode(type(message), encode(message))
    assert repr(again) == repr(message)  # repr tells -0.0 from 0.0 and takes NaN for NaN
    assert encode(again) == encode(message)


@given(message=messages(Everything))
def test_every_kind_in_every_shape_survives_the_round_trip(message: Everything) -> None:
    again = decode(Everything, encode(message))
    assert repr(again) == repr(message)


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_a_message_of_defaults_is_nothing_but_a_table(cls: type) -> None:
    data = encode(cls())
    root = int.from_bytes(data[:4], "little")
    vtable = root - int.from_bytes(data[root : root + 4], "little")
    assert len(data) == root + int.from_bytes(data[vtable + 2 : vtable + 4], "little")
    assert decode(cls, data) == cls()


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_float_bits_survive_in_lists_and_scalars(bits: list[int]) -> None:
    quiet = [b | 0x0040_0000 if (b & 0x7F80_0000) == 0x7F80_0000 and b & 0x007F_FFFF else b for b in bits]
    raw = struct.pack(f"<{len(quiet)}I", *quiet)  # a float of Python's own cannot be a signalling NaN
    values = list(struct.unpack(f"<{len(quiet)}f", raw))
    message = Everything(ratio=values[0], ratios=values)
    again = decode(Everything, encode(message))
    assert struct.pack(f"<{len(quiet)}f", *again.ratios) == raw
    assert struct.pack("<f", again.ratio) == raw[:4]


def test_minus_zero_and_nan_are_not_taken_for_the_default() -> None:
    again = decode(Point, encode(Point(-0.0, math.nan)))
    assert math.copysign(1, again.x) == -1
    assert math.isnan(again.y)


def test_a_float_list_lies_contiguously_in_the_bytes() -> None:
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    assert values.tobytes() in encode(SimulationContract(friction_range=values.tolist()))


def test_arrays_and_tuples_are_accepted_as_lists() -> None:
    message = SetSeedsRequest(seeds=np.arange(3, dtype=np.uint64), mask=bytearray(b"\1\0\1"))  # pyright: ignore[reportArgumentType]
    assert decode(SetSeedsRequest, encode(message)) == SetSeedsRequest([0, 1, 2], b"\1\0\1")
    assert decode(Everything, encode(Everything(names=("a", "b")))).names == ["a", "b"]  # pyright: ignore[reportArgumentType]


@given(prefix_bytes=st.sampled_from([0, 4, 8]), message=messages(Everything))
def test_wide_values_and_nested_bytes_are_aligned_where_they_will_be_read(
    prefix_bytes: int, message: Everything
) -> None:
    marker = b"\xa5nested buffer\x5a"
    message.raw, message.bigs, message.big = marker, [0x1122_3344_5566_7788], 0x99AA_BBCC_DDEE_FF00
    data = bytes(prefix_bytes) + encode(message, prefix_bytes=prefix_bytes)
    assert data.index(marker) % 8 == 0
    assert data.index(struct.pack("<Q", message.bigs[0])) % 8 == 0
    assert data.index(struct.pack("<Q", message.big)) % 8 == 0
    assert repr(decode(Everything, data[prefix_bytes:])) == repr(message)


def test_equal_tables_share_one_vtable() -> None:
    one, many = (len(encode(Everything(points=[Point(1.5, 2.5)] * count))) for count in (1, 1001))
    assert many - one == 1000 * (4 + 4 + 8)  # offset in the vector, way to the vtable, two floats


def test_a_map_is_written_sorted_by_the_bytes_of_its_keys() -> None:
    params = {"β": "3", "a": "1", "𝛽": "4", "b": "2"}  # UTF-16 would put the last one before the third
    data = encode(ObservationTermRequest(params=params))
    assert sorted(params, key=lambda key: data.index(key.encode() + b"\0")) == ["a", "b", "β", "𝛽"]
    assert data == encode(ObservationTermRequest(params=dict(reversed(params.items()))))


def test_an_empty_key_and_a_default_value_are_still_an_entry() -> None:
    message = MdpComponentDescriptor(params_schema={"": MdpParamDescriptor()})
    assert decode(MdpComponentDescriptor, encode(message)) == message


@dataclass(slots=True)
class NewerPoint:
    """What a later version of Point might be."""

    x: F32 = 0.0
    y: F32 = 0.0
    z: F32 = 0.0
    labels: list[str] = field(default_factory=list[str])
    id: U64 = 0


@given(message=messages(NewerPoint))
def test_fields_of_a_newer_peer_are_ignored(message: NewerPoint) -> None:
    again = decode(Point, encode(message))
    assert repr(again) == repr(Point(message.x, message.y))


def test_fields_an_older_peer_lacks_have_their_defaults() -> None:
    assert decode(NewerPoint, encode(Point(1.0, 2.0))) == NewerPoint(1.0, 2.0)


def test_a_message_that_contains_itself_travels_up_to_64_deep() -> None:
    assert decode(Chain, encode(chain(64))) == chain(64)
    with pytest.raises(ValueError, match=r"Chain(\.next)+: tables nested deeper than 64"):
        encode(chain(65))


WRONG_VALUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"small": 2**31}, ValueError, r"Everything\.small: 2147483648 does not fit i32"),
    ({"count": -1}, ValueError, r"Everything\.count: -1 does not fit u32"),
    ({"bigs": [1, 2**64]}, ValueError, r"Everything\.bigs\[1\]: 18446744073709551616 does not fit u64"),
    ({"ratio": 1e39}, ValueError, r"Everything\.ratio: 1e\+39 does not fit f32"),
    ({"ratios": [0.0, -1e39]}, ValueError, r"Everything\.ratios\[1\]: -1e\+39 does not fit f32"),
    ({"name": "\ud800"}, ValueError, r"Everything\.name: '\\ud800' is no legal text"),
    ({"names": ["a", b"b"]}, TypeError, r"Everything\.names\[1\]: b'b' is bytes, expected str"),
    ({"names": "abc"}, TypeError, r"Everything\.names: 'abc' is str, expected a list"),
    ({"ratios": ["x"]}, TypeError, r"Everything\.ratios\[0\]: 'x' is str, expected a number that fits f32"),
    ({"small": 1.5}, TypeError, r"Everything\.small: 1\.5 is float, expected a number that fits i32"),
    ({"ratio": "x"}, TypeError, r"Everything\.ratio: 'x' is str, expected a number that fits f32"),
    ({"name": 5}, TypeError, r"Everything\.name: 5 is int, expected str"),
    ({"name": None}, TypeError, r"Everything\.name: None is NoneType, expected str"),
    ({"name": b""}, TypeError, r"Everything\.name: b'' is bytes, expected str"),
    ({"flag": "no"}, TypeError, r"Everything\.flag: 'no' is str, expected a bool"),
    ({"flag": None}, TypeError, r"Everything\.flag: None is NoneType, expected a bool"),
    ({"raw": None}, TypeError, r"Everything\.raw: None is NoneType, expected bytes"),
    ({"small": None}, TypeError, r"Everything\.small: None is NoneType, expected a number that fits i32"),
    ({"raw": "text"}, TypeError, r"Everything\.raw: 'text' is str, expected bytes"),
    ({"point": SetSeedsRequest()}, TypeError, r"Everything\.point: .* is SetSeedsRequest, expected Point"),
    ({"points": [Point(), None]}, TypeError, r"Everything\.points\[1\]: None is NoneType, expected Point"),
    ({"name_of": ["a"]}, TypeError, r"Everything\.name_of: \['a'\] is list, expected a dict"),
    ({"name_of": {1: "a"}}, TypeError, r"Everything\.name_of\[0\]\.key: 1 is int, expected str"),
    ({"point_of": {"a": None}}, TypeError, r"Everything\.point_of\[0\]\.value: None is NoneType"),
]


def test_whole_numbers_and_numpys_bools_are_true_or_false() -> None:
    values: list[Any] = [1, np.True_, 0, np.False_]
    assert [decode(Everything, encode(Everything(flag=value))).flag for value in values] == [True, True, False, False]


@pytest.mark.parametrize(("values", "error", "text"), WRONG_VALUES)
def test_a_value_that_does_not_fit_is_refused_with_its_place(
    values: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        encode(Everything(**values))


def test_the_place_of_a_wrong_value_is_the_whole_path() -> None:
    with pytest.raises(ValueError, match=r"GetAgentSchemaResponse\.schema\.action_size: -1 does not fit u32"):
        encode(GetAgentSchemaResponse(AgentSchema(action_size=-1)))


@dataclass(slots=True)
class Optimist:
    """FlatBuffers could not tell its absent field from one that is 0."""

    size: U32 = 1


def test_a_class_with_a_default_that_is_not_zero_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Optimist has a default that is not zero or empty"):
        encode(Optimist(2))


def test_many_different_sets_of_present_fields_still_round_trip() -> None:
    names = ["pose_orientation_noise", "joint_position_noise", "joint_velocity_noise", "terrain_difficulty"]
    lists = ["friction_range", "restitution_range", "mass_scale_range", "com_offset_range", "motor_offset_range"]
    for bits in range(2**9):
        values: dict[str, Any] = {name: 0.5 for i, name in enumerate(names) if bits >> i & 1}
        values |= {name: [0.5, 1.5] for i, name in enumerate(lists, len(names)) if bits >> i & 1}
        assert decode(SimulationContract, encode(SimulationContract(**values))) == SimulationContract(**values)
