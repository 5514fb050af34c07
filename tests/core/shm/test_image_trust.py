"""Images of a hostile or hasty engine: what lies is refused, what was overwritten is no image, nothing is torn."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, SegmentError
from lucky_transport.rpc.images import ImageRef
from lucky_transport.shm.slot_files.image_file import ImageFile, remove_images
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.slot_files.image_store import SLOTS, ImageStores, ImageStream
from tests.core.shm.image_ends import SIZE, Ends, claim_of, read


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
    file.memory[word : word + 4].cast("I")[0] = number


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
    reader = ImageReader(base)
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


def test_an_honest_writer_never_writes_where_its_reader_looks(ends: Ends) -> None:
    """The writer goes on all the time; views are looked at again and again while they are held."""
    posted: list[ImageRef] = []
    stop = threading.Event()
    writer = threading.Thread(target=_put_all_the_time, args=(ends.image_sink, posted, stop))
    writer.start()
    seen = 0
    try:
        while seen < 200:
            if posted:
                claim = claim_of(ends.reader, [posted.pop(0)])
                found = read(claim, copy=False)
                assert found is not None
                for _ in range(3):
                    assert len(set(found[0][::4096])) == 1
                claim.release()
                seen += 1
    finally:
        stop.set()
        writer.join()


def _put_all_the_time(into: ImageStream, posted: list[ImageRef], stop: threading.Event) -> None:
    value = 0
    while not stop.is_set():
        if len(posted) < 2:
            value = (value + 1) % 256
            posted.extend(into.put([bytes([value]) * SIZE]))
