"""The compiled decoder and the generic reader agree: what one reads the other reads as the same message."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport.codec.compiled import Codec, codec_of, source_of
from lucky_transport.codec.envelope import Envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.codec.reader import decode_generic
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import SetSeedsResponse
from tests.support.message_strategies import any_message, messages
from tests.support.sample_messages import Everything, Leaf


class NotCompiledError(Exception):
    """The compiled codec left a value or buffer to the generic one."""


def refuse(*args: Any) -> Any:
    raise NotCompiledError


@cache
def compiled(cls: type[Any]) -> Codec:
    """Return the codec of a class that raises NotCompiledError in place of the generic one."""
    return codec_of(cls, refuse, refuse)


def same_verdict(cls: type[Any], data: bytes) -> None:
    """What the compiled decoder takes the generic reader takes too, and finds the same in it."""
    try:
        found = compiled(cls).decode(data)
    except NotCompiledError:
        return
    assert repr(found) == repr(decode_generic(cls, data))


def test_the_page_on_the_codec_shows_what_is_compiled() -> None:
    page = Path(__file__).parents[3] / "lucky_transport" / "codec" / "README.md"
    shown = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown == [source_of(SetSeedsResponse).rstrip() + "\n"]


@given(message=messages(Everything), prefix_bytes=st.sampled_from([0, 4, 8]))
def test_both_read_what_the_compiled_encoder_writes(message: Everything, prefix_bytes: int) -> None:
    data = compiled(Everything).encode(message, prefix_bytes)
    assert repr(compiled(Everything).decode(data)) == repr(message)
    assert repr(decode_generic(Everything, data)) == repr(message)


@given(message=any_message())
def test_every_message_is_written_and_read_by_compiled_code(message: Any) -> None:
    codec = compiled(type(message))
    assert repr(codec.decode(codec.encode(message))) == repr(message)


@given(keys=st.lists(st.text(max_size=4), max_size=6))
def test_a_map_is_written_sorted_by_the_bytes_of_its_keys(keys: list[str]) -> None:
    data = compiled(Everything).encode(Everything(ratio_of=dict.fromkeys(keys, 1.0)))
    assert list(decode_generic(Everything, data).ratio_of) == sorted(set(keys), key=str.encode)


def test_a_map_with_a_key_twice_is_refused_by_both() -> None:
    data = compiled(Everything).encode(Everything(ratio_of={"aa": 1.0, "ab": 2.0})).replace(b"ab\0", b"aa\0")
    with pytest.raises(NotCompiledError):
        compiled(Everything).decode(data)
    with pytest.raises(RemoteProtocolError, match=r"ratio_of in .* has 2 entries but only 1 different keys"):
        decode(Everything, data)


@given(message=messages(Everything), data=st.data())
def test_a_damaged_buffer_gets_the_same_verdict_from_both(message: Everything, data: st.DataObject) -> None:
    buffer = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(buffer) // 4 - 1)) * 4
        word = st.sampled_from([0, 1, 4, 8, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]) | st.integers(0, len(buffer))
        struct.pack_into("<I", buffer, at, data.draw(word))
    same_verdict(Everything, bytes(buffer))


@given(message=any_message() | messages(Envelope), data=st.data())
def test_a_buffer_with_changed_bytes_or_cut_short_gets_the_same_verdict_from_both(
    message: Any, data: st.DataObject
) -> None:
    buffer = bytearray(encode(message))
    for _ in range(data.draw(st.integers(0, 2))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    same_verdict(type(message), bytes(buffer[: data.draw(st.integers(0, len(buffer)) | st.just(len(buffer)))]))


@settings(max_examples=20)  # every word of each is changed
@given(message=messages(Everything))
def test_changing_any_offset_gets_the_same_verdict(message: Everything) -> None:
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


def test_texts_that_share_their_place_are_left_to_the_generic_reader_which_counts_what_they_unfold_to() -> None:
    data = sharing(50, "shared")
    assert decode_generic(Everything, data).names == ["shared"] * 51
    assert decode(Everything, data).names == ["shared"] * 51
    with pytest.raises(NotCompiledError):
        compiled(Everything).decode(data)
    with pytest.raises(RemoteProtocolError, match="unfolds"):
        decode_generic(Everything, sharing(2000, "x" * 10_000))


@dataclass(slots=True)
class Nested:
    """A list of tables inside a list of tables."""

    groups: list[Everything] = field(default_factory=list[Everything])
    leaves: list[Leaf] = field(default_factory=list[Leaf])


@given(message=messages(Nested), prefix_bytes=st.sampled_from([0, 4]))
def test_tables_in_lists_are_aligned_and_share_their_vtables(message: Nested, prefix_bytes: int) -> None:
    marker = 0x1122_3344_5566_7788
    message.leaves += [Leaf(marker, "a"), Leaf(marker, "bcdef"), Leaf(marker, "g")]
    data = bytes(prefix_bytes) + compiled(Nested).encode(message, prefix_bytes)
    wide, at = struct.pack("<Q", marker), -1
    for _ in range(3):
        at = data.index(wide, at + 1)
        assert at % 8 == 0
    assert repr(decode_generic(Nested, data[prefix_bytes:])) == repr(message)
    one, many = (len(encode(Nested(leaves=[Leaf(1, "abc")] * count))) for count in (1, 1001))
    assert many - one == 1000 * (4 + 16 + 8)  # offset in the vector, table, text
