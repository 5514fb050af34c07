"""Neither end of a ring is led astray by what the other one writes into their memory."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.atomics import native_error
from lucky_transport.shm.fallback_ring import RingReader, RingWriter
from lucky_transport.shm.ring import HEAD_BYTES, SKIP, largest_record, ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.support.segment_memory import PlainWords, WatchedWords

W = TypeVar("W", bound=PlainWords)

OFFSET = 64
SIZE = 256
WRITE_POSITION, READ_POSITION, WRITER_PARK = OFFSET, OFFSET + 128, OFFSET + 192
DATA = OFFSET + HEAD_BYTES


def start_at(words: PlainWords, position: int) -> None:
    """Make the ring empty with both positions there."""
    words.store32(WRITE_POSITION, position)
    words.store32(READ_POSITION, position)


def put(words: PlainWords, index: int, content: bytes) -> None:
    """Write into the ring's data as a hostile peer can."""
    words.bytes[DATA + index : DATA + index + len(content)] = content


def a_ring(kind: type[W] = PlainWords) -> W:
    """Return words of that kind with an empty ring between other bytes."""
    words = kind(OFFSET + ring_bytes(SIZE) + 64)
    RingWriter(words, OFFSET, SIZE, empty=True)
    return words


def writer_of(words: PlainWords, native: bool) -> Any:
    """Return the writing end of that kind; the one in Python works on any machine."""
    return open_writer(words.bytes, OFFSET, SIZE) if native else RingWriter(words.bytes, OFFSET, SIZE)


def reader_of(words: PlainWords, native: bool) -> Any:
    """Return the reading end of that kind."""
    return open_reader(words.bytes, OFFSET, SIZE) if native else RingReader(words.bytes, OFFSET, SIZE)


KINDS = [False, *([] if native_error() else [True])]
NAMES = {False: "fallback", True: "native"}
every_kind = pytest.mark.parametrize("native", KINDS, ids=NAMES.__getitem__)


#: Words that a hostile peer would try as positions and lengths.
WORDS = st.sampled_from([0, 1, 4, 8, 56, 60, 64, 252, 256, 264, SKIP, SKIP - 7, 2**31]) | st.integers(0, 2**32 - 1)
#: Positions that are at least aligned, many of them close to where they wrap.
POSITIONS = st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32)
DISTANCES = st.integers(0, SIZE // 8).map(lambda eights: eights * 8)


def assert_only_the_ring_was_touched(words: WatchedWords) -> None:
    positions = (WRITE_POSITION, READ_POSITION, WRITER_PARK)
    for what, start, stop in words.log:
        assert start in positions if what in ("load", "store") else DATA <= start <= stop <= DATA + SIZE


@given(read=POSITIONS | WORDS, ahead=DISTANCES | WORDS, data=st.lists(WORDS, max_size=SIZE // 4), fill=WORDS)
def test_a_reader_survives_any_memory(read: int, ahead: int, data: list[int], fill: int) -> None:
    words = a_ring(WatchedWords)
    for index in range(SIZE // 4):
        put(words, 4 * index, (data[index] if index < len(data) else fill).to_bytes(4, "little"))
    start_at(words, read)
    try:
        reader = RingReader(words, OFFSET, SIZE)
        words.store32(WRITE_POSITION, (read + ahead) % 2**32)
        for _ in range(SIZE // 8):  # a record takes 8 bytes at least, so this many empty any ring
            record = reader.try_pop()
            assert record is None or 0 < len(record) <= largest_record(SIZE)
        assert reader.pending == 0
    except RemoteProtocolError:
        pass
    assert_only_the_ring_was_touched(words)


def outcome(reader: Any) -> list[bytes | str | None]:
    """Pop until nothing more comes; what came, and the text of the refusal that ended it."""
    found: list[bytes | str | None] = []
    try:
        for _ in range(SIZE // 8 + 1):
            found.append(reader.try_pop())
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


@pytest.mark.skipif(bool(native_error()), reason=native_error() or "native")
@given(read=POSITIONS, ahead=DISTANCES | WORDS, data=st.lists(WORDS, max_size=SIZE // 4), fill=WORDS)
def test_both_implementations_find_the_same_in_any_memory(read: int, ahead: int, data: list[int], fill: int) -> None:
    words = a_ring()
    for index in range(SIZE // 4):
        put(words, 4 * index, (data[index] if index < len(data) else fill).to_bytes(4, "little"))
    images: list[bytes] = []
    found: list[list[bytes | str | None]] = []
    image = bytes(words.bytes)
    for native in (True, False):
        words.bytes[:] = image
        start_at(words, read)
        reader = reader_of(words, native)
        words.store32(WRITE_POSITION, (read + ahead) % 2**32)
        found.append(outcome(reader))
        images.append(bytes(words.bytes))
    assert found[0] == found[1]
    assert images[0] == images[1]


@given(
    start=POSITIONS,
    moves=st.lists(DISTANCES | WORDS | st.none(), max_size=8),
    record=st.binary(min_size=1, max_size=largest_record(SIZE)),
)
def test_a_writer_survives_any_reader(start: int, moves: list[int | None], record: bytes) -> None:
    words = a_ring(WatchedWords)
    start_at(words, start)
    writer = RingWriter(words, OFFSET, SIZE)
    try:
        for move in moves:
            if move is not None:
                words.store32(READ_POSITION, (start + move) % 2**32)
            before = words.load32(WRITE_POSITION)
            pushed = writer.try_push(record)
            assert pushed is (words.load32(WRITE_POSITION) != before)
            assert 0 <= writer.free <= SIZE
    except RemoteProtocolError:
        pass
    assert_only_the_ring_was_touched(words)


@pytest.mark.parametrize(("write", "read"), [(0, 8), (SIZE + 8, 0), (4, 0), (12, 4), (0, 2**31), (7, 2**32 - 1)])
@every_kind
def test_impossible_positions_are_refused_by_both_ends(write: int, read: int, native: bool) -> None:
    words = a_ring()
    writer, reader = writer_of(words, native), reader_of(words, native)
    words.store32(WRITE_POSITION, write)
    words.store32(READ_POSITION, read)
    for end in (writer_of, reader_of):
        with pytest.raises(RemoteProtocolError, match=rf"ring positions {write} \(write\) and {read} \(read\) are"):
            end(words, native)
    if read:
        with pytest.raises(RemoteProtocolError, match=rf"0 \(write\) and {read} \(read\)"):
            writer.try_push(b"x")
    if write:
        with pytest.raises(RemoteProtocolError, match=rf"{write} \(write\) and 0 \(read\)"):
            reader.try_pop()


@every_kind
def test_an_end_keeps_its_own_position_whatever_the_memory_says(native: bool) -> None:
    words = a_ring()
    writer, reader = writer_of(words, native), reader_of(words, native)
    assert writer.try_push(b"first")
    words.store32(READ_POSITION, 16)  # not ours to store: the reader's own position counts
    assert reader.try_pop() == b"first"
    words.store32(WRITE_POSITION, 0)
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
@every_kind
def test_a_record_no_writer_may_produce_is_refused_and_left(
    index: int, length: int, published: int, text: str, native: bool
) -> None:
    words = a_ring()
    start_at(words, index)
    reader = reader_of(words, native)
    put(words, index, length.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, index + published)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=text):
            reader.try_pop()
    assert words.load32(READ_POSITION) == index


@every_kind
def test_a_skip_may_be_published_ahead_of_its_record(native: bool) -> None:
    words = a_ring()
    start_at(words, 240)
    reader = reader_of(words, native)
    put(words, 240, SKIP.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, 256)
    assert reader.try_pop() is None
    assert writer_of(words, native).try_push(b"at the beginning")
    assert reader.try_pop() == b"at the beginning"


@every_kind
def test_a_skip_that_leads_to_another_skip_is_refused(native: bool) -> None:
    words = a_ring()
    start_at(words, 240)
    reader = reader_of(words, native)
    for index in (240, 0):
        put(words, index, SKIP.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, 240 + 64)
    with pytest.raises(RemoteProtocolError, match=r"at byte 0 claims 4294967295 bytes, expected 1 to 60"):
        reader.try_pop()


# --- a ring that is made empty ---


@pytest.mark.parametrize("native", KINDS)
def test_an_end_that_makes_the_ring_empty_believes_nothing_that_stands_there(native: bool) -> None:
    """A peer that left may write positions at any moment, also while the ring is made empty for the next one."""
    memory = bytearray(b"\xff" * ring_bytes(SIZE))
    writer = open_writer(memory, 0, SIZE, native=native, empty=True)
    reader = open_reader(memory, 0, SIZE, native=native, empty=True)
    assert memory[:4] == memory[128:132] == memory[192:196] == bytes(4)
    memory[:4] = b"\xfc\xff\xff\x7f"
    assert open_writer(memory, 0, SIZE, native=native, empty=True).free == SIZE
    assert writer.try_push(b"a record")
    assert reader.try_pop() == b"a record"
