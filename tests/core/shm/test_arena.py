"""Records that are too long for their ring travel in the arena beside it, as all others do in the ring."""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from mmap import mmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import native
from lucky_transport.errors import ClosedError, RemoteProtocolError, SpecError
from lucky_transport.shm.arena import NATIVE, PAGE
from lucky_transport.shm.ring import HEAD_BYTES, largest_record, ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from tests.support.waiting import PATIENCE_S

RING, ARENA = 4096, 8 << 20
START = (ring_bytes(RING) + PAGE - 1) & -PAGE
#: The shortest record that does not fit into the ring.
LONG = largest_record(RING) + 1
STEP = NATIVE["ARENA_STEP"]
#: What takes some time to copy.
MUCH = 64 << 20


def ends_in(memory: Any, arena: int = ARENA) -> tuple[native.RingWriter, native.RingReader]:
    return (
        open_writer(memory, 0, RING, arena=START, arena_bytes=arena),
        open_reader(memory, 0, RING, arena=START, arena_bytes=arena),
    )


def shared(arena: int = ARENA) -> mmap:
    return mmap(-1, START + arena)


def content(number: int, length: int) -> bytes:
    return (b"%d." % number * (length // 2 + 1))[:length]


@pytest.fixture
def memory() -> Iterator[mmap]:
    """Memory of a ring and its arena; nothing may have been written between them."""
    memory = shared()
    yield memory
    assert not any(memory[ring_bytes(RING) : START])


@pytest.mark.parametrize("length", [0, LONG, STEP, ARENA - 68])
def test_the_fields_of_a_compact_envelope_come_as_they_were_pushed(memory: mmap, length: int) -> None:
    writer, reader = ends_in(memory)
    fields = (1, 2**60, content(5, length), 7, 2**50, 0, None)
    assert writer.push(*fields)
    assert reader.pop_batch(1) == fields


def test_an_image_envelope_may_be_long_and_items_come_together(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    image = (2, 7, content(1, LONG), 0, 0, 3, (1, 2, 3, 4))
    items = [content(number, length) for number, length in enumerate((10, LONG, 3 * LONG, 10))]
    assert writer.push(*image)
    assert all(writer.push(2, 9, item) for item in items)
    assert reader.pop_batch(64) == image
    assert reader.pop_batch(64) == (9, items)


LENGTHS = st.integers(1, 2 * LONG) | st.integers(1, 64 << 10) | st.sampled_from([LONG, 32 << 10, 64 << 10])


@given(steps=st.lists(LENGTHS | st.none(), max_size=60), start=st.integers(0, 511))
def test_records_come_in_their_order_whatever_comes_between(steps: list[int | None], start: int) -> None:
    """None takes the oldest one; a record that finds no place is pushed again later."""
    memory = bytearray(START + (64 << 10))
    for place in (0, 128):
        memory[place : place + 4] = (8 * start).to_bytes(4, "little")
    writer, reader = ends_in(memory, 64 << 10)
    there: deque[bytes] = deque()
    for number, length in enumerate(steps):
        if length is None:
            assert reader.try_pop() == (there.popleft() if there else None)
            continue
        record = content(number, length)
        if writer.try_push(record):
            there.append(record)
        else:
            assert there, "an empty ring with an empty arena takes every record"
            assert writer.wait_writable(length, 0) != 1
    while there:
        assert reader.try_pop() == there.popleft()
    assert reader.try_pop() is None


def test_a_writer_waits_until_enough_slabs_are_back(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    for number in range(4):
        assert writer.try_push(content(number, ARENA // 4))
    assert not writer.try_push(content(4, ARENA // 2))
    assert writer.try_push(b"short"), "what is short does not wait for what is long"
    assert writer.wait_writable(ARENA // 2, 1_000_000) != 1
    reader.try_pop()
    assert writer.wait_writable(ARENA // 4, 0) == 1
    assert writer.wait_writable(ARENA // 2, 1_000_000) != 1
    reader.try_pop()
    assert writer.wait_writable(ARENA // 2, 0) == 1
    assert writer.try_push(content(4, ARENA // 2))
    assert [reader.try_pop() for _ in range(4)] == [
        content(2, ARENA // 4),
        content(3, ARENA // 4),
        b"short",
        content(4, ARENA // 2),
    ]


def test_what_no_arena_can_hold_is_refused_with_its_length(memory: mmap) -> None:
    writer, _ = ends_in(memory)
    text = f"a record of {ARENA + 1} bytes, expected 1 to {ARENA} in a ring of {RING} with an arena of {ARENA}"
    with pytest.raises(SpecError, match=text):
        writer.try_push(bytes(ARENA + 1))
    with pytest.raises(SpecError, match=text):
        writer.wait_writable(ARENA + 1, 0)


# --- its memory ---


def test_the_same_memory_is_used_again_and_as_little_as_suffices(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    assert writer.backed == 0
    for number in range(50):
        assert writer.try_push(content(number, STEP))
        assert reader.try_pop() == content(number, STEP)
    assert writer.backed == STEP
    for number in range(50):  # one is always out
        assert writer.try_push(content(number, STEP // 4))
        if number:
            assert reader.try_pop() == content(number - 1, STEP // 4)
    assert writer.backed == STEP


def test_memory_is_given_back_when_records_stay_shorter(memory: mmap) -> None:
    writer, reader = ends_in(memory)

    def passes(length: int) -> None:
        assert writer.try_push(bytes(length))
        assert reader.try_pop() == bytes(length)

    passes(ARENA)
    assert writer.backed == ARENA
    for _ in range(100):
        passes(2 * STEP)
    assert 2 * STEP <= writer.backed <= 4 * STEP


def test_memory_of_records_that_lie_there_together_is_kept_while_some_lie_there_alone(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    kept: set[int] = set()
    for together in (2, 1, 1, 1, 1, 1, 1, 1) * 4:
        for _ in range(together):
            assert writer.try_push(bytes(STEP - 64))
        kept.add(writer.backed)
        for _ in range(together):
            assert reader.try_pop() is not None
    assert kept == {2 * STEP}


def test_memory_is_given_back_by_the_step_once_no_long_record_has_come_for_some_time(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    start = time.monotonic_ns()
    for number in range(2):
        assert writer.try_push(content(number, ARENA))
        assert reader.try_pop() == content(number, ARENA)
        for _ in range(2000):
            assert writer.try_push(b"short")
            assert reader.try_pop() == b"short"
        assert writer.backed == ARENA or time.monotonic_ns() - start >= NATIVE["ARENA_RESTS_NS"]
    assert writer.try_push(content(2, ARENA))
    time.sleep(NATIVE["ARENA_RESTS_NS"] / 1e9)
    assert writer.try_push(b"short")
    assert writer.backed == ARENA, "a record lies in it"
    assert [reader.try_pop(), reader.try_pop()] == [content(2, ARENA), b"short"]
    for left in range(ARENA - STEP, -1, -STEP):
        assert writer.try_push(b"short")
        assert reader.try_pop() == b"short"
        assert writer.backed == left
    assert not any(memory[START:]), "what was given back reads as zeros"
    assert writer.try_push(content(3, ARENA))
    assert reader.try_pop() == content(3, ARENA)


def test_the_arenas_of_a_process_share_a_bound_and_those_at_rest_give_way() -> None:
    size = NATIVE["ARENAS_LARGEST"] // 4
    at_rest, busy = [ends_in(shared(size), size) for _ in range(3)], ends_in(shared(size), size)
    for writer, reader in [*at_rest, busy]:
        assert writer.try_push(bytes(size))
        if writer is not busy[0]:
            assert reader.try_pop() == bytes(size)
    writer, reader = ends_in(shared(size), size)
    assert writer.try_push(bytes(size))
    assert sorted(other.backed for other, _ in at_rest) == [0, size, size]
    assert busy[1].try_pop() == bytes(size)
    assert reader.try_pop() == bytes(size)


def test_where_there_is_no_memory_nothing_is_pushed_and_the_longest_record_is_what_there_is() -> None:
    fd = os.memfd_create("arena")
    try:
        os.ftruncate(fd, START + ARENA)
        memory = mmap(fd, START + ARENA)
        os.ftruncate(fd, START + 4 * STEP)  # as where the system has none: it cannot be touched
        writer, reader = ends_in(memory)
        assert writer.try_push(content(1, 2 * STEP))
        assert reader.try_pop() == content(1, 2 * STEP)
        assert writer.largest == ARENA
        taken = os.fstat(fd).st_blocks
        assert not writer.try_push(content(2, 5 * STEP))
        assert os.fstat(fd).st_blocks == taken, "what was got is given back"
        assert reader.try_pop() is None
        assert writer.largest == writer.backed == 2 * STEP
        assert writer.wait_writable(5 * STEP, 0) == 1, "waiting does not help; it has to be cut"
        assert writer.try_push(content(3, 2 * STEP))
        assert reader.try_pop() == content(3, 2 * STEP)
    finally:
        os.close(fd)


# --- what a peer may claim ---


def put_reference(memory: mmap, begin: int, length: int, *, message: int = 0, call: int = 3) -> None:
    """Write a reference as the ring's only record, as a hostile writer can."""
    words = [NATIVE["RING_REFERENCE"].to_bytes(4, "little"), message.to_bytes(4, "little")]
    words += [value.to_bytes(8, "little") for value in (begin, length, call)]
    memory[HEAD_BYTES : HEAD_BYTES + 32] = b"".join(words)
    memory[:4] = (32).to_bytes(4, "little")


ODD = st.sampled_from([0, 1, 63, 64, ARENA - 1, ARENA, ARENA + 1, 2**31, 2**32, 2**63, 2**64 - 1]) | st.integers(
    0, 2**64 - 1
)


@given(begin=ODD | st.integers(0, ARENA), length=ODD | st.integers(0, 2 * LONG))
def test_a_reference_is_believed_as_far_as_it_lies_in_the_arena(begin: int, length: int) -> None:
    memory = shared()
    _, reader = ends_in(memory)
    put_reference(memory, begin, length)
    if length and begin + length <= ARENA:
        assert reader.try_pop() == bytes(length)
        return
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=f"refers to {length} bytes at {begin} of an arena of {ARENA};"):
            reader.try_pop()


def test_a_reference_without_an_arena_or_only_partly_there_is_refused() -> None:
    memory = shared()
    put_reference(memory, 0, 100)
    with pytest.raises(RemoteProtocolError, match="claims 4294967294 bytes, expected 1 to 1020"):
        open_reader(memory, 0, RING).try_pop()
    memory[:4] = (24).to_bytes(4, "little")
    with pytest.raises(RemoteProtocolError, match="claims 28 bytes, but only 24 bytes are published"):
        ends_in(memory)[1].try_pop()


def test_two_references_to_the_same_bytes_cost_nothing_but_their_truth(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    assert writer.try_push(content(1, 2 * LONG))
    memory[HEAD_BYTES + 32 : HEAD_BYTES + 64] = memory[HEAD_BYTES : HEAD_BYTES + 32]
    memory[:4] = (64).to_bytes(4, "little")
    assert [reader.try_pop() for _ in range(3)] == [content(1, 2 * LONG), content(1, 2 * LONG), None]


def test_a_record_that_is_rewritten_while_it_is_copied_changes_bytes_and_nothing_else(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    stop = threading.Event()

    def rewrite() -> None:
        while not stop.is_set():
            for place in range(START, START + 128, 4):
                memory[place : place + 4] = os.urandom(4)

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for _ in range(100):
            assert writer.push(1, 5, bytes(STEP + 1))
            popped: Any = reader.pop_batch(1)
            if isinstance(popped, list):  # its head now says that the payload is the rest, with up to 3 bytes behind it
                assert STEP + 66 <= sum(map(len, popped)) <= STEP + 69
            else:
                assert len(popped if isinstance(popped, bytes) else popped[2]) in (STEP + 1, STEP + 69)
    finally:
        stop.set()
        thread.join()


def test_a_message_above_the_readers_limit_is_left_unread_and_its_call_named(memory: mmap) -> None:
    writer, reader = ends_in(memory)
    reader.limit(200_000)
    assert writer.push(0, 7, bytes(200_001))
    assert writer.try_push(content(1, 300_000), 8, 250_000)  # an envelope with more than its message
    assert writer.try_push(content(2, 300_000), 9, 1)  # and one whose sender lies about that
    assert writer.push(0, 10, bytes(200_000))
    assert writer.push(2, 11, b"item")
    assert writer.push(2, 11, bytes(200_001))
    found = [reader.pop_batch(64) for _ in range(6)]
    assert found[:3] == [(7, 200_001, 200_000), (8, 250_000, 200_000), (9, 300_000 - (64 << 10), 200_000)]
    assert found[3] == (0, 10, bytes(200_000), 0, 0, 0, None)
    assert found[5] == (11, 200_001, 200_000)
    assert writer.try_push(bytes(ARENA)), "what is left unread is given back"


# --- threads ---


def copy_in_a_thread(use: Callable[[], object], is_copying: Callable[[], bool]) -> tuple[threading.Thread, list[str]]:
    """Begin a long copy; return its thread while it copies, and what it will have raised."""
    errors: list[str] = []

    def run() -> None:
        try:
            use()
        except ClosedError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while not is_copying() and thread.is_alive():
        pass
    return thread, errors


def closed() -> ClosedError:
    return ClosedError("it is closed")


def test_no_thread_writes_into_the_memory_of_an_end_that_is_shut() -> None:
    memory, long = shared(MUCH), b"x" * MUCH
    writer, _ = ends_in(memory, MUCH)
    thread, errors = copy_in_a_thread(lambda: writer.try_push(long), lambda: not writer.try_push(b"short"))
    writer.shut(closed)
    there = memory[-1:]
    thread.join()
    assert memory[-1:] == there, "the memory may be another client's by now"
    assert errors == ["it is closed"] or memory[:4] != bytes(4)


class SharedMemory(mmap):
    """Memory of a file system, whose free space is asked for before a slab is written."""

    def has_room(self, more: int) -> bool:
        self.on_asked()
        return True

    def on_asked(self) -> None:
        pass


def test_an_end_that_is_shut_before_it_copies_writes_nothing() -> None:
    memory = SharedMemory(-1, START + ARENA)
    writer, _ = ends_in(memory)
    memory.on_asked = lambda: writer.shut(closed)
    with pytest.raises(ClosedError, match="it is closed"):
        writer.try_push(content(1, ARENA))
    assert memory[START:] == bytes(ARENA)
    assert writer.backed == 0


def test_a_reader_that_is_shut_while_it_copies_gives_nothing_back() -> None:
    memory = shared(MUCH)
    writer, reader = ends_in(memory, MUCH)
    assert writer.try_push(bytes(MUCH))
    thread, errors = copy_in_a_thread(reader.try_pop, lambda: not reader.ready() or reader.try_pop() is None)
    reader.shut(closed)
    read = memory[128:132]
    thread.join()
    assert memory[128:132] == read, "the ring may be another client's by now"
    assert (errors == ["it is closed"]) == (read == bytes(4))


def test_a_forked_child_shuts_an_end_in_which_its_parent_copies() -> None:
    writer, _ = ends_in(shared(MUCH), MUCH)
    long = bytes(MUCH)
    thread, _ = copy_in_a_thread(lambda: writer.try_push(long), lambda: not writer.try_push(b"short"))
    pid = os.fork()
    if not pid:
        signal.alarm(int(PATIENCE_S))
        writer.shut(closed)
        os._exit(0)
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_nothing_passes_a_record_that_is_being_copied() -> None:
    """A second thread, which may not push at the same time, finds no place; it breaks nothing."""
    writer, reader = ends_in(shared(MUCH), MUCH)
    pushed: list[bool] = []

    def is_refused() -> bool:
        pushed.append(writer.try_push(b"short"))
        return not pushed[-1]

    thread, _ = copy_in_a_thread(lambda: writer.try_push(bytes(MUCH)), is_refused)
    thread.join()
    assert sorted(iter(reader.try_pop, None), key=len) == [b"short"] * sum(pushed) + [bytes(MUCH)]
