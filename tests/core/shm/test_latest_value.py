"""The newest record in shared memory: never torn, never stale, never waited for."""

from __future__ import annotations

import os
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, SegmentError
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.slot_files.latest_value import LatestValueFile, LatestValueState

_SECOND_NS = 1_000_000_000


@pytest.fixture
def pair(tmp_path: Path) -> tuple[LatestValueFile, LatestValueFile]:
    """A writer and a reader of the same file."""
    writer = LatestValueFile.create(tmp_path / "engine.looks.1", 1000)
    return writer, LatestValueFile.open(writer.path)


def test_the_newest_record_is_read_as_often_as_one_likes(pair: tuple[LatestValueFile, LatestValueFile]) -> None:
    writer, reader = pair
    assert reader.read() is None
    for number in range(10):
        assert writer.put(b"%d" % number)
    assert [reader.read(), reader.read()] == [b"9", b"9"]


def test_a_record_that_does_not_fit_changes_nothing(pair: tuple[LatestValueFile, LatestValueFile]) -> None:
    writer, reader = pair
    writer.put(b"small")
    assert not writer.put(bytes(5000))
    assert reader.read() == b"small"


def test_a_reader_waits_for_a_newer_record_and_for_the_end(pair: tuple[LatestValueFile, LatestValueFile]) -> None:
    writer, reader = pair
    mark = reader.mark
    assert reader.wait(mark, 1, 1_000_000) == Result.TIMED_OUT
    timer = threading.Timer(0.02, writer.put, [b"x"])
    timer.start()
    assert reader.wait(mark, 1, 10 * _SECOND_NS) == 1
    timer.join()
    mark = reader.mark
    writer.end(LatestValueState.ENDED)
    assert reader.wait(mark, 1, 10 * _SECOND_NS) == 1
    assert (reader.state, reader.read()) == (LatestValueState.ENDED, b"x")


def test_a_reader_in_another_process_never_sees_half_of_a_record(pair: tuple[LatestValueFile, LatestValueFile]) -> None:
    writer, reader = pair
    child = os.fork()
    if child == 0:
        for number in range(1, 200_000):
            writer.put(struct.pack("<I", number) * 200)
        os._exit(0)
    try:
        seen = []
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            record = reader.read()
            if record is not None:
                assert record == record[:4] * 200
                seen.append(struct.unpack_from("<I", record)[0])
        child = 0
    finally:
        if child:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert seen == sorted(seen)
    assert struct.unpack_from("<I", reader.read() or b"")[0] == 199_999


@given(st.binary(min_size=0, max_size=400), st.integers(0, 4500))
def test_garbage_in_the_file_is_refused_or_read_but_nothing_worse(garbage: bytes, at: int) -> None:
    path = Path(f"/dev/shm/lucky_test_{os.getpid()}.looks.1")
    writer = LatestValueFile.create(path, 100)
    try:
        writer.put(b"fine")
        memory = bytearray(path.read_bytes())
        memory[at : at + len(garbage)] = garbage
        path.write_bytes(memory)
        with suppress(SegmentError, RemoteProtocolError):
            LatestValueFile.open(path).read()
    finally:
        writer.unlink()


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.looks.1"
    with pytest.raises(SegmentError, match="cannot be opened"):
        LatestValueFile.open(path)
    path.touch(0o600)
    path.write_bytes(b"short")
    with pytest.raises(SegmentError, match="5 bytes are no shared session"):
        LatestValueFile.open(path)
    path.write_bytes(bytes(8192))
    with pytest.raises(SegmentError, match="magic 0x0"):
        LatestValueFile.open(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(SegmentError, match="symbolic link"):
        LatestValueFile.open(path)
