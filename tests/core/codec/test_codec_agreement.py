"""All codecs agree, on damaged buffers too; what a hostile peer sends is refused before it costs much."""

from __future__ import annotations

import dataclasses
import inspect
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from flatbuffers import number_types
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport.codec.compiled import Codec, codec_of, source_of
from lucky_transport.codec.envelope import Envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.codec.reader import decode_generic
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import AgentSchema, AuxiliaryDataRequest, SetSeedsRequest, SetSeedsResponse, TaskContract
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.scalars import U32, U64
from tests.support.message_strategies import Everything, Leaf, any_message, message_classes, messages

FLAGS: dict[str, Any] = {
    "f32": number_types.Float32Flags,
    "f64": number_types.Float64Flags,
    "i32": number_types.Int32Flags,
    "u32": number_types.Uint32Flags,
    "u64": number_types.Uint64Flags,
    "bool": number_types.BoolFlags,
    "byte": number_types.Uint8Flags,
}


# --- writing with the official Builder, back to front as it must be ---


class Official:
    """Writes messages with the official runtime; `write_defaults` and `reverse` vary the layout."""

    def __init__(self, write_defaults: bool = False, reverse: bool = False) -> None:
        self.builder = flatbuffers.Builder(0)
        self.builder.ForceDefaults(write_defaults)
        self.write_defaults = write_defaults
        self.reverse = reverse

    def finish(self, message: Any) -> bytes:
        self.builder.Finish(self.message(message))
        return bytes(self.builder.Output())

    def message(self, message: Any) -> int:
        return self.table([(field, getattr(message, field.name)) for field in fields_of(type(message))])

    def table(self, values: Sequence[tuple[Field, Any]]) -> int:
        parts: dict[int, int] = {}
        for slot, (field, value) in enumerate(values):
            is_inline = field.shape == "one" and (field.kind in FLAGS or field.kind == "struct")
            if not is_inline and (value or (self.write_defaults and value is not None)):
                parts[slot] = self.part(field, value)
        self.builder.StartObject(len(values))
        order = list(enumerate(values))
        for slot, (field, value) in reversed(order) if self.reverse else order:
            if slot in parts:
                self.builder.PrependUOffsetTRelativeSlot(slot, parts[slot], 0)
            elif field.kind == "struct" and field.shape == "one" and value is not None:
                self.struct(value)
                self.builder.Slot(slot)
            elif field.kind in FLAGS and field.shape == "one" and self.is_written(field, value):
                self.builder.Prepend(FLAGS[field.kind], value)
                self.builder.Slot(slot)
        return self.builder.EndObject()

    def is_written(self, field: Field, value: Any) -> bool:
        return value is not None if field.optional else self.write_defaults or has_bits(value)

    def struct(self, value: Any) -> None:
        places, size, alignment = struct_layout(type(value))
        self.builder.Prep(alignment, size)
        end = size
        for field, place in reversed(places):
            flags = FLAGS[field.kind]
            self.builder.Pad(end - place - flags.bytewidth)
            self.builder.Prepend(flags, getattr(value, field.name))
            end = place

    def part(self, field: Field, value: Any) -> int:
        if field.shape == "list" and field.kind == "struct":
            _, size, alignment = struct_layout(type(value[0])) if value else (0, 4, 4)
            self.builder.StartVector(size, len(value), alignment)
            for each in reversed(value):
                self.struct(each)
            return self.builder.EndVector()
        if field.shape == "list":
            if field.kind in FLAGS:
                return self.scalars(FLAGS[field.kind], value)
            if field.kind == "bytes":
                return self.offsets([self.table([(WRAPPED, element)]) for element in value])
            return self.offsets([self.one(field, element) for element in value])
        if field.shape == "map":
            of = Field("value", field.kind, "one", field.message)
            return self.offsets([self.table([(KEY, key), (of, value[key])]) for key in sorted(value)])
        return self.one(field, value)

    def one(self, field: Field, value: Any) -> int:
        if field.kind == "message":
            return self.message(value)
        return self.builder.CreateString(value) if field.kind == "str" else self.builder.CreateByteVector(value)

    def scalars(self, flags: Any, values: Sequence[Any]) -> int:
        self.builder.StartVector(flags.bytewidth, len(values), flags.bytewidth)
        for value in reversed(values):
            self.builder.Prepend(flags, value)
        return self.builder.EndVector()

    def offsets(self, parts: Sequence[int]) -> int:
        self.builder.StartVector(4, len(parts), 4)
        for part in reversed(parts):
            self.builder.PrependUOffsetTRelative(part)
        return self.builder.EndVector()


KEY = Field("key", "str", "one")
WRAPPED = Field("value", "bytes", "one")


def has_bits(value: Any) -> bool:
    """Return whether a scalar differs from the default; -0.0 does."""
    return bool(value) or repr(value) == "-0.0"


def struct_layout(cls: type) -> tuple[list[tuple[Field, int]], int, int]:
    """Return each field of a struct with its place, the struct's size and its alignment, as a C compiler has them."""
    places: list[tuple[Field, int]] = []
    end, alignment = 0, 1
    for field in fields_of(cls):
        width = FLAGS[field.kind].bytewidth
        end = (end + width - 1) // width * width
        places.append((field, end))
        end += width
        alignment = max(alignment, width)
    return places, (end + alignment - 1) // alignment * alignment, alignment


class NotCompiledError(Exception):
    """The compiled codec left a value or buffer to the generic one."""


def refuse(*args: Any) -> Any:
    raise NotCompiledError


@cache
def compiled(cls: type[Any]) -> Codec:
    """Return the codec of a class that raises NotCompiledError in place of the generic one."""
    return codec_of(cls, refuse, refuse)


#: What writes a message: the compiled code, and the official runtime in its own order and layouts.
WRITERS: dict[str, Callable[[Any], bytes]] = {
    "compiled": lambda message: compiled(type(message)).encode(message),
    "official": lambda message: Official().finish(message),
    "official, with defaults": lambda message: Official(write_defaults=True).finish(message),
    "official, from the last field": lambda message: Official(reverse=True).finish(message),
}
READERS: tuple[Callable[[Any, bytes], Any], ...] = (decode, decode_generic)


@given(message=any_message() | messages(Everything) | messages(Envelope))
def test_each_reader_finds_what_each_writer_wrote(message: Any) -> None:
    for name, write in WRITERS.items():
        data = write(message)
        for read in READERS:
            assert repr(read(type(message), data)) == repr(message), name
    data = encode(message)
    assert data == WRITERS["compiled"](message)
    assert repr(compiled(type(message)).decode(data)) == repr(message), "its own layout needs no generic reader"


def test_an_empty_message_has_the_bytes_that_the_official_runtime_writes() -> None:
    for cls in message_classes():
        if not fields_of(cls):
            assert encode(cls()) == Official().finish(cls()), cls.__name__


# --- damaged ---


def decodes_or_refuses(cls: type, data: bytes) -> None:
    """Decode, and let nothing through but a message of that class or the one error; each reader says the same."""
    try:
        found = decode(cls, data)
    except RemoteProtocolError:
        found = None
    else:
        assert type(found) is cls
        encode(found)
    with suppress(NotCompiledError):
        assert repr(compiled(cls).decode(data)) == repr(found) == repr(decode_generic(cls, data))


#: Offsets, lengths and counts that would lead astray.
WORDS = st.sampled_from([0, 1, 4, 8, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]) | st.integers(0, 1000)


@given(
    message=any_message() | messages(Everything) | messages(Envelope),
    words=st.lists(st.tuples(st.integers(0, 10_000), WORDS), max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=2),
    cut=st.just(0) | st.integers(0, 1000),
)
def test_a_damaged_message_is_refused_or_decoded_by_all_alike(
    message: Any, words: list[tuple[int, int]], changes: list[tuple[int, int]], cut: int
) -> None:
    buffer = bytearray(encode(message))
    for where, word in words:
        struct.pack_into("<I", buffer, where % (len(buffer) // 4) * 4, word)
    for where, byte in changes:
        buffer[where % len(buffer)] = byte
    decodes_or_refuses(type(message), bytes(buffer[: len(buffer) - cut % len(buffer)]))


@settings(max_examples=10)  # every word of each is changed
@given(message=messages(Everything))
def test_a_message_with_any_offset_changed_is_refused_or_decoded_by_all_alike(message: Everything) -> None:
    message.name, message.raw, message.ratios = "name", b"raw", [1.0]
    data = bytearray(encode(message))
    for at in range(data[0], len(data) - 4, 4):
        for change in (-4, 4, -8, 8):
            changed = bytearray(data)
            word = struct.unpack_from("<I", data, at)[0] + change & 0xFFFF_FFFF
            struct.pack_into("<I", changed, at, word)
            decodes_or_refuses(Everything, bytes(changed))


@given(cls=st.sampled_from([*message_classes(), Everything]), data=st.binary(max_size=200))
def test_random_bytes_are_refused_or_decoded_by_all_alike(cls: type, data: bytes) -> None:
    decodes_or_refuses(cls, data)


@given(message=any_message(), other=st.sampled_from(message_classes()))
def test_a_message_taken_for_another_is_refused_or_decoded_by_all_alike(message: Any, other: type) -> None:
    decodes_or_refuses(other, encode(message))


def test_the_page_on_the_codec_shows_what_is_compiled() -> None:
    page = Path(__file__).parents[3] / "lucky_transport" / "codec" / "README.md"
    shown = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown == [source_of(SetSeedsResponse).rstrip() + "\n"]


def test_a_map_with_a_key_twice_is_refused() -> None:
    data = encode(Everything(ratio_of={"aa": 1.0, "ab": 2.0})).replace(b"ab\0", b"aa\0")
    with pytest.raises(RemoteProtocolError, match=r"ratio_of in .* has 2 entries but only 1 different keys"):
        decode(Everything, data)


@dataclass(slots=True)
class Nested:
    """A list of tables inside a list of tables."""

    groups: list[Everything] = dataclasses.field(default_factory=list[Everything])
    leaves: list[Leaf] = dataclasses.field(default_factory=list[Leaf])


@given(message=messages(Nested), prefix_bytes=st.sampled_from([0, 4]))
def test_tables_in_lists_are_aligned_and_share_their_vtables(message: Nested, prefix_bytes: int) -> None:
    marker = 0x1122_3344_5566_7788
    message.leaves += [Leaf(marker, "a"), Leaf(marker, "bcdef"), Leaf(marker, "g")]
    data = bytes(prefix_bytes) + encode(message, prefix_bytes)
    wide, at = struct.pack("<Q", marker), -1
    for _ in range(3):
        at = data.index(wide, at + 1)
        assert at % 8 == 0
    assert repr(decode_generic(Nested, data[prefix_bytes:])) == repr(message)
    one, many = (len(encode(Nested(leaves=[Leaf(1, "abc")] * count))) for count in (1, 1001))
    assert many - one == 1000 * (4 + 16 + 8)  # offset in the vector, table, text


@pytest.mark.parametrize("function", ["encode", "decode"])
def test_compiled_code_is_there_for_debuggers_and_tracebacks(function: str) -> None:
    compiled = getattr(codec_of(SetSeedsResponse), function)
    source = inspect.getsource(compiled)
    assert source.startswith(f"def {function}(")
    assert source in source_of(SetSeedsResponse) + "\n"


@dataclass(slots=True)
class Numbers:
    """Two scalars of different width."""

    narrow: U32 = 0
    wide: U64 = 0


@dataclass(slots=True)
class Tree:
    """A message that contains any number of itself."""

    children: list[Tree] = dataclasses.field(default_factory=list["Tree"])


def table(vtable: list[int], *body: int, root: int | None = None) -> bytes:
    """Return a buffer: root offset, a vtable of these u16, a table of its way back to the vtable and these u32."""
    head = struct.pack(f"<{len(vtable)}H", *vtable)
    head += bytes(-len(head) % 4)
    start = 4 + len(head)
    return struct.pack("<I", start if root is None else root) + head + struct.pack(f"<i{len(body)}I", len(head), *body)


@pytest.mark.parametrize(
    ("cls", "data", "text"),
    [
        (TaskContract, b"", r"malformed TaskContract in 0 bytes: 0 bytes are no buffer; the smallest has 8"),
        (Numbers, table([4, 4], root=0), r"malformed Numbers in 12 bytes: offset 0 at byte 0 points to byte 0"),
        (Numbers, table([4, 4], root=100), r"offset 100 at byte 0 points to byte 100, expected .* below 12"),
        (Numbers, table([4, 4], 0, 0, root=9), r"points to byte 9, expected a multiple of 4 below 20"),
        (Numbers, struct.pack("<Ii", 4, 8), r"the table at byte 4 has its vtable at byte -4, the buffer has 8 bytes"),
        (Numbers, struct.pack("<Ii", 4, -4), r"the table at byte 4 has its vtable at byte 8, the buffer has 8 bytes"),
        (Numbers, struct.pack("<Ii", 4, 1), r"the table at byte 4 has its vtable at byte 3, the buffer has 8 bytes"),
        (Numbers, table([2, 4]), r"the vtable at byte 4 claims 2 bytes, 8 are left"),
        (Numbers, table([60, 4]), r"the vtable at byte 4 claims 60 bytes, 8 are left"),
        (Numbers, table([5, 4]), r"the vtable at byte 4 claims 5 bytes, 8 are left"),
        (Numbers, table([4, 0]), r"a table of 0 bytes; the smallest has 4"),
        (Numbers, table([4, 8]), r"the table at byte 8 claims 8 bytes, 4 are left"),
        (Numbers, table([6, 6, 4], 7), r"Numbers\.narrow in 20 bytes: 4 bytes at byte 4 of a table of 6"),
        (Numbers, table([6, 8, 2], 7), r"Numbers\.narrow in 20 bytes: 4 bytes at byte 2 of a table of 8"),
        (Numbers, table([6, 12, 6], 7, 8), r"Numbers\.narrow in 24 bytes: 4 bytes at byte 6 of a table of 12"),
        (Numbers, table([8, 16, 4, 6], 1, 2, 3), r"Numbers\.wide in 28 bytes: 8 bytes at byte 6 of a table of 16"),
        (Numbers, table([8, 16, 4, 4], 1, 2, 3), r"Numbers\.wide in 28 bytes: 8 bytes at byte 4 of a table of 16"),
        (SetSeedsRequest, table([6, 8, 4], 4), r"SetSeedsRequest\.seeds .* offset 4 at byte 16 points to byte 20"),
        (SetSeedsRequest, table([6, 8, 4], 4, 1), r"the vector at byte 20 claims 1 elements of 8 bytes, 0 bytes are"),
        (SetSeedsRequest, table([6, 8, 4], 4, 2**32 - 1), r"claims 4294967295 elements of 8 bytes, 0 bytes are left"),
        (SetSeedsRequest, table([8, 8, 0, 4], 4, 5, 0), r"SetSeedsRequest\.mask .* claims 5 elements of 1 bytes, 4"),
        (AgentSchema, table([6, 8, 4], 4, 4, 0x20202020), r"AgentSchema\.agent_name .* the string of 4 bytes .* zero"),
        (AgentSchema, table([6, 8, 4], 4, 3, 0x41202020), r"the string of 3 bytes at byte 20 has no terminating zero"),
        (AgentSchema, table([6, 8, 4], 4, 3, 0x00E42020), r"not UTF-8: unexpected end of data at byte 26"),
        (AgentSchema, table([8, 8, 0, 4], 4, 1, 0), r"AgentSchema\.observation_names\[0\] .* offset 0 at byte 24"),
    ],
)
def test_the_error_names_the_place_and_the_values(cls: type, data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode(cls, data)


def tree(levels: int, fan_out: int) -> bytes:
    """Return a Tree as deep as `levels`, in which every node's children are one and the same table."""
    builder = flatbuffers.Builder(0)
    builder.StartObject(1)
    node = builder.EndObject()
    for _ in range(levels - 1):
        builder.StartVector(4, fan_out, 4)
        for _ in range(fan_out):
            builder.PrependUOffsetTRelative(node)
        children = builder.EndVector()
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, children, 0)
        node = builder.EndObject()
    builder.Finish(node)
    return bytes(builder.Output())


def test_a_small_buffer_does_not_unfold_into_a_large_message() -> None:
    assert decode(Tree, tree(2, 100)) == Tree([Tree()] * 100)
    data = tree(8, 100)
    assert len(data) < 4096
    with pytest.raises(RemoteProtocolError, match=r"the content unfolds to more than 8 times the buffer's \d+ bytes"):
        decode(Tree, data)


def shared_names(count: int, name: str) -> bytes:
    """Return an AgentSchema whose action names are all one and the same string."""
    builder = flatbuffers.Builder(0)
    shared = builder.CreateString(name)
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(shared)
    names = builder.EndVector()
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(2, names, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def test_a_string_that_many_elements_share_is_read_unless_it_unfolds_into_much() -> None:
    name = "a rather long joint name"
    data = shared_names(1000, name)
    assert decode(AgentSchema, data).action_names == decode_generic(AgentSchema, data).action_names == [name] * 1000
    with pytest.raises(RemoteProtocolError, match=r"action_names\[\d+\] .* the content unfolds to more than"):
        decode(AgentSchema, shared_names(1000, "x" * 10_000))


def test_tables_nested_deeper_than_64_are_refused() -> None:
    decode(Tree, tree(64, 1))
    with pytest.raises(RemoteProtocolError, match=r"Tree(\.children\[0\])+ in \d+ bytes: tables nested deeper than 64"):
        decode(Tree, tree(65, 1))


def test_a_map_whose_entries_are_not_sorted_is_read_all_the_same() -> None:
    data = encode(AuxiliaryDataRequest(params={"gain": "1", "bias": "2"}))
    swapped = data.replace(b"gain", b"adds")
    assert decode(AuxiliaryDataRequest, swapped).params == {"adds": "1", "bias": "2"}
