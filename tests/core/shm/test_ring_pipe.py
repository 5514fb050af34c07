"""Waiting at the ends of a ring."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from mmap import mmap

import pytest

from lucky_transport import native
from lucky_transport.errors import ClosedError, RemoteProtocolError, SpecError
from lucky_transport.native import RingReader, RingWriter
from lucky_transport.shm.ring import WRITER_PARK, ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.wait import spin
from tests.support.waiting import call_later

PARK, RING, SIZE = 0, 128, 4096
LONG_NS = 20_000_000_000


@pytest.fixture
def memory() -> mmap:
    return mmap(-1, RING + ring_bytes(SIZE))


@pytest.fixture(params=["adaptive", "block", "spin"])
def strategy(request: pytest.FixtureRequest) -> int:
    return {"spin": 0, "adaptive": 1, "block": 2}[request.param]


@pytest.fixture
def writer(memory: mmap, strategy: int) -> RingWriter:
    return open_writer(memory, RING, SIZE, park=PARK, strategy=strategy)


@pytest.fixture
def reader(memory: mmap, strategy: int) -> RingReader:
    return open_reader(memory, RING, SIZE, park=PARK, strategy=strategy)


def fill(writer: RingWriter, length: int = 500) -> int:
    count = 0
    while writer.try_push(bytes(length)):
        count += 1
    return count


def test_a_wait_ends_with_the_record(writer: RingWriter, reader: RingReader) -> None:
    thread = call_later(writer.try_push, b"record")
    assert reader.wait(LONG_NS) == 1
    thread.join()
    assert reader.try_pop() == b"record"


def test_a_wait_for_what_is_there_ends_at_once(writer: RingWriter, reader: RingReader) -> None:
    writer.try_push(b"record")
    assert reader.ready()
    assert reader.wait(0) == 1


def test_a_wait_ends_at_its_timeout(writer: RingWriter, reader: RingReader) -> None:
    assert not reader.ready()
    assert reader.wait(0) == Result.TIMED_OUT
    assert reader.wait(3_000_000) == Result.TIMED_OUT


def test_a_wait_can_be_interrupted_while_it_lasts_and_before(writer: RingWriter, reader: RingReader) -> None:
    thread = call_later(reader.interrupt)
    assert reader.wait(LONG_NS) == 0
    thread.join()
    reader.interrupt()
    assert reader.wait(LONG_NS) == 0
    assert reader.wait(1_000_000) == Result.TIMED_OUT


def test_room_comes_when_the_reader_reads(writer: RingWriter, reader: RingReader) -> None:
    fill(writer)
    assert writer.wait_writable(500, 1_000_000) == Result.TIMED_OUT
    thread = call_later(reader.try_pop)
    assert writer.wait_writable(500, LONG_NS) == 1
    thread.join()
    assert writer.try_push(bytes(500))


def test_a_wait_writable_that_is_there_ends_at_once(writer: RingWriter) -> None:
    assert writer.wait_writable(1000, 0) == 1


def test_a_wait_writable_counts_what_has_to_be_skipped(writer: RingWriter, reader: RingReader) -> None:
    """At byte 3584 of 4096 a record of 1000 bytes needs the start of the ring, which the reader has not given back."""
    assert [writer.try_push(bytes(508)) for _ in range(7)] == [True] * 7
    assert writer.position == 3584
    reader.try_pop()
    assert writer.free == 1024
    assert writer.wait_writable(1000, 1_000_000) == Result.TIMED_OUT
    assert not writer.try_push(bytes(1000))
    reader.try_pop()
    assert writer.wait_writable(1000, 0) == 1
    assert writer.try_push(bytes(1000))


def test_a_wait_writable_can_be_stopped_for_good(writer: RingWriter) -> None:
    fill(writer)
    thread = call_later(writer.stop)
    assert writer.wait_writable(500, LONG_NS) == Result.TIMED_OUT
    thread.join()
    assert writer.wait_writable(500, LONG_NS) == Result.TIMED_OUT


@pytest.mark.parametrize("length", [0, 1021, 1 << 40])
def test_room_that_can_never_be_there_is_refused(writer: RingWriter, length: int) -> None:
    with pytest.raises(SpecError, match=f"a record of {length} bytes, expected 1 to 1020"):
        writer.wait_writable(length, LONG_NS)


def test_a_hostile_read_position_ends_a_wait_writable(writer: RingWriter, memory: mmap) -> None:
    fill(writer)

    def lie() -> None:
        memory[RING + 128 : RING + 132] = (12345).to_bytes(4, "little")

    thread = call_later(lie)
    with pytest.raises(RemoteProtocolError, match="12345 \\(read\\)"):
        writer.wait_writable(500, LONG_NS)
    thread.join()


def test_a_hostile_write_position_is_no_record(reader: RingReader, memory: mmap) -> None:
    memory[RING : RING + 4] = (12345).to_bytes(4, "little")
    assert reader.wait(0) == 1
    with pytest.raises(RemoteProtocolError, match="12345 \\(write\\)"):
        reader.try_pop()


def test_no_park_word_stays_set_after_a_wait(writer: RingWriter, reader: RingReader, memory: mmap) -> None:
    reader.wait(1_000_000)
    fill(writer)
    writer.wait_writable(500, 2_000_000)
    room = RING + WRITER_PARK
    assert memory[PARK : PARK + 4] == memory[room : room + 4] == bytes(4)


def test_an_armed_reader_has_its_bell_rung_once(memory: mmap) -> None:
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        writer = open_writer(memory, RING, SIZE, park=PARK, eventfd=bell)
        reader = open_reader(memory, RING, SIZE, park=PARK, eventfd=bell)
        assert not reader.arm()
        assert writer.try_push(b"first")
        assert os.eventfd_read(bell) == 1
        assert reader.arm()  # there is something to pop: no bell is needed
        assert reader.try_pop() == b"first"
        assert not reader.arm()
        reader.disarm()
        assert memory[PARK] == 0
    finally:
        os.close(bell)


def test_an_unarmed_reader_costs_the_writer_no_bell(memory: mmap) -> None:
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        writer = open_writer(memory, RING, SIZE, park=PARK, eventfd=bell)
        writer.try_push(b"record")
        with pytest.raises(BlockingIOError):
            os.eventfd_read(bell)
    finally:
        os.close(bell)


def test_a_bell_that_is_full_never_blocks_the_writer(memory: mmap) -> None:
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        os.eventfd_write(bell, 2**64 - 2)
        writer = open_writer(memory, RING, SIZE, park=PARK, eventfd=bell)
        reader = open_reader(memory, RING, SIZE, park=PARK, eventfd=bell)
        assert not reader.arm()
        assert writer.try_push(b"record")
        assert reader.try_pop() == b"record"
    finally:
        os.close(bell)


@pytest.mark.parametrize("count", [0, 1, 3, 70])
def test_spinning_finds_the_one_ring_that_has_something(count: int) -> None:
    rings = [mmap(-1, RING + ring_bytes(SIZE)) for _ in range(count)]
    readers = tuple(open_reader(ring, RING, SIZE, park=PARK) for ring in rings)
    for code in (0, 1, 2):
        assert not spin(readers, code, 100_000)
        assert not spin(readers, code, 0)
    if count:
        open_writer(rings[-1], RING, SIZE, park=PARK).try_push(b"record")
        assert spin(readers, 1, 0)


def test_spinning_takes_readers_only() -> None:
    for wrong in ((1,), (None,)):
        with pytest.raises(TypeError):
            spin(wrong, 1, 0)  # pyright: ignore[reportArgumentType]


def test_an_end_that_was_never_initialised_does_nothing() -> None:
    writer, reader = native.RingWriter.__new__(native.RingWriter), native.RingReader.__new__(native.RingReader)
    uses: list[Callable[[], object]] = [
        lambda: writer.try_push(b"record"),
        lambda: writer.wait_writable(1, 0),
        lambda: writer.free,
        reader.try_pop,
        reader.ready,
        reader.arm,
        lambda: reader.wait(0),
        lambda: reader.pending,
        lambda: native.spin((reader,), 1, 0),
        writer.stop,
        reader.interrupt,
        reader.disarm,
    ]
    for use in uses:
        with pytest.raises(TypeError):
            use()


def test_a_signal_gets_through_to_a_waiting_main_thread(memory: mmap) -> None:
    class Rung(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Rung

    reader = open_reader(memory, RING, SIZE, park=PARK)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Rung):
            reader.wait(LONG_NS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_records_pass_between_waiting_threads_whatever_they_do(writer: RingWriter, reader: RingReader) -> None:
    """Both sides park again and again: the ring holds only a few records, and the reader is slower at times."""
    count = 300
    got: list[bytes] = []

    def read() -> None:
        while len(got) < count:
            if reader.wait(LONG_NS) == 1 and (record := reader.try_pop()) is not None:
                got.append(record)
                if len(got) % 100 == 0:
                    time.sleep(0.005)

    thread = threading.Thread(target=read)
    thread.start()
    records = [bytes([number % 256]) * (1 + number * 37 % 1020) for number in range(count)]
    for record in records:
        while not writer.try_push(record):
            assert writer.wait_writable(len(record), LONG_NS) == 1
    thread.join(30)
    assert got == records


def test_an_end_that_was_shut_refuses_every_record_and_touches_nothing(writer: RingWriter, reader: RingReader) -> None:
    writer.try_push(b"before")
    written, read = writer.position, reader.position
    for end in (writer, reader):
        end.shut(lambda: ClosedError("an earlier reason"))
        end.shut(lambda: ClosedError("it is closed"))
    pushes: list[Callable[[], object]] = [
        lambda: writer.try_push(b"after"),
        lambda: writer.push(0, 2, b"after", 1),
        lambda: writer.push(0, 2, b"after", 0, 0, 0, (1, 1, 0, 2)),
    ]
    for use in (*pushes, reader.try_pop, lambda: reader.pop_batch(1), lambda: reader.pop_batch(8)):
        for _ in range(3):
            with pytest.raises(ClosedError, match="it is closed"):
                use()
    assert (writer.position, reader.position) == (written, read)
    assert reader.ready()
