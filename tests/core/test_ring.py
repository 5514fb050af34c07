"""The ring is a queue of records, whole and in order, whatever the other side writes into its memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lucky_transport.errors import MissingExtra, RemoteProtocolError, SegmentError, SpecError
from lucky_transport.shm.atomics import implementation, native_error
from lucky_transport.shm.record import LENGTH_BYTES, SKIP, largest_record, stride_of
from lucky_transport.shm.ring import HEAD_BYTES, RingReader, RingWriter, reset_ring, ring_bytes

OFFSET = 64
SIZE = 256
GUARD = 0xA5
WRITE_POSITION, READ_POSITION = OFFSET, OFFSET + 128
DATA = OFFSET + HEAD_BYTES


class PlainWords:
    """Memory of this process, filled with GUARD, with a ring of SIZE in its middle."""

    memory: Any

    def __init__(self) -> None:
        self.bytes = memoryview(bytearray([GUARD]) * (OFFSET + ring_bytes(SIZE) + 64))
        self.memory = self.bytes
        reset_ring(self, OFFSET, SIZE)

    def load32(self, offset: int) -> int:
        return int.from_bytes(self.bytes[offset : offset + 4], "little")

    def store32(self, offset: int, value: int) -> None:
        self.bytes[offset : offset + 4] = value.to_bytes(4, "little")

    def start_at(self, position: int) -> None:
        """Make the ring empty with both positions there."""
        self.store32(WRITE_POSITION, position)
        self.store32(READ_POSITION, position)

    def data(self, index: int, content: bytes) -> None:
        """Write into the ring's data as a hostile peer can."""
        self.bytes[DATA + index : DATA + index + len(content)] = content


class WatchedMemory:
    """Records each access to a memory by slice, in a list shared with the words' stores and loads."""

    def __init__(self, memory: memoryview, log: list[tuple[str, int, int]]) -> None:
        self._memory = memory
        self._log = log

    def __len__(self) -> int:
        return len(self._memory)

    def __getitem__(self, part: slice) -> memoryview:
        self._log.append(("read", part.start, part.stop))
        return self._memory[part]

    def __setitem__(self, part: slice, content: bytes) -> None:
        self._log.append(("write", part.start, part.stop))
        self._memory[part] = content


class WatchedWords(PlainWords):
    """Plain words that keep a log of what was touched, in order: (what, from, to)."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int, int]] = []
        super().__init__()
        self.memory = WatchedMemory(self.bytes, self.log)

    def load32(self, offset: int) -> int:
        self.log.append(("load", offset, offset + 4))
        return super().load32(offset)

    def store32(self, offset: int, value: int) -> None:
        self.log.append(("store", offset, offset + 4))
        super().store32(offset, value)


def both_ends(words: PlainWords) -> tuple[RingWriter, RingReader]:
    return RingWriter(words, OFFSET, SIZE), RingReader(words, OFFSET, SIZE)


# --- a queue ---


class RingIsAQueue(RuleBasedStateMachine):
    """The ring against a deque, from any position, with either end replaced at any time."""

    @initialize(position=st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32))  # many close to the wrap
    def start(self, position: int) -> None:
        self.words = PlainWords()
        self.words.start_at(position)
        self.writer, self.reader = both_ends(self.words)
        self.model: deque[bytes] = deque()

    @rule(record=st.binary(min_size=1, max_size=largest_record(SIZE)))
    def push(self, record: bytes) -> None:
        index = self.words.load32(WRITE_POSITION) % SIZE
        stride = stride_of(len(record))
        skipped = SIZE - index if index + stride > SIZE else 0
        fits = skipped + stride <= SIZE - self.reader.pending
        assert self.writer.try_push(record) is fits
        if fits:
            self.model.append(record)

    @rule()
    def pop(self) -> None:
        assert self.reader.try_pop() == (self.model.popleft() if self.model else None)

    @rule()
    def replace_the_writer(self) -> None:
        self.writer = RingWriter(self.words, OFFSET, SIZE)

    @rule()
    def replace_the_reader(self) -> None:
        self.reader = RingReader(self.words, OFFSET, SIZE)

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
        memory = self.words.memory
        assert set(memory[:OFFSET]) == set(memory[OFFSET + ring_bytes(SIZE) :]) == {GUARD}
        assert set(memory[OFFSET + 4 : READ_POSITION]) == set(memory[READ_POSITION + 4 : DATA]) == {GUARD}


TestRingIsAQueue = RingIsAQueue.TestCase
TestRingIsAQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("position", [0, 2**32 - SIZE, 2**32 - 8])
def test_a_full_ring_takes_no_more_until_a_record_is_read(position: int) -> None:
    words = PlainWords()
    words.start_at(position)
    writer, reader = both_ends(words)
    records = [bytes([number]) * 4 for number in range(SIZE // 8)]
    assert [writer.try_push(record) for record in records] == [True] * len(records)
    assert writer.free == 0
    assert not writer.try_push(b"more")
    assert reader.try_pop() == records[0]
    assert writer.try_push(b"more")
    assert [reader.try_pop() for _ in records] == [*records[1:], b"more"]
    assert reader.try_pop() is None


def test_a_record_is_never_split_at_the_end() -> None:
    words = PlainWords()
    words.start_at(SIZE - 16)
    writer, reader = both_ends(words)
    assert writer.try_push(b"twelve bytes")
    words.start_at(SIZE - 16)
    writer, reader = both_ends(words)
    assert writer.try_push(b"thirteen byte")
    assert words.load32(DATA + SIZE - 16) == SKIP
    assert bytes(words.memory[DATA : DATA + 17]) == b"\x0d\0\0\0thirteen byte"
    assert reader.try_pop() == b"thirteen byte"


def test_a_record_is_the_length_word_and_the_bytes_as_they_are() -> None:
    words = PlainWords()
    writer, _ = both_ends(words)
    writer.try_push(b"one")
    writer.try_push(b"second one")
    assert bytes(words.memory[DATA : DATA + 22]) == b"\x03\0\0\0one\xa5\x0a\0\0\0second one"
    assert words.load32(WRITE_POSITION) == 24


@pytest.mark.parametrize("length", [0, largest_record(SIZE) + 1, SIZE, 4 * SIZE])
def test_a_record_that_can_never_fit_is_refused_with_the_sizes(length: int) -> None:
    writer, reader = both_ends(PlainWords())
    with pytest.raises(SpecError, match=rf"a record of {length} bytes, expected 1 to 60 in a ring of 256; "):
        writer.try_push(bytes(length))
    assert writer.free == SIZE
    assert reader.try_pop() is None


@pytest.mark.parametrize("size", [0, 32, 100, 255, 2**32, -64])
def test_a_ring_of_an_impossible_size_is_refused(size: int) -> None:
    for make in (RingWriter, RingReader, reset_ring):
        with pytest.raises(SegmentError, match=rf"a ring of {size} data bytes, expected a power of two"):
            make(PlainWords(), OFFSET, size)


@pytest.mark.parametrize("offset", [-8, 4, OFFSET + 72, 2**40])
def test_a_ring_that_does_not_fit_into_the_memory_is_refused(offset: int) -> None:
    for make in (RingWriter, RingReader, reset_ring):
        with pytest.raises(SegmentError, match=rf"a ring of 512 bytes at byte {offset} does not fit into 640 bytes"):
            make(PlainWords(), offset, SIZE)


# --- the order of stores ---


def test_the_data_is_written_before_the_position_and_nothing_after_it() -> None:
    words = WatchedWords()
    words.start_at(SIZE - 16)
    writer, _ = both_ends(words)
    words.log.clear()
    assert writer.try_push(b"thirteen byte")
    assert words.log == [
        ("load", READ_POSITION, READ_POSITION + 4),
        ("write", DATA + SIZE - 16, DATA + SIZE - 12),
        ("write", DATA, DATA + LENGTH_BYTES),
        ("write", DATA + LENGTH_BYTES, DATA + LENGTH_BYTES + 13),
        ("store", WRITE_POSITION, WRITE_POSITION + 4),
    ]


def test_a_record_is_copied_out_before_its_place_is_given_back() -> None:
    words = WatchedWords()
    words.start_at(SIZE - 16)
    writer, reader = both_ends(words)
    writer.try_push(b"thirteen byte")
    words.log.clear()
    record = reader.try_pop()
    words.bytes[DATA:] = bytes(len(words.bytes) - DATA)
    assert record == b"thirteen byte"
    assert words.log == [
        ("load", WRITE_POSITION, WRITE_POSITION + 4),
        ("read", DATA + SIZE - 16, DATA + SIZE - 12),
        ("read", DATA, DATA + LENGTH_BYTES),
        ("read", DATA + LENGTH_BYTES, DATA + LENGTH_BYTES + 13),
        ("store", READ_POSITION, READ_POSITION + 4),
    ]


def test_a_full_or_empty_ring_is_only_looked_at() -> None:
    words = WatchedWords()
    writer, reader = both_ends(words)
    words.log.clear()
    assert reader.try_pop() is None
    assert words.log == [("load", WRITE_POSITION, WRITE_POSITION + 4)]
    while writer.try_push(bytes(28)):
        pass
    words.log.clear()
    assert not writer.try_push(bytes(28))
    assert words.log == [("load", READ_POSITION, READ_POSITION + 4)]


# --- hostile peers ---

#: Words that a hostile peer would try as positions and lengths.
WORDS = st.sampled_from([0, 1, 4, 8, 56, 60, 64, 252, 256, 264, SKIP, SKIP - 7, 2**31]) | st.integers(0, 2**32 - 1)
#: Positions that are at least aligned, many of them close to where they wrap.
POSITIONS = st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32)
DISTANCES = st.integers(0, SIZE // 8).map(lambda eights: eights * 8)


def assert_only_the_ring_was_touched(words: WatchedWords) -> None:
    positions = (WRITE_POSITION, READ_POSITION)
    for what, start, stop in words.log:
        assert start in positions if what in ("load", "store") else DATA <= start <= stop <= DATA + SIZE


@settings(max_examples=400)
@given(read=POSITIONS | WORDS, ahead=DISTANCES | WORDS, data=st.lists(WORDS, max_size=SIZE // 4), fill=WORDS)
def test_a_reader_survives_any_memory(read: int, ahead: int, data: list[int], fill: int) -> None:
    words = WatchedWords()
    for index in range(SIZE // 4):
        words.data(4 * index, (data[index] if index < len(data) else fill).to_bytes(4, "little"))
    words.start_at(read)
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


@settings(max_examples=200)
@given(
    start=POSITIONS,
    moves=st.lists(DISTANCES | WORDS | st.none(), max_size=8),
    record=st.binary(min_size=1, max_size=largest_record(SIZE)),
)
def test_a_writer_survives_any_reader(start: int, moves: list[int | None], record: bytes) -> None:
    words = WatchedWords()
    words.start_at(start)
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
def test_impossible_positions_are_refused_by_both_ends(write: int, read: int) -> None:
    words = PlainWords()
    writer, reader = both_ends(words)
    words.store32(WRITE_POSITION, write)
    words.store32(READ_POSITION, read)
    for end in (RingWriter, RingReader):
        with pytest.raises(RemoteProtocolError, match=rf"ring positions {write} \(write\) and {read} \(read\) are"):
            end(words, OFFSET, SIZE)
    if read:
        with pytest.raises(RemoteProtocolError, match=rf"0 \(write\) and {read} \(read\)"):
            writer.try_push(b"x")
    if write:
        with pytest.raises(RemoteProtocolError, match=rf"{write} \(write\) and 0 \(read\)"):
            reader.try_pop()


def test_an_end_keeps_its_own_position_whatever_the_memory_says() -> None:
    words = PlainWords()
    writer, reader = both_ends(words)
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
def test_a_record_no_writer_may_produce_is_refused_and_left(index: int, length: int, published: int, text: str) -> None:
    words = PlainWords()
    words.start_at(index)
    reader = RingReader(words, OFFSET, SIZE)
    words.data(index, length.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, index + published)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=text):
            reader.try_pop()
    assert words.load32(READ_POSITION) == index


def test_a_skip_may_be_published_ahead_of_its_record() -> None:
    words = PlainWords()
    words.start_at(240)
    _, reader = both_ends(words)
    words.data(240, SKIP.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, 256)
    assert reader.try_pop() is None
    assert RingWriter(words, OFFSET, SIZE).try_push(b"at the beginning")
    assert reader.try_pop() == b"at the beginning"


def test_a_skip_that_leads_to_another_skip_is_refused() -> None:
    words = PlainWords()
    words.start_at(240)
    _, reader = both_ends(words)
    for index in (240, 0):
        words.data(index, SKIP.to_bytes(4, "little"))
    words.store32(WRITE_POSITION, 240 + 64)
    with pytest.raises(RemoteProtocolError, match=r"at byte 0 claims 4294967295 bytes, expected 1 to 60"):
        reader.try_pop()


# --- two processes ---

PEER = """
import mmap, os, random, sys, time
from lucky_transport.shm.atomics import Words
from lucky_transport.shm.record import largest_record
from lucky_transport.shm.ring import RingReader, RingWriter

role, fd, size, count, native = sys.argv[1], *map(int, sys.argv[2:])
words = Words(mmap.mmap(fd, 0), native=bool(native))
ring = (RingWriter if role == "writer" else RingReader)(words, 0, size)
lengths = random.Random(7)
until = time.monotonic() + 60
waits = 0
for number in range(count):
    length = lengths.choice((1, 4, 5, 12, 13, 60, lengths.randint(1, largest_record(size)), largest_record(size)))
    record = ((number * 2654435761) % 2**32).to_bytes(4, "little") * (length // 4 + 1)
    record = record[:length]
    while True:
        if (ring.try_push(record) if role == "writer" else (got := ring.try_pop()) is not None):
            break
        waits += 1
        os.sched_yield()
        if time.monotonic() > until:
            sys.exit(f"{role} stuck at record {number} of {count}")
    if role == "reader" and got != record:
        sys.exit(f"record {number}: {len(got)} bytes {got[:16]!r}..., expected {length} bytes {record[:16]!r}...")
print(number + 1, waits)
"""


@pytest.mark.parametrize("native", [True, False], ids=["native", "fallback"])
def test_two_processes_exchange_every_record_whole_and_in_order(native: bool) -> None:
    size, count = 1024, 20_000
    if native and native_error():
        pytest.skip(f"no native module: {native_error()}")
    try:
        implementation(native)
    except MissingExtra as error:
        pytest.skip(str(error))
    fd = os.memfd_create("ring")
    try:
        os.ftruncate(fd, ring_bytes(size))
        start = (2**32 - 64 * size).to_bytes(4, "little")  # the positions pass 2**32 on the way
        os.pwrite(fd, start, 0)
        os.pwrite(fd, start, 128)
        arguments = [str(fd), str(size), str(count), str(int(native))]
        peers = [
            subprocess.Popen(
                [sys.executable, "-c", PEER, role, *arguments],
                pass_fds=[fd],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for role in ("writer", "reader")
        ]
        try:
            for peer in peers:
                out, err = peer.communicate(timeout=90)
                assert (peer.returncode, err) == (0, "")
                assert int(out.split()[0]) == count
        finally:
            for peer in peers:
                peer.kill()
                peer.communicate()
        assert os.pread(fd, 4, 0) == os.pread(fd, 4, 128)
    finally:
        os.close(fd)
