"""Images in shared memory: handed over, given back, never torn, gone when not needed; and what a liar gets."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ClosedError, NoSpace, RemoteProtocolError, SegmentError
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.images import ImageBytes
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files import image_store
from lucky_transport.shm.slot_files.image_file import ImageFile, remove_images
from lucky_transport.shm.slot_files.image_reader import ImageReader, SharedImageLease
from lucky_transport.shm.slot_files.image_store import AHEAD, SLOTS, ImageStores

#: Bytes of an image.
SIZE = 100_000


def claim_of(reader: ImageReader, places: list[ImageRef]) -> SharedImageLease:
    return reader.claim(b"", list(places))


class Ends:
    """A store and a reader of the same segment."""

    def __init__(self, base: Path) -> None:
        self.folder = base.parent
        self.store = ImageStores(base).open()
        self.image_sink = self.store.open()
        self.reader = ImageReader(base, lambda: None)

    def put(self, *data: bytes) -> SharedImageLease:
        return claim_of(self.reader, self.image_sink.put(data))

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def read(claim: SharedImageLease, *, copy: bool = True, count: int = 1) -> list[ImageBytes] | None:
    """Return what the claim's images are, None when they are gone."""
    frames = [ImageFrame() for _ in range(count)]
    return [frame.data for frame in frames] if claim.fill(frames, copy) else None


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The path of a segment, beside which its images lie."""
    return tmp_path / "segment"


@pytest.fixture
def ends(base: Path) -> Iterator[Ends]:
    """Both ends of its images; at the end no file may be left."""
    both = Ends(base)
    yield both
    both.store.close()
    assert both.files == []


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have no space from the call on."""
    refused = OSError(28, "No space left on device")
    return lambda: monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=refused))


@pytest.mark.parametrize(
    "pass_on",
    [
        lambda ends, image: read(ends.put(image)),
        lambda ends, image: ends.put(image),
        lambda ends, image: ends.image_sink.take_back(ends.image_sink.put([image])),
    ],
    ids=["read", "dropped unread", "not told of"],
)
def test_an_image_that_is_not_needed_gives_its_slot_back(ends: Ends, pass_on: Callable[[Ends, bytes], object]) -> None:
    for number in range(5 * SLOTS):
        image = bytes([number]) * SIZE
        pass_on(ends, image)
        assert read(ends.put(image)) == [image]
    assert len(ends.files) == 1


def test_a_image_drawn_into_a_buffer_is_not_copied(ends: Ends) -> None:
    buffer = ends.image_sink.buffer(SIZE)
    buffer[:] = b"x" * SIZE
    (place,) = ends.image_sink.put([buffer])
    found = read(claim_of(ends.reader, [place]), copy=False)
    assert found == [b"x" * SIZE]
    assert found is not None
    buffer[0] = ord("y")  # an engine must not; it shows that both see the same memory
    assert found[0][0] == ord("y")


def test_a_view_cannot_be_written_to_and_stays_while_it_is_held_whatever_ends(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    found = read(claim, copy=False)
    assert found is not None
    view = memoryview(found[0])
    with pytest.raises(TypeError):
        view[0] = 0
    for number in range(4 * SLOTS):
        assert read(ends.put(bytes([number]) * SIZE)) == [bytes([number]) * SIZE]
    assert view == b"a" * SIZE
    claim.release()
    ends.image_sink.end(lost=True)
    ends.reader.close()
    assert view == b"a" * SIZE


def test_a_claim_gives_back_only_what_is_still_its_own(ends: Ends) -> None:
    (place,) = ends.image_sink.put([b"a" * SIZE])
    first, again = claim_of(ends.reader, [place]), claim_of(ends.reader, [place])
    first.release()
    held = [ends.put(b"b" * SIZE) for _ in range(SLOTS)]
    again.release()
    ends.put(b"c" * SIZE)
    assert [read(claim) for claim in held] == [[b"b" * SIZE]] * SLOTS


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


def test_nothing_fails_for_the_lack_of_memory_to_be_ahead(
    ends: Ends, full: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "monotonic_ns", lambda: 0)
    held = [ends.put(b"a" * SIZE)]
    full()
    while ends.image_sink.has_room():
        held.append(ends.put(b"a" * SIZE))
    assert len(held) == SLOTS


# --- the end ---


def test_the_file_of_a_lost_stream_is_removed_at_once_and_that_of_another_is_not(ends: Ends) -> None:
    other = ends.store.open()
    mine, theirs = ends.put(b"a" * SIZE), claim_of(ends.reader, other.put([b"b" * SIZE]))
    other.end(lost=True)
    assert len(ends.files) == 1
    assert read(mine) == [b"a" * SIZE]
    with pytest.raises(SegmentError, match="cannot be opened"):
        read(theirs)


def test_the_file_of_a_finished_stream_waits_for_its_reader(ends: Ends) -> None:
    claim = ends.put(b"a" * SIZE)
    ends.image_sink.end(lost=False)
    assert len(ends.files) == 1
    assert read(claim) == [b"a" * SIZE]
    ends.store.open().end(lost=False)  # of no concern: it has no file
    ends.image_sink = ends.store.open()
    ends.put(b"b")
    assert len(ends.files) == 1  # the new stream's


def test_after_its_client_is_gone_a_store_makes_nothing_and_a_closed_reader_opens_nothing(ends: Ends) -> None:
    claim = ends.put(b"a")
    ends.reader.close()
    with pytest.raises(ClosedError):
        read(claim)
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


def test_no_space_is_an_error_with_the_remedy_and_leaves_nothing(ends: Ends, full: Callable[[], None]) -> None:
    full()
    with pytest.raises(NoSpace, match=r"images of \d+ bytes does not fit .*ask for smaller images"):
        ends.put(b"a" * SIZE)
    assert ends.files == []


def test_a_file_that_a_killed_engine_left_is_passed_over(base: Path) -> None:
    left = base.with_name("segment.images.1")
    left.write_bytes(b"left")
    stores = ImageStores(base)
    store = stores.open()
    assert store.open().put([b"a"])[0].file == 2
    remove_images(base)
    assert list(base.parent.iterdir()) == []
    store.close()


@given(
    slot=st.integers(0, 2**32 - 1),
    length=st.integers(0, 2**64 - 1),
    number=st.integers(0, 2**32 - 1),
    copy=st.booleans(),
)
def test_any_place_gives_a_image_nothing_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, slot: int, length: int, number: int, copy: bool
) -> None:
    ends = Ends(tmp_path_factory.mktemp("images") / "segment")
    (place,) = ends.image_sink.put([b"a" * 10])
    claim = claim_of(ends.reader, [ImageRef(length, place.file, slot, number)])
    if slot < SLOTS and length <= 4096:
        found = read(claim, copy=copy)
        assert (found is not None) == (ends.reader.file(place.file).words[slot].number() == number)
    else:
        with pytest.raises(RemoteProtocolError, match="which has 3 of 4096 bytes"):
            read(claim, copy=copy)
    claim.release()
    ends.store.close()


def test_more_or_fewer_places_than_images_are_refused(ends: Ends) -> None:
    claim = ends.put(b"a", b"b")
    with pytest.raises(RemoteProtocolError, match="1 images came with 2 places"):
        read(claim)


@pytest.mark.parametrize(
    ("offset", "value"), [(0, 1), (4, 9), (8, 0), (8, 2), (8, 2**31), (16, 0), (16, 4095), (16, 2**63), (20, 1)]
)
def test_a_file_whose_head_lies_is_refused(ends: Ends, offset: int, value: int) -> None:
    claim = ends.put(b"a" * SIZE)
    (path,) = ends.folder.iterdir()
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SegmentError, match="sizes that fit"):
        read(claim)


@pytest.mark.parametrize("size", [0, 10, 4096])
def test_a_file_that_is_cut_short_is_refused_before_it_is_looked_at(ends: Ends, size: int) -> None:
    claim = ends.put(b"a" * SIZE)
    (path,) = ends.folder.iterdir()
    os.truncate(path, size)
    with pytest.raises(SegmentError):
        read(claim)


def test_a_link_is_not_followed(ends: Ends, tmp_path: Path) -> None:
    claim = ends.put(b"a" * SIZE)
    (path,) = ends.folder.iterdir()
    moved = path.rename(path.with_name("moved"))
    path.symlink_to(moved)
    with pytest.raises(SegmentError, match="symbolic link"):
        read(claim)
    moved.unlink()


def _number(file: ImageFile, slot: int, number: int) -> None:
    """Number a slot whoever owns it, as no honest engine does."""
    word = 64 + 128 * slot
    memoryview(file.mapping)[word : word + 4].cast("I")[0] = number


def test_a_image_that_was_overwritten_is_none(ends: Ends) -> None:
    (place,) = ends.image_sink.put([b"a" * SIZE])
    file = ends.reader.file(place.file)
    _number(file, place.slot, place.number + 2)
    assert read(claim_of(ends.reader, [place])) is None
    _number(file, place.slot, place.number - 1)
    assert read(claim_of(ends.reader, [place]), copy=False) is None
    _number(file, place.slot, place.number)
    assert read(claim_of(ends.reader, [place])) == [b"a" * SIZE]


def _overwrite(file: ImageFile, stop: threading.Event) -> None:
    """Write image after image into slot 0, whoever owns it."""
    size = file.slot_bytes
    into = np.frombuffer(file.bytes_of(0, size), np.uint8)
    images = [np.full(size, value, np.uint8) for value in range(1, 5)]
    number = 0
    while not stop.is_set():
        number += 2
        _number(file, 0, number - 1)
        np.copyto(into, images[number % 4])
        _number(file, 0, number)
        stop.wait(0.02 if number % 128 == 0 else 0.0002)  # now and then long enough for any reader


def test_a_writer_that_never_stops_and_ignores_its_reader_is_never_seen_torn(base: Path) -> None:
    file = ImageFile.create(base, 1, 1, 1 << 20)
    stop = threading.Event()
    writer = threading.Thread(target=_overwrite, args=(file, stop))
    writer.start()
    reader = ImageReader(base, lambda: None)
    whole = tries = 0
    until = time.monotonic() + 30
    try:
        while tries < 1000 or (not whole and time.monotonic() < until):
            tries += 1
            found = read(claim_of(reader, [ImageRef(file.slot_bytes, 1, 0, file.words[0].number())]))
            if found is not None:
                assert len(set(found[0][::4096])) == 1
                whole += 1
    finally:
        stop.set()
        writer.join()
        file.unlink()
    assert whole > 0
