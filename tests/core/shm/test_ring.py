"""The ring is a queue: every record comes out once, whole and in order, whatever else is written into its memory."""

import os
import select
from collections import deque
from collections.abc import Callable
from socket import socketpair
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lucky_transport import native
from lucky_transport.errors import RemoteProtocolError, SegmentError, SpecError
from lucky_transport.shm.ring import HEAD_BYTES, SKIP, largest_record, ring_bytes, stride_of
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.support.ring_rules import RulesReader, RulesWriter

OFFSET = 64
SIZE = 256
WRITE_POSITION, READ_POSITION, WRITER_PARK = OFFSET, OFFSET + 128, OFFSET + 192
DATA = OFFSET + HEAD_BYTES
GUARD = 0xA5


def a_ring(position: int = 0) -> bytearray:
    """Return memory with an empty ring in the middle of guard bytes, both of its positions there."""
    memory = bytearray([GUARD]) * (OFFSET + ring_bytes(SIZE) + 64)
    native.RingWriter(memory, OFFSET, SIZE, empty=True)
    for place in (WRITE_POSITION, READ_POSITION):
        store(memory, place, position)
    return memory


def store(memory: bytearray, offset: int, word: int) -> None:
    memory[offset : offset + 4] = word.to_bytes(4, "little")


def word(memory: bytearray, offset: int) -> int:
    return int.from_bytes(memory[offset : offset + 4], "little")


def writer_of(memory: bytearray, size: int = SIZE, offset: int = OFFSET) -> native.RingWriter:
    return open_writer(memory, offset, size)


def reader_of(memory: bytearray, size: int = SIZE, offset: int = OFFSET) -> native.RingReader:
    return open_reader(memory, offset, size)


# --- waking a reader that waits at a socket ---


def test_a_push_after_a_stop_notifies_no_other_file() -> None:
    memory = a_ring()
    here, there = socketpair()
    with here, there:
        writer = open_writer(memory, OFFSET, SIZE, park=WRITER_PARK, socket=here.fileno())
        writer.stop()
        memory[WRITER_PARK] = 1
        assert writer.try_push(b"late")
        assert not select.select([there], [], [], 0)[0]


# --- a queue ---


def view_of(record: bytes) -> memoryview:
    return memoryview(b"x" + record)[1:]


class RingIsAQueue(RuleBasedStateMachine):
    """The ring against a deque, from any position, with either end replaced at any time."""

    @initialize(position=st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32))  # many close to the wrap
    def start(self, position: int) -> None:
        self.memory = a_ring(position)
        self.writer, self.reader = writer_of(self.memory), reader_of(self.memory)
        self.model: deque[bytes] = deque()

    @rule(
        record=st.binary(min_size=1, max_size=largest_record(SIZE)), form=st.sampled_from([bytes, bytearray, view_of])
    )
    def push(self, record: bytes, form: Callable[[bytes], Any]) -> None:
        index = word(self.memory, WRITE_POSITION) % SIZE
        stride = stride_of(len(record))
        skipped = SIZE - index if index + stride > SIZE else 0
        fits = skipped + stride <= SIZE - self.reader.pending
        assert self.writer.try_push(form(record)) is fits
        if fits:
            self.model.append(record)

    @rule()
    def pop(self) -> None:
        assert self.reader.try_pop() == (self.model.popleft() if self.model else None)

    @rule()
    def replace_the_writer(self) -> None:
        self.writer = writer_of(self.memory)

    @rule()
    def replace_the_reader(self) -> None:
        self.reader = reader_of(self.memory)

    @precondition(lambda self: not self.model)
    @rule()
    def anything_fits_into_an_empty_ring(self) -> None:
        record = os.urandom(largest_record(SIZE))
        assert self.writer.try_push(record)
        assert self.reader.try_pop() == record

    @invariant()
    def what_is_not_free_is_pending(self) -> None:
        assert self.writer.free + self.reader.pending == SIZE
        assert bool(self.reader.pending) is bool(self.model)

    @invariant()
    def nothing_around_the_ring_is_touched(self) -> None:
        memory = self.memory
        assert set(memory[:OFFSET]) == set(memory[OFFSET + ring_bytes(SIZE) :]) == {GUARD}
        assert set(memory[OFFSET + 4 : READ_POSITION]) == set(memory[READ_POSITION + 4 : WRITER_PARK]) == {GUARD}
        assert bytes(memory[WRITER_PARK : WRITER_PARK + 4]) == bytes(4)
        assert set(memory[WRITER_PARK + 4 : DATA]) == {GUARD}


TestRingIsAQueue = RingIsAQueue.TestCase
TestRingIsAQueue.settings = settings(stateful_step_count=40)


@pytest.mark.parametrize("length", [0, largest_record(SIZE) + 1, SIZE, 4 * SIZE])
def test_a_record_that_can_never_fit_is_refused_with_the_sizes(length: int) -> None:
    memory = a_ring()
    writer, reader = writer_of(memory), reader_of(memory)
    with pytest.raises(SpecError, match=rf"a record of {length} bytes, expected 1 to 60 in a ring of 256; "):
        writer.try_push(bytes(length))
    assert writer.free == SIZE
    assert reader.try_pop() is None


@pytest.mark.parametrize(
    ("size", "offset", "words"),
    [
        *((size, OFFSET, f"a ring of {size} data bytes, expected a power of two") for size in (0, 32, 255, 2**32, -64)),
        *((SIZE, at, f"a ring of 512 bytes at byte {at} does not fit into 640 bytes") for at in (-8, 4, 136, 2**40)),
    ],
)
def test_a_ring_of_an_impossible_size_or_place_is_refused(size: int, offset: int, words: str) -> None:
    for make in (writer_of, reader_of):
        with pytest.raises(SegmentError, match=words):
            make(a_ring(), size=size, offset=offset)


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


@example(read=240, ahead=16, data=[], fill=SKIP)  # a skip may be published ahead of its record
@example(read=240, ahead=64, data=[], fill=SKIP)  # and leads to no other skip
@example(read=0, ahead=64, data=[0], fill=0)  # what no writer may produce: a length of nothing, ...
@example(read=8, ahead=128, data=[0, 0, 61], fill=0)
@example(read=8, ahead=128, data=[0, 0, SKIP - 1], fill=0)
@example(read=16, ahead=8, data=[], fill=5)
@example(read=240, ahead=64, data=[], fill=13)
@example(read=0, ahead=256, data=[SKIP], fill=0)
@example(read=192, ahead=128, data=[], fill=SKIP)
@example(read=208, ahead=40, data=[], fill=SKIP)  # ... and a skip of more than is published
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
                before = word(memory, WRITE_POSITION)
                said.append(writer.try_push(record))
                assert said[-1] is (word(memory, WRITE_POSITION) != before)
        except RemoteProtocolError as error:
            said.append(str(error))
        found.append(said)
        images.append(bytes(memory))
        assert_nothing_around_the_ring_was_touched(memory)
    assert found[0] == found[1]
    assert images[0] == images[1]


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
