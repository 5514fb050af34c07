"""What a hostile peer sends is refused with its place and its values, before it costs much."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import flatbuffers
import pytest

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.codec.reader import decode_generic
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import AgentSchema, AuxiliaryDataRequest, SetSeedsRequest, TaskContract
from lucky_transport.messages.scalars import U32, U64


@dataclass(slots=True)
class Numbers:
    """Two scalars of different width."""

    narrow: U32 = 0
    wide: U64 = 0


@dataclass(slots=True)
class Tree:
    """A message that contains any number of itself."""

    children: list[Tree] = field(default_factory=list["Tree"])


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
