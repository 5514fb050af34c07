"""The ring is a queue: every record comes out once, whole and in order."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lucky_transport import native
from lucky_transport.errors import SegmentError, SpecError
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.ring import (
    HEAD_BYTES,
    SKIP,
    largest_record,
    ring_bytes,
    stride_of,
)
from lucky_transport.shm.ring_pipe import open_reader, open_writer

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
        memory[place : place + 4] = position.to_bytes(4, "little")
    return memory


def word(memory: bytearray, offset: int) -> int:
    return int.from_bytes(memory[offset : offset + 4], "little")


def writer_of(memory: bytearray, size: int = SIZE, offset: int = OFFSET) -> native.RingWriter:
    return open_writer(memory, offset, size)


def reader_of(memory: bytearray, size: int = SIZE, offset: int = OFFSET) -> native.RingReader:
    return open_reader(memory, offset, size)


# --- waking a reader that waits on an eventfd ---


def test_a_push_after_a_stop_notifies_no_other_file() -> None:
    memory = a_ring()
    with EventFd() as mine:
        writer = open_writer(memory, OFFSET, SIZE, park=WRITER_PARK, eventfd=mine.fd)
        number = mine.fd
        writer.stop()
    with EventFd() as other:
        assert other.fd == number  # the system gives the lowest number that is free
        memory[WRITER_PARK] = 1
        assert writer.try_push(b"late")
        assert not select.select([other.fd], [], [], 0)[0]


# --- a queue ---


class RingIsAQueue(RuleBasedStateMachine):
    """The ring against a deque, from any position, with either end replaced at any time."""

    @initialize(position=st.integers(-64, 64).map(lambda eights: eights * 8 % 2**32))  # many close to the wrap
    def start(self, position: int) -> None:
        self.memory = a_ring(position)
        self.writer, self.reader = writer_of(self.memory), reader_of(self.memory)
        self.model: deque[bytes] = deque()

    @rule(record=st.binary(min_size=1, max_size=largest_record(SIZE)))
    def push(self, record: bytes) -> None:
        index = word(self.memory, WRITE_POSITION) % SIZE
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


@pytest.mark.parametrize("position", [0, 2**32 - SIZE, 2**32 - 8])
def test_a_full_ring_takes_no_more_until_a_record_is_read(position: int) -> None:
    memory = a_ring(position)
    writer, reader = writer_of(memory), reader_of(memory)
    records = [bytes([number]) * 4 for number in range(SIZE // 8)]
    assert [writer.try_push(record) for record in records] == [True] * len(records)
    assert writer.free == 0
    assert not writer.try_push(b"more")
    assert reader.try_pop() == records[0]
    assert writer.try_push(b"more")
    assert [reader.try_pop() for _ in records] == [*records[1:], b"more"]
    assert reader.try_pop() is None


def test_a_record_is_never_split_at_the_end() -> None:
    assert writer_of(a_ring(SIZE - 16)).try_push(b"twelve bytes")
    memory = a_ring(SIZE - 16)
    writer, reader = writer_of(memory), reader_of(memory)
    assert writer.try_push(b"thirteen byte")
    assert word(memory, DATA + SIZE - 16) == SKIP
    assert bytes(memory[DATA : DATA + 17]) == b"\x0d\0\0\0thirteen byte"
    assert reader.try_pop() == b"thirteen byte"


def test_a_record_is_the_length_word_and_the_bytes_as_they_are() -> None:
    memory = a_ring()
    writer = writer_of(memory)
    writer.try_push(b"one")
    writer.try_push(b"second one")
    assert bytes(memory[DATA : DATA + 22]) == b"\x03\0\0\0one\xa5\x0a\0\0\0second one"
    assert word(memory, WRITE_POSITION) == 24


@pytest.mark.parametrize("length", range(1, largest_record(SIZE) + 1))
def test_a_record_of_every_size_goes_through_as_bytes_and_as_a_view(length: int) -> None:
    memory = a_ring()
    writer, reader = writer_of(memory), reader_of(memory)
    record = os.urandom(length)
    for form in (record, bytearray(record), memoryview(b"x" + record)[1:]):
        assert writer.try_push(form)
        assert reader.try_pop() == record
    assert reader.pending == 0
    assert reader.position == writer.position


@pytest.mark.parametrize("length", [0, largest_record(SIZE) + 1, SIZE, 4 * SIZE])
def test_a_record_that_can_never_fit_is_refused_with_the_sizes(length: int) -> None:
    memory = a_ring()
    writer, reader = writer_of(memory), reader_of(memory)
    with pytest.raises(SpecError, match=rf"a record of {length} bytes, expected 1 to 60 in a ring of 256; "):
        writer.try_push(bytes(length))
    assert writer.free == SIZE
    assert reader.try_pop() is None


@pytest.mark.parametrize("size", [0, 32, 100, 255, 2**32, -64])
def test_a_ring_of_an_impossible_size_is_refused(size: int) -> None:
    for make in (writer_of, reader_of):
        with pytest.raises(SegmentError, match=rf"a ring of {size} data bytes, expected a power of two"):
            make(a_ring(), size=size, offset=OFFSET)


@pytest.mark.parametrize("offset", [-8, 4, OFFSET + 72, 2**40])
def test_a_ring_that_does_not_fit_into_the_memory_is_refused(offset: int) -> None:
    for make in (writer_of, reader_of):
        with pytest.raises(SegmentError, match=rf"a ring of 512 bytes at byte {offset} does not fit into 640 bytes"):
            make(a_ring(), size=SIZE, offset=offset)


# --- two processes ---

PEER = """
import mmap, os, random, sys, time
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from lucky_transport.shm.ring import largest_record

role, fd, size, count = sys.argv[1], *map(int, sys.argv[2:])
ring = (open_writer if role == "writer" else open_reader)(mmap.mmap(fd, 0), 0, size)
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


@pytest.mark.exhaustive
def test_two_processes_exchange_every_record_whole_and_in_order() -> None:
    size, count = 1024, 20_000
    fd = os.memfd_create("ring")
    try:
        os.ftruncate(fd, ring_bytes(size))
        start = (2**32 - 64 * size).to_bytes(4, "little")  # the positions pass 2**32 on the way
        os.pwrite(fd, start, 0)
        os.pwrite(fd, start, 128)
        arguments = [str(fd), str(size), str(count)]
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
