"""The ring is a queue: every record comes out once, whole and in order."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lucky_transport.errors import MissingExtra, SegmentError, SpecError
from lucky_transport.shm.atomics import implementation, native_error
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.fallback_ring import RingReader, RingWriter
from lucky_transport.shm.ring import (
    HEAD_BYTES,
    LENGTH_BYTES,
    SKIP,
    largest_record,
    ring_bytes,
    stride_of,
)
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.support.segment_memory import PlainWords, WatchedWords

W = TypeVar("W", bound=PlainWords)

OFFSET = 64
SIZE = 256
WRITE_POSITION, READ_POSITION, WRITER_PARK = OFFSET, OFFSET + 128, OFFSET + 192
DATA = OFFSET + HEAD_BYTES
GUARD = 0xA5


def start_at(words: PlainWords, position: int) -> None:
    """Make the ring empty with both positions there."""
    words.store32(WRITE_POSITION, position)
    words.store32(READ_POSITION, position)


def a_ring(kind: type[W] = PlainWords) -> W:
    """Return words of that kind with an empty ring in the middle of guard bytes."""
    words = kind(OFFSET + ring_bytes(SIZE) + 64, GUARD)
    RingWriter(words, OFFSET, SIZE, empty=True)
    return words


def both_ends(words: PlainWords) -> tuple[RingWriter, RingReader]:
    return RingWriter(words, OFFSET, SIZE), RingReader(words, OFFSET, SIZE)


@dataclass(frozen=True)
class Ends:
    """Which ends are tested: those in C or those in Python, the latter on any machine."""

    name: str
    native: bool

    def writer(self, words: PlainWords, size: int = SIZE, offset: int = OFFSET) -> Any:
        return open_writer(words.bytes, offset, size) if self.native else RingWriter(words.bytes, offset, size)

    def reader(self, words: PlainWords, size: int = SIZE, offset: int = OFFSET) -> Any:
        return open_reader(words.bytes, offset, size) if self.native else RingReader(words.bytes, offset, size)


KINDS = [Ends("fallback", False)]
if not native_error():
    KINDS.append(Ends("native", True))
every_kind = pytest.mark.parametrize("ends", KINDS, ids=lambda ends: ends.name)


# --- waking a reader that waits on an eventfd ---


def test_a_push_that_a_close_overtakes_notifies_no_other_file() -> None:
    words = a_ring()
    with EventFd() as mine:
        writer = RingWriter(words, OFFSET, SIZE, park=WRITER_PARK, eventfd=mine.fd)
        number = mine.fd
    with EventFd() as other:
        assert other.fd == number  # the system gives the lowest number that is free
        assert writer.try_push(b"late")
        assert not select.select([other.fd], [], [], 0)[0]


# --- a queue ---


class RingIsAQueue(RuleBasedStateMachine):
    """The ring against a deque, from any position, with either end replaced at any time, by any kind."""

    @initialize(position=st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32))  # many close to the wrap
    def start(self, position: int) -> None:
        self.words = a_ring()
        start_at(self.words, position)
        self.writer, self.reader = KINDS[-1].writer(self.words), KINDS[-1].reader(self.words)
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

    @rule(ends=st.sampled_from(KINDS))
    def replace_the_writer(self, ends: Ends) -> None:
        self.writer = ends.writer(self.words)

    @rule(ends=st.sampled_from(KINDS))
    def replace_the_reader(self, ends: Ends) -> None:
        self.reader = ends.reader(self.words)

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
        assert set(memory[OFFSET + 4 : READ_POSITION]) == set(memory[READ_POSITION + 4 : WRITER_PARK]) == {GUARD}
        assert bytes(memory[WRITER_PARK : WRITER_PARK + 4]) == bytes(4)
        assert set(memory[WRITER_PARK + 4 : DATA]) == {GUARD}


TestRingIsAQueue = RingIsAQueue.TestCase
TestRingIsAQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@every_kind
@pytest.mark.parametrize("position", [0, 2**32 - SIZE, 2**32 - 8])
def test_a_full_ring_takes_no_more_until_a_record_is_read(position: int, ends: Ends) -> None:
    words = a_ring()
    start_at(words, position)
    writer, reader = ends.writer(words), ends.reader(words)
    records = [bytes([number]) * 4 for number in range(SIZE // 8)]
    assert [writer.try_push(record) for record in records] == [True] * len(records)
    assert writer.free == 0
    assert not writer.try_push(b"more")
    assert reader.try_pop() == records[0]
    assert writer.try_push(b"more")
    assert [reader.try_pop() for _ in records] == [*records[1:], b"more"]
    assert reader.try_pop() is None


@every_kind
def test_a_record_is_never_split_at_the_end(ends: Ends) -> None:
    words = a_ring()
    start_at(words, SIZE - 16)
    assert ends.writer(words).try_push(b"twelve bytes")
    start_at(words, SIZE - 16)
    writer, reader = ends.writer(words), ends.reader(words)
    assert writer.try_push(b"thirteen byte")
    assert words.load32(DATA + SIZE - 16) == SKIP
    assert bytes(words.memory[DATA : DATA + 17]) == b"\x0d\0\0\0thirteen byte"
    assert reader.try_pop() == b"thirteen byte"


@every_kind
def test_a_record_is_the_length_word_and_the_bytes_as_they_are(ends: Ends) -> None:
    words = a_ring()
    writer = ends.writer(words)
    writer.try_push(b"one")
    writer.try_push(b"second one")
    assert bytes(words.memory[DATA : DATA + 22]) == b"\x03\0\0\0one\xa5\x0a\0\0\0second one"
    assert words.load32(WRITE_POSITION) == 24


@every_kind
@pytest.mark.parametrize("length", range(1, largest_record(SIZE) + 1))
def test_a_record_of_every_size_goes_through_as_bytes_and_as_a_view(length: int, ends: Ends) -> None:
    words = a_ring()
    writer, reader = ends.writer(words), ends.reader(words)
    record = os.urandom(length)
    for form in (record, bytearray(record), memoryview(b"x" + record)[1:]):
        assert writer.try_push(form)
        assert reader.try_pop() == record
    assert reader.pending == 0
    assert reader.position == writer.position


@every_kind
@pytest.mark.parametrize("length", [0, largest_record(SIZE) + 1, SIZE, 4 * SIZE])
def test_a_record_that_can_never_fit_is_refused_with_the_sizes(length: int, ends: Ends) -> None:
    words = a_ring()
    writer, reader = ends.writer(words), ends.reader(words)
    with pytest.raises(SpecError, match=rf"a record of {length} bytes, expected 1 to 60 in a ring of 256; "):
        writer.try_push(bytes(length))
    assert writer.free == SIZE
    assert reader.try_pop() is None


@pytest.mark.parametrize("size", [0, 32, 100, 255, 2**32, -64])
def test_a_ring_of_an_impossible_size_is_refused(size: int) -> None:
    for make in [make for ends in KINDS for make in (ends.writer, ends.reader)]:
        with pytest.raises(SegmentError, match=rf"a ring of {size} data bytes, expected a power of two"):
            make(a_ring(), size=size, offset=OFFSET)


@pytest.mark.parametrize("offset", [-8, 4, OFFSET + 72, 2**40])
def test_a_ring_that_does_not_fit_into_the_memory_is_refused(offset: int) -> None:
    for make in [make for ends in KINDS for make in (ends.writer, ends.reader)]:
        with pytest.raises(SegmentError, match=rf"a ring of 512 bytes at byte {offset} does not fit into 640 bytes"):
            make(a_ring(), size=SIZE, offset=offset)


# --- the order of stores ---


def test_the_data_is_written_before_the_position_and_nothing_after_it() -> None:
    words = a_ring(WatchedWords)
    start_at(words, SIZE - 16)
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
    words = a_ring(WatchedWords)
    start_at(words, SIZE - 16)
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
        ("load", WRITER_PARK, WRITER_PARK + 4),  # does the writer wait for it?
    ]


def test_a_full_or_empty_ring_is_only_looked_at() -> None:
    words = a_ring(WatchedWords)
    writer, reader = both_ends(words)
    words.log.clear()
    assert reader.try_pop() is None
    assert words.log == [("load", WRITE_POSITION, WRITE_POSITION + 4)]
    while writer.try_push(bytes(28)):
        pass
    words.log.clear()
    assert not writer.try_push(bytes(28))
    assert words.log == [("load", READ_POSITION, READ_POSITION + 4)]


# --- two processes ---

PEER = """
import mmap, os, random, sys, time
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from lucky_transport.shm.ring import largest_record

role, fd, size, count, native = sys.argv[1], *map(int, sys.argv[2:])
ring = (open_writer if role == "writer" else open_reader)(mmap.mmap(fd, 0), 0, size, native=bool(native))
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
