"""ImageStream in shared memory: handed over, given back, never torn, and gone when they are not needed."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest

from lucky_transport.errors import ClosedError, NoSpace, SegmentError
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files import image_store
from lucky_transport.shm.slot_files.image_reader import SharedImageLease
from lucky_transport.shm.slot_files.image_store import AHEAD, SLOTS, ImageStores
from tests.core.shm.image_ends import SIZE, Ends, claim_of, read


def test_a_copy_is_what_was_put_and_gives_the_slot_back(ends: Ends) -> None:
    for number in range(5 * SLOTS):
        image = bytes([number]) * SIZE
        assert read(ends.put(image)) == [image]
    assert len(ends.files) == 1


def test_images_of_one_message_have_places_of_their_own(ends: Ends) -> None:
    claim = ends.put(b"a" * 10, b"", b"b" * 5000)
    assert read(claim, count=3) == [b"a" * 10, b"", b"b" * 5000]


def test_a_image_drawn_into_a_buffer_is_not_copied(ends: Ends) -> None:
    buffer = ends.image_sink.buffer(SIZE)
    buffer[:] = b"x" * SIZE
    (place,) = ends.image_sink.put([buffer])
    found = read(claim_of(ends.reader, [place]), copy=False)
    assert found == [b"x" * SIZE]
    assert found is not None
    buffer[0] = ord("y")  # an engine must not; it shows that both see the same memory
    assert found[0][0] == ord("y")


def test_a_view_cannot_be_written_to_and_stays_while_it_is_held(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    found = read(claim, copy=False)
    assert found is not None
    view = memoryview(found[0])
    with pytest.raises(TypeError):
        view[0] = 0
    for number in range(4 * SLOTS):
        assert read(ends.put(bytes([number]) * SIZE)) == [bytes([number]) * SIZE]
    assert view == b"a" * SIZE


def test_a_view_outlives_release_file_and_reader(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    found = read(claim, copy=False)
    claim.release()
    ends.image_sink.end(lost=True)
    ends.reader.close()
    assert found == [b"a" * SIZE]


def test_a_claim_that_is_dropped_unread_gives_its_slot_back(ends: Ends) -> None:
    for number in range(3 * SLOTS):
        ends.put(bytes([number]) * SIZE)
    assert len(ends.files) == 1


def test_a_claim_gives_back_only_what_is_still_its_own(ends: Ends) -> None:
    (place,) = ends.image_sink.put([b"a" * SIZE])
    first, again = claim_of(ends.reader, [place]), claim_of(ends.reader, [place])
    first.release()
    held = [ends.put(b"b" * SIZE) for _ in range(SLOTS)]
    again.release()
    ends.put(b"c" * SIZE)
    assert [read(claim) for claim in held] == [[b"b" * SIZE]] * SLOTS


def test_what_the_client_was_not_told_of_is_free_again(ends: Ends) -> None:
    for _ in range(3 * SLOTS):
        ends.image_sink.take_back(ends.image_sink.put([b"a" * SIZE]))
    assert len(ends.files) == 1


def test_a_client_that_gives_nothing_back_gets_more_up_to_a_limit(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "MAX_FILES", 2)
    held = [ends.put(bytes([number]) * SIZE) for number in range(2 * SLOTS)]
    assert ends.image_sink.put([b"x" * SIZE]) == [ImageRef()]
    assert len(ends.image_sink.buffer(SIZE)) == SIZE  # plain memory, whose image then stays in its message
    assert [read(claim) for claim in held] == [[bytes([number]) * SIZE] for number in range(2 * SLOTS)]
    assert ends.image_sink.put([b"x" * SIZE])[0].file > 0


def test_growing_images_leave_their_small_files_behind(ends: Ends) -> None:
    for size in (1000, 10_000, 100_000, 1_000_000):
        assert read(ends.put(b"a" * size)) == [b"a" * size]
        assert len(ends.files) == 1


def test_a_image_that_is_no_bytes_is_refused(ends: Ends) -> None:
    with pytest.raises(TypeError, match="data is ndarray, expected bytes"):
        ends.image_sink.put([np.zeros(3, np.uint8)])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]


def test_a_client_gets_no_more_images_than_it_can_see_fresh(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(image_store, "monotonic_ns", lambda: now)
    held: list[SharedImageLease] = []
    while ends.image_sink.has_room():
        held.append(ends.put(bytes([len(held)]) * SIZE))
    assert len(held) == AHEAD
    now += 10_000_000
    while len(held) > SLOTS - 1:
        assert not ends.image_sink.has_room()
        assert read(held.pop(0)) is not None
    assert ends.image_sink.has_room()
    ends.put(b"a" * SIZE)


def test_nothing_fails_for_the_lack_of_memory_to_be_ahead(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "monotonic_ns", lambda: 0)
    held = [ends.put(b"a" * SIZE)]

    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    while ends.image_sink.has_room():
        held.append(ends.put(b"a" * SIZE))
    assert len(held) == SLOTS


# --- the end ---


def test_the_file_of_a_lost_stream_is_removed_at_once(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    ends.image_sink.end(lost=True)
    assert ends.files == []
    with pytest.raises(SegmentError, match="cannot be opened"):
        read(claim)


def test_the_file_of_a_finished_stream_waits_for_its_reader(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    ends.image_sink.end(lost=False)
    assert len(ends.files) == 1
    assert read(claim) == [b"a" * SIZE]
    ends.store.open().end(lost=False)  # of no concern: it has no file
    ends.image_sink = ends.store.open()
    ends.put(b"b")
    assert len(ends.files) == 1  # the new stream's


def test_streams_do_not_share_files(ends: Ends) -> None:
    other = ends.store.open()
    mine, theirs = ends.put(b"a" * SIZE), claim_of(ends.reader, other.put([b"b" * SIZE]))
    other.end(lost=True)
    assert read(mine) == [b"a" * SIZE]
    with pytest.raises(SegmentError):
        read(theirs)


def test_after_its_client_is_gone_a_store_makes_nothing(ends: Ends) -> None:
    ends.put(b"a")
    ends.store.close()
    assert ends.files == []
    assert ends.store.open().put([b"a"]) == [ImageRef()]
    assert ends.files == []


def test_a_stream_that_finishes_after_its_client_is_gone_keeps_no_memory(base: Path) -> None:
    gc.disable()  # the store and its shared stream hold each other, so a file that it kept would wait for a collection
    try:
        store = ImageStores(base).open()
        sink = store.open()
        sink.put([b"a" * SIZE])  # which the client never gives back
        assert str(base) in Path("/proc/self/maps").read_text()
        store.close()
        sink.end(lost=False)
        del store, sink
        assert str(base) not in Path("/proc/self/maps").read_text()
    finally:
        gc.enable()


def test_a_stream_that_ends_while_it_looks_for_room_makes_no_file(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [ends.put(b"a" * SIZE) for _ in range(SLOTS)]  # the client reads them: the next needs another file

    def ended_meanwhile() -> int:
        ends.image_sink.end(lost=True)
        return time.monotonic_ns()

    monkeypatch.setattr(image_store, "monotonic_ns", ended_meanwhile)
    assert not ends.image_sink.has_room()
    assert ends.files == []
    del kept


def test_a_closed_reader_opens_nothing_and_gives_nothing_back(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    ends.reader.close()
    with pytest.raises(ClosedError):
        read(claim)


def test_no_space_is_an_error_with_the_remedy_and_leaves_nothing(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpace, match=r"images of \d+ bytes does not fit .*ask for smaller images"):
        ends.put(b"a" * SIZE)
    assert ends.files == []
