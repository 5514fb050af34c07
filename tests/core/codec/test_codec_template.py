"""The short way and the generic one lead to the same messages: what the short one takes the other takes too."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport.codec.derive import table_of
from lucky_transport.codec.envelope import Envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.codec.place import Misfit
from lucky_transport.codec.template import FAULTS, Template, template_of
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import Writer
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.scalars import F32, F64, I32, U64
from tests.support.message_strategies import any_message, message_classes, messages
from tests.support.sample_messages import Colour, Leaf, Mixed, Point


@dataclass(slots=True)
class Everything:
    """Each sort of field that has a recipe, and each that has none."""

    flag: bool = False
    small: I32 = 0
    big: U64 = 0
    ratio: F32 = 0.0
    exact: F64 = 0.0
    colour: Annotated[Colour, "i32"] = Colour.RED
    maybe: F32 | None = None
    perhaps: bool | None = None
    name: str = ""
    raw: bytes = b""
    point: Point | None = None
    mixed: Mixed | None = None
    leaf: Leaf | None = None
    flags: list[bool] = field(default_factory=list[bool])
    smalls: list[I32] = field(default_factory=list[I32])
    bigs: list[U64] = field(default_factory=list[U64])
    ratios: list[F32] = field(default_factory=list[F32])
    exacts: list[F64] = field(default_factory=list[F64])
    names: list[str] = field(default_factory=list[str])
    points: list[Point] = field(default_factory=list[Point])
    mixeds: list[Mixed] = field(default_factory=list[Mixed])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    raws: list[bytes] = field(default_factory=list[bytes])
    colours: list[Annotated[Colour, "i32"]] = field(default_factory=list[Colour])
    name_of: dict[str, str] = field(default_factory=dict[str, str])
    ratio_of: dict[str, F32] = field(default_factory=dict[str, F32])
    exact_of: dict[str, F64] = field(default_factory=dict[str, F64])
    flag_of: dict[str, bool] = field(default_factory=dict[str, bool])
    leaf_of: dict[str, Leaf] = field(default_factory=dict[str, Leaf])
    point_of: dict[str, Point] = field(default_factory=dict[str, Point])


RARE = ("raws", "colours", "point_of")


def template(cls: type[Any]) -> Template:
    found = template_of(cls)
    assert found is not None
    return found


def generic_encode(message: Any, prefix_bytes: int = 0) -> bytes:
    writer = Writer(prefix_bytes)
    return writer.finish(table_of(type(message)).write(writer, message))


def generic_decode(cls: type[Any], data: bytes) -> Any:
    verifier = Verifier(data)
    return table_of(cls).read(verifier, verifier.root())


def same_verdict(cls: type[Any], data: bytes) -> None:
    """What the short way takes the generic one takes too, and finds the same in it."""
    try:
        short = template(cls).read(data)
    except FAULTS:
        return
    assert repr(short) == repr(generic_decode(cls, data))


def common(message: Everything) -> Everything:
    """Return the message without what has no recipe."""
    for name in RARE:
        setattr(message, name, type(getattr(message, name))())
    return message


@settings(max_examples=200)
@given(message=messages(Everything).map(common), prefix_bytes=st.sampled_from([0, 4, 8]))
def test_both_ways_read_what_the_short_one_writes(message: Everything, prefix_bytes: int) -> None:
    data = template(Everything).write(message, prefix_bytes)
    assert repr(template(Everything).read(data)) == repr(message)
    assert repr(generic_decode(Everything, data)) == repr(message)


@settings(max_examples=150)
@given(message=messages(Everything) | any_message() | messages(Envelope))
def test_what_is_written_is_the_same_message_whichever_way_it_went(message: Any) -> None:
    cls = type(message)
    assert repr(decode(cls, encode(message))) == repr(decode(cls, generic_encode(message))) == repr(message)


@given(message=any_message())
def test_all_messages_go_the_short_way(message: Any) -> None:
    assert repr(template(type(message)).read(template(type(message)).write(message, 0))) == repr(message)


@given(keys=st.lists(st.text(max_size=4), max_size=6))
def test_a_map_is_written_sorted_by_the_bytes_of_its_keys_whichever_way_it_went(keys: list[str]) -> None:
    message = Everything(ratio_of=dict.fromkeys(keys, 1.0))
    for data in (template(Everything).write(message, 0), generic_encode(message)):
        assert list(generic_decode(Everything, data).ratio_of) == sorted(set(keys), key=str.encode)


def test_a_map_with_a_key_twice_gets_the_same_verdict_both_ways() -> None:
    data = template(Everything).write(Everything(ratio_of={"aa": 1.0, "ab": 2.0}), 0).replace(b"ab\0", b"aa\0")
    with pytest.raises(FAULTS):
        template(Everything).read(data)
    with pytest.raises(RemoteProtocolError, match=r"ratio_of in .* has 2 entries but only 1 different keys"):
        decode(Everything, data)


@settings(max_examples=400)
@given(message=messages(Everything).map(common), data=st.data())
def test_a_damaged_buffer_gets_the_same_verdict_both_ways(message: Everything, data: st.DataObject) -> None:
    buffer = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(buffer) // 4 - 1)) * 4
        word = st.sampled_from([0, 1, 4, 8, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]) | st.integers(0, len(buffer))
        struct.pack_into("<I", buffer, at, data.draw(word))
    same_verdict(Everything, bytes(buffer))


@settings(max_examples=300)
@given(message=any_message() | messages(Envelope), data=st.data())
def test_a_buffer_with_changed_bytes_or_cut_short_gets_the_same_verdict_both_ways(
    message: Any, data: st.DataObject
) -> None:
    buffer = bytearray(encode(message))
    for _ in range(data.draw(st.integers(0, 2))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    same_verdict(type(message), bytes(buffer[: data.draw(st.integers(0, len(buffer)) | st.just(len(buffer)))]))


@settings(max_examples=50)
@given(message=messages(Everything).map(common))
def test_changing_any_offset_to_point_backwards_or_twice_at_one_place_is_left_to_the_generic_way(
    message: Everything,
) -> None:
    message.name, message.raw, message.ratios = "name", b"raw", [1.0]
    data = bytearray(encode(message))
    for at in range(data[0], len(data) - 4, 4):
        for change in (-4, 4, -8, 8):
            changed = bytearray(data)
            word = struct.unpack_from("<I", data, at)[0] + change & 0xFFFF_FFFF
            struct.pack_into("<I", changed, at, word)
            same_verdict(Everything, bytes(changed))


def sharing(count: int, text: str) -> bytes:
    """Return an Everything in which `names` has `count` times one and the same text."""
    raw = text.encode()
    data = bytearray(encode(Everything(names=[""] * count + [text])))
    assert data.endswith(struct.pack("<I", len(raw)) + raw + bytes(4 - len(raw) % 4))
    last = len(data) - 4 - len(raw) - (4 - len(raw) % 4)
    first = last - 8 * count - 4 * (count + 1)
    for place in range(first, first + 4 * count, 4):
        struct.pack_into("<I", data, place, last - place)
    return bytes(data)


def test_texts_that_share_their_place_go_the_generic_way_which_counts_what_they_unfold_to() -> None:
    data = sharing(50, "shared")
    assert generic_decode(Everything, data).names == ["shared"] * 51
    assert decode(Everything, data).names == ["shared"] * 51
    with pytest.raises(FAULTS):
        template(Everything).read(data)
    with pytest.raises(Misfit, match="unfolds"):
        generic_decode(Everything, sharing(2000, "x" * 10_000))


@dataclass(slots=True)
class Nested:
    """A list of tables inside a list of tables."""

    groups: list[Everything] = field(default_factory=list[Everything])
    leaves: list[Leaf] = field(default_factory=list[Leaf])


@given(message=messages(Nested), prefix_bytes=st.sampled_from([0, 4]))
def test_tables_in_lists_are_aligned_and_share_their_vtables(message: Nested, prefix_bytes: int) -> None:
    marker = 0x1122_3344_5566_7788
    message.leaves += [Leaf(marker, "a"), Leaf(marker, "bcdef"), Leaf(marker, "g")]
    for group in message.groups:
        common(group)
    data = bytes(prefix_bytes) + template(Nested).write(message, prefix_bytes)
    wide, at = struct.pack("<Q", marker), -1
    for _ in range(3):
        at = data.index(wide, at + 1)
        assert at % 8 == 0
    assert repr(generic_decode(Nested, data[prefix_bytes:])) == repr(message)
    one, many = (len(encode(Nested(leaves=[Leaf(1, "abc")] * count))) for count in (1, 1001))
    assert many - one == 1000 * (4 + 16 + 8)  # offset in the vector, table, text


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_every_class_that_travels_has_a_template(cls: type[Any]) -> None:
    assert template_of(cls) is not None
