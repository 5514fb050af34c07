"""Waiting at the ends of a ring, and one whose memory comes as it is written to."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from mmap import mmap

import pytest

from lucky_transport import native
from lucky_transport.errors import ClosedError, NoSpace, RemoteProtocolError, SpecError
from lucky_transport.shm.arena import can_be_refused
from lucky_transport.shm.files.mapping import Mapping, map_file
from lucky_transport.shm.listener.handshake import FIRST_BYTES, make_pair, total_bytes
from lucky_transport.shm.ring import LENGTH_BYTES, STEP, WRITER_PARK, largest_record, ring_bytes, stride_of
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from lucky_transport.shm.segment.channel import Result
from tests.support.waiting import beside, call_later

PARK, RING, SIZE = 0, 128, 4096
LONG_NS = 20_000_000_000


@pytest.fixture
def memory() -> mmap:
    return mmap(-1, RING + ring_bytes(SIZE))


@pytest.fixture(params=["adaptive", "block", "spin"])
def strategy(request: pytest.FixtureRequest) -> int:
    return {"spin": 0, "adaptive": 1, "block": 2}[request.param]


@pytest.fixture
def writer(memory: mmap, strategy: int) -> native.RingWriter:
    return open_writer(memory, RING, SIZE, park=PARK, strategy=strategy)


@pytest.fixture
def reader(memory: mmap, strategy: int) -> native.RingReader:
    return open_reader(memory, RING, SIZE, park=PARK, strategy=strategy)


def fill(writer: native.RingWriter, length: int = 500) -> int:
    count = 0
    while writer.try_push(bytes(length)):
        count += 1
    return count


def test_a_wait_writable_counts_what_has_to_be_skipped(writer: native.RingWriter, reader: native.RingReader) -> None:
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


def test_a_wait_writable_can_be_stopped_for_good(writer: native.RingWriter) -> None:
    fill(writer)
    thread = call_later(writer.stop)
    assert writer.wait_writable(500, LONG_NS) == Result.TIMED_OUT
    thread.join()
    assert writer.wait_writable(500, LONG_NS) == Result.TIMED_OUT


@pytest.mark.parametrize("length", [0, 1021, 1 << 40])
def test_room_that_can_never_be_there_is_refused(writer: native.RingWriter, length: int) -> None:
    with pytest.raises(SpecError, match=f"a record of {length} bytes, expected 1 to 1020"):
        writer.wait_writable(length, LONG_NS)


def test_a_hostile_read_position_ends_a_wait_writable(writer: native.RingWriter, memory: mmap) -> None:
    fill(writer)

    def lie() -> None:
        memory[RING + 128 : RING + 132] = (12345).to_bytes(4, "little")

    thread = call_later(lie)
    with pytest.raises(RemoteProtocolError, match="12345 \\(read\\)"):
        writer.wait_writable(500, LONG_NS)
    thread.join()


def test_no_park_word_stays_set_after_a_wait(
    writer: native.RingWriter, reader: native.RingReader, memory: mmap
) -> None:
    reader.wait(1_000_000)
    fill(writer)
    writer.wait_writable(500, 2_000_000)
    room = RING + WRITER_PARK
    assert memory[PARK : PARK + 4] == memory[room : room + 4] == bytes(4)


def test_an_armed_reader_is_notified_once_and_a_full_or_closed_socket_holds_no_writer_up(memory: mmap) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    writer = open_writer(memory, RING, SIZE, park=PARK, socket=here.fileno())
    reader = open_reader(memory, RING, SIZE, park=PARK)

    def armed() -> None:
        assert not reader.arm()
        assert writer.try_push(b"armed")
        assert reader.try_pop() == b"armed"

    with here:
        with there:
            there.setblocking(False)
            assert writer.try_push(b"unarmed")
            with pytest.raises(BlockingIOError):
                there.recv(2)
            assert reader.arm()  # there is something to pop: no notice is needed
            assert reader.try_pop() == b"unarmed"
            armed()
            assert there.recv(2) == bytes(1)
            with contextlib.suppress(BlockingIOError):
                while True:
                    here.send(b"x", socket.MSG_DONTWAIT)
            armed()
        armed()  # the peer has left
        assert not reader.arm()
        reader.disarm()
        assert memory[PARK] == 0


@pytest.mark.parametrize("count", [0, 1, 3, 70])
def test_spinning_finds_the_one_ring_that_has_something(count: int) -> None:
    rings = [mmap(-1, RING + ring_bytes(SIZE)) for _ in range(count)]
    readers = tuple(open_reader(ring, RING, SIZE, park=PARK) for ring in rings)
    for code in (0, 1, 2):
        assert not native.spin(readers, code, 100_000)
        assert not native.spin(readers, code, 0)
    if count:
        open_writer(rings[-1], RING, SIZE, park=PARK).try_push(b"record")
        assert native.spin(readers, 1, 0)


def test_spinning_takes_readers_only() -> None:
    for wrong in ((1,), (None,)):
        with pytest.raises(TypeError):
            native.spin(wrong, 1, 0)  # pyright: ignore[reportArgumentType]


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


def test_records_pass_between_threads_whatever_they_do(writer: native.RingWriter, reader: native.RingReader) -> None:
    """Both sides park again and again: the ring holds only a few records, and the reader is slower at times."""
    count = 300
    got: list[bytes] = []

    def read() -> None:
        while len(got) < count:
            if reader.wait(LONG_NS) == 1 and (record := reader.try_pop()) is not None:
                got.append(record)
                if len(got) % 100 == 0:
                    time.sleep(0.005)

    with beside(read):
        records = [bytes([number % 256]) * (1 + number * 37 % 1020) for number in range(count)]
        for record in records:
            while not writer.try_push(record):
                assert writer.wait_writable(len(record), LONG_NS) == 1
    assert got == records


def test_an_end_that_was_shut_refuses_and_touches_nothing(writer: native.RingWriter, reader: native.RingReader) -> None:
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


GROWING = 4 * STEP


def memory_of(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


@pytest.fixture
def fd() -> Iterator[int]:
    """A file in memory of which one page has memory."""
    fd = os.memfd_create("ring")
    os.posix_fallocate(fd, 0, 4096)
    yield fd
    os.close(fd)


def test_a_new_pair_has_memory_for_its_first_records_alone() -> None:
    pair, fd = make_pair(512 * 1024)
    try:
        assert 2 * FIRST_BYTES <= memory_of(fd) < total_bytes(512 * 1024) / 8
        pair.mapping.close()
    finally:
        os.close(fd)


@pytest.mark.parametrize("length", [1, 100, 4096, largest_record(GROWING)])
def test_records_come_whole_and_in_order_while_the_memory_grows(fd: int, length: int) -> None:
    os.ftruncate(fd, ring_bytes(GROWING))
    mapping = map_file(fd, ring_bytes(GROWING), "the ring")
    writer, reader = open_writer(mapping, 0, GROWING, backed=3000), open_reader(mapping, 0, GROWING)
    written, most = 0, 0
    while written < 3 * GROWING:
        record = bytes([written % 251]) * length
        assert writer.try_push(record)
        written += length + LENGTH_BYTES
        assert most <= memory_of(fd) <= 4096 + ring_bytes(min(GROWING, written + STEP + 8 * written // length))
        most = memory_of(fd)
        assert reader.try_pop() == record
    assert most >= GROWING


def beyond_its_file(fd: int) -> Mapping:
    """Return memory of a ring whose file ends within it: no page behind that can be had."""
    os.ftruncate(fd, ring_bytes(GROWING))
    mapping = map_file(fd, ring_bytes(GROWING), "the ring")
    os.ftruncate(fd, 2 * STEP)
    return mapping


@pytest.mark.skipif(not can_be_refused(), reason="Linux before 5.14 gives memory at the first touch alone")
def test_a_record_that_finds_no_memory_is_refused_and_those_before_it_are_read(fd: int) -> None:
    mapping = beyond_its_file(fd)
    writer, reader = open_writer(mapping, 0, GROWING, backed=3000), open_reader(mapping, 0, GROWING)
    record = bytes(1000)
    pushed = STEP // stride_of(len(record))  # the next step would end behind the file
    assert all(writer.try_push(record) for _ in range(pushed))
    with pytest.raises(NoSpace, match=f"no memory for {STEP} more bytes of a ring of {GROWING}; close other clients"):
        writer.try_push(record)
    assert [reader.try_pop() for _ in range(pushed + 1)] == [record] * pushed + [None]
    os.ftruncate(fd, ring_bytes(GROWING))
    assert writer.try_push(record)
    assert reader.try_pop() == record
