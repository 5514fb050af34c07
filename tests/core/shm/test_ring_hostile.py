"""Neither end of a ring is led astray by what the other one writes into their memory."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import native
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.ring import HEAD_BYTES, SKIP, largest_record, ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.support.ring_rules import RulesReader, RulesWriter

OFFSET = 64
SIZE = 256
WRITE_POSITION, READ_POSITION, WRITER_PARK = OFFSET, OFFSET + 128, OFFSET + 192
DATA = OFFSET + HEAD_BYTES
GUARD = 0xA5


def store(memory: bytearray, offset: int, word: int) -> None:
    memory[offset : offset + 4] = word.to_bytes(4, "little")


def load(memory: bytearray, offset: int) -> int:
    return int.from_bytes(memory[offset : offset + 4], "little")


def a_ring(position: int = 0) -> bytearray:
    """Return memory with an empty ring between guard bytes, both of its positions there."""
    memory = bytearray([GUARD]) * (OFFSET + ring_bytes(SIZE) + 64)
    memory[OFFSET : OFFSET + ring_bytes(SIZE)] = bytes(ring_bytes(SIZE))
    store(memory, WRITE_POSITION, position)
    store(memory, READ_POSITION, position)
    return memory


def put(memory: bytearray, index: int, content: bytes) -> None:
    """Write into the ring's data as a hostile peer can."""
    memory[DATA + index : DATA + index + len(content)] = content


def writer_of(memory: bytearray) -> native.RingWriter:
    return open_writer(memory, OFFSET, SIZE)


def reader_of(memory: bytearray) -> native.RingReader:
    return open_reader(memory, OFFSET, SIZE)


#: Words that a hostile peer would try as positions and lengths.
WORDS = st.sampled_from([0, 1, 4, 8, 56, 60, 64, 252, 256, 264, SKIP, SKIP - 7, 2**31]) | st.integers(0, 2**32 - 1)
#: Positions that are at least aligned, many of them close to where they wrap.
POSITIONS = st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32)
DISTANCES = st.integers(0, SIZE // 8).map(lambda eights: eights * 8)


def assert_nothing_around_the_ring_was_touched(memory: bytearray) -> None:
    assert set(memory[:OFFSET]) == set(memory[OFFSET + ring_bytes(SIZE) :]) == {GUARD}


def drained(reader: native.RingReader | RulesReader) -> list[bytes | str | None]:
    """Pop until nothing more comes; what came, and the text of the refusal that ended it."""
    found: list[bytes | str | None] = []
    try:
        for _ in range(SIZE // 8 + 1):  # a record takes 8 bytes at least, so this many empty any ring
            found.append(reader.try_pop())
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


@given(read=POSITIONS | WORDS, ahead=DISTANCES | WORDS, data=st.lists(WORDS, max_size=SIZE // 4), fill=WORDS)
def test_a_reader_finds_in_any_memory_what_the_rules_say(read: int, ahead: int, data: list[int], fill: int) -> None:
    memory = a_ring(read)
    for index in range(SIZE // 4):
        store(memory, DATA + 4 * index, data[index] if index < len(data) else fill)
    found: list[list[bytes | str | None]] = []
    images: list[bytes] = []
    for kind in (reader_of, lambda memory: RulesReader(memory, OFFSET, SIZE)):
        image = bytearray(memory)
        try:
            reader = kind(image)
        except RemoteProtocolError as error:
            found.append([str(error)])
        else:
            store(image, WRITE_POSITION, (read + ahead) % 2**32)
            found.append(drained(reader))
        images.append(bytes(image))
        assert_nothing_around_the_ring_was_touched(image)
    assert found[0] == found[1]
    assert images[0] == images[1]
    assert all(0 < len(record) <= largest_record(SIZE) for record in found[0] if isinstance(record, bytes))


@given(
    start=POSITIONS,
    moves=st.lists(DISTANCES | WORDS | st.none(), max_size=8),
    record=st.binary(min_size=1, max_size=largest_record(SIZE)),
)
def test_a_writer_writes_for_any_reader_what_the_rules_say(start: int, moves: list[int | None], record: bytes) -> None:
    images: list[bytes] = []
    found: list[list[bool | str]] = []
    for kind in (writer_of, lambda memory: RulesWriter(memory, OFFSET, SIZE)):
        memory, said = a_ring(start), list[bool | str]()
        writer = kind(memory)
        try:
            for move in moves:
                if move is not None:
                    store(memory, READ_POSITION, (start + move) % 2**32)
                before = load(memory, WRITE_POSITION)
                said.append(writer.try_push(record))
                assert said[-1] is (load(memory, WRITE_POSITION) != before)
        except RemoteProtocolError as error:
            said.append(str(error))
        found.append(said)
        images.append(bytes(memory))
        assert_nothing_around_the_ring_was_touched(memory)
    assert found[0] == found[1]
    assert images[0] == images[1]


@given(start=POSITIONS, read=DISTANCES | WORDS)
def test_what_is_free_is_never_more_than_the_ring(start: int, read: int) -> None:
    memory = a_ring(start)
    writer = writer_of(memory)
    store(memory, READ_POSITION, (start + read) % 2**32)
    with contextlib.suppress(RemoteProtocolError):
        assert 0 <= writer.free <= SIZE


@pytest.mark.parametrize(("write", "read"), [(0, 8), (SIZE + 8, 0), (4, 0), (12, 4), (0, 2**31), (7, 2**32 - 1)])
def test_impossible_positions_are_refused_by_both_ends(write: int, read: int) -> None:
    memory = a_ring()
    writer, reader = writer_of(memory), reader_of(memory)
    store(memory, WRITE_POSITION, write)
    store(memory, READ_POSITION, read)
    for end in (writer_of, reader_of):
        with pytest.raises(RemoteProtocolError, match=rf"ring positions {write} \(write\) and {read} \(read\) are"):
            end(memory)
    if read:
        with pytest.raises(RemoteProtocolError, match=rf"0 \(write\) and {read} \(read\)"):
            writer.try_push(b"x")
    if write:
        with pytest.raises(RemoteProtocolError, match=rf"{write} \(write\) and 0 \(read\)"):
            reader.try_pop()


def test_an_end_keeps_its_own_position_whatever_the_memory_says() -> None:
    memory = a_ring()
    writer, reader = writer_of(memory), reader_of(memory)
    assert writer.try_push(b"first")
    store(memory, READ_POSITION, 16)  # not ours to store: the reader's own position counts
    assert reader.try_pop() == b"first"
    store(memory, WRITE_POSITION, 0)
    assert writer.try_push(b"second")
    assert reader.try_pop() == b"second"


@pytest.mark.parametrize(
    ("index", "length", "published", "text"),
    [
        (0, 0, 64, r"at byte 0 claims 0 bytes, expected 1 to 60 in a ring of 256"),
        (8, 61, 128, r"at byte 8 claims 61 bytes, expected 1 to 60 in a ring of 256"),
        (8, SKIP - 1, 128, r"at byte 8 claims 4294967294 bytes, expected 1 to 60"),
        (16, 5, 8, r"at byte 16 claims 5 bytes, but only 8 bytes are published"),
        (240, 13, 64, r"at byte 240 claims 13 bytes, but the ring ends at 256"),
        (0, SKIP, 256, r"at byte 0 skips 256 bytes, expected less than 64 and at most the 256 published"),
        (192, SKIP, 128, r"at byte 192 skips 64 bytes, expected less than 64"),
        (208, SKIP, 40, r"at byte 208 skips 48 bytes, expected less than 64 and at most the 40 published"),
    ],
)
def test_a_record_no_writer_may_produce_is_refused_and_left(index: int, length: int, published: int, text: str) -> None:
    memory = a_ring(index)
    reader = reader_of(memory)
    put(memory, index, length.to_bytes(4, "little"))
    store(memory, WRITE_POSITION, index + published)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=text):
            reader.try_pop()
    assert load(memory, READ_POSITION) == index


def test_a_skip_may_be_published_ahead_of_its_record() -> None:
    memory = a_ring(240)
    reader = reader_of(memory)
    put(memory, 240, SKIP.to_bytes(4, "little"))
    store(memory, WRITE_POSITION, 256)
    assert reader.try_pop() is None
    assert writer_of(memory).try_push(b"at the beginning")
    assert reader.try_pop() == b"at the beginning"


def test_a_skip_that_leads_to_another_skip_is_refused() -> None:
    memory = a_ring(240)
    reader = reader_of(memory)
    for index in (240, 0):
        put(memory, index, SKIP.to_bytes(4, "little"))
    store(memory, WRITE_POSITION, 240 + 64)
    with pytest.raises(RemoteProtocolError, match=r"at byte 0 claims 4294967295 bytes, expected 1 to 60"):
        reader.try_pop()


# --- a ring that is made empty ---


def test_an_end_that_makes_the_ring_empty_believes_nothing_that_stands_there() -> None:
    """A peer that left may write positions at any moment, also while the ring is made empty for the next one."""
    memory = bytearray(b"\xff" * ring_bytes(SIZE))
    writer = open_writer(memory, 0, SIZE, empty=True)
    reader = open_reader(memory, 0, SIZE, empty=True)
    assert memory[:4] == memory[128:132] == memory[192:196] == bytes(4)
    memory[:4] = b"\xfc\xff\xff\x7f"
    assert open_writer(memory, 0, SIZE, empty=True).free == SIZE
    assert writer.try_push(b"a record")
    assert reader.try_pop() == b"a record"
