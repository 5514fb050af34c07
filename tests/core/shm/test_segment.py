"""Segments: made, found, taken over, refused, and gone afterwards."""

import gc
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, ConfigError, NoSpace, NotReachable, SegmentError
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.segment import header, segment, segment_files
from lucky_transport.shm.segment.layout import FIELDS, HEADER_BYTES, Feature
from lucky_transport.shm.segment.segment import Segment, view
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.waiting import PATIENCE_S

SPEC = BatchSpec("toy", 3, ArraySpec("float32", (5,)), ArraySpec("float32", (2,), -1.0, 1.0))
RING = 4096


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Segment]:
    one = segment.create("one", SPEC, ring_bytes=RING, arena_bytes=64 << 10, directory=tmp_path)
    one.publish_ready()
    yield one
    one.unlink()


def _lay(directory: Path, name: str, content: bytes | bytearray) -> Path:
    """Lay a file of ours where a segment would be."""
    (directory / name).touch(0o600)
    (directory / name).write_bytes(content)
    return directory / name


def _open(directory: Path, name: str = "one", timeout_s: float = 0.0) -> Segment:
    return segment.open_segment(name, Deadline(timeout_s), directory=directory)


def test_what_the_engine_wrote_is_what_the_client_reads(made: Segment, tmp_path: Path) -> None:
    seen = _open(tmp_path)
    assert seen.spec == SPEC
    assert {k: v for k, v in made.layout.regions.items() if k in seen.layout.regions} == seen.layout.regions


def test_an_independent_reader_finds_every_seed_field_at_its_offset(made: Segment) -> None:
    """Reads the raw file by hand-added offsets, without any code of the project."""
    raw = made.path.read_bytes()
    magic, version, pid, client = struct.unpack_from("<IIII", raw, 0)
    assert (magic, version, pid, client) == (0x4C524243, 1, os.getpid(), 0)
    assert struct.unpack_from("<B", raw, 16) == (0,)
    assert struct.unpack_from("<III", raw, 20) == (3, 5, 2)
    assert struct.unpack_from("<Q", raw, 128) == (0,)
    assert struct.unpack_from("<Q", raw, 256) == (0,)
    obs, act, rewards, dones, resets, s2c, c2s = struct.unpack_from("<7Q", raw, 384)
    (ring,) = struct.unpack_from("<I", raw, 440)
    assert obs == 4096
    assert act == 4096 + 64  # 3 * 5 * 4 = 60 bytes, on a 64-byte boundary
    assert rewards == act + 64
    assert dones == rewards + 64
    assert resets == dones + 128  # truncated lies between
    assert s2c == resets + 128  # signals lie between
    assert c2s == s2c + 256 + RING
    assert ring == RING
    assert struct.unpack_from("<QIII", raw, 448) == (0, 0, 0, 0)


def test_the_file_is_private_and_as_large_as_it_says(made: Segment) -> None:
    status = made.path.stat()
    assert status.st_mode & 0o777 == 0o600
    assert status.st_size == made.layout.file_bytes == len(made.mapping)
    assert header.get(made.mapping, "total_size") == made.layout.total_size < made.layout.arena_offset + 1
    allocated = status.st_blocks * 512
    assert allocated >= made.layout.total_size  # not sparse: no later touch can fail
    assert allocated < made.layout.total_size + made.layout.arena_bytes  # the arenas have no memory yet


def test_a_segment_has_no_arenas_where_no_memory_is_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "can_be_refused", lambda: False)
    made = segment.create("small", SPEC, ring_bytes=RING, directory=tmp_path)
    assert not header.get(made.mapping, "engine_features") & Feature.ARENAS
    assert made.path.stat().st_size == made.layout.total_size
    made.unlink()


def test_a_segment_is_not_ready_before_its_version_is_written(tmp_path: Path) -> None:
    one = segment.create("slow", SPEC, ring_bytes=RING, directory=tmp_path)
    with pytest.raises(NotReachable, match="slow"):
        _open(tmp_path, "slow", timeout_s=0.01)
    one.publish_ready()
    assert _open(tmp_path, "slow").spec == SPEC
    one.unlink()


def test_a_second_engine_of_the_same_name_is_refused_with_the_owners_pid(made: Segment, tmp_path: Path) -> None:
    with pytest.raises(Busy, match=f"pid {os.getpid()}"):
        segment.create("one", SPEC, directory=tmp_path)


def test_an_engine_waits_for_a_process_that_removes_what_a_dead_one_left(tmp_path: Path) -> None:
    taken, take = os.pipe()
    if not (pid := os.fork()):
        lock = lockfile.acquire(f"{tmp_path}/one.lock", lockfile.ENGINE)
        os.write(take, b"taken")
        time.sleep(0.05)
        if lock is not None:
            lock.release(unlink=True)
        os._exit(0)
    assert os.read(taken, 5) == b"taken"
    segment.create("one", SPEC, directory=tmp_path).unlink()
    os.waitpid(pid, 0)
    for fd in (taken, take):
        os.close(fd)


def _leave_a_dead_engines_segment(directory: Path) -> None:
    if not (pid := os.fork()):
        segment.create("one", replace(SPEC, num_envs=9), directory=directory).publish_ready()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (directory / "one").exists()


def test_a_client_waits_for_the_engine_after_a_dead_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _leave_a_dead_engines_segment(tmp_path)
    made: list[Segment] = []

    def come(_: float) -> None:  # in place of the first sleep
        monkeypatch.undo()
        made.append(segment.create("one", SPEC, ring_bytes=RING, directory=tmp_path))
        made[0].publish_ready()

    monkeypatch.setattr("lucky_transport.shm.segment.segment.time.sleep", come)
    assert segment.open_segment("one", Deadline(PATIENCE_S), directory=tmp_path).spec.num_envs == 3
    made[0].unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_client_waits_for_an_engine_that_is_about_to_take_a_dead_ones_segment_over(tmp_path: Path) -> None:
    _leave_a_dead_engines_segment(tmp_path)
    starting = lockfile.acquire(f"{tmp_path}/one.lock", lockfile.ENGINE)
    assert starting is not None
    with pytest.raises(NotReachable, match=r"no engine at shm://one after 0.05 s: .* is never made ready"):
        segment.open_segment("one", Deadline(0.05), directory=tmp_path)
    starting.release()
    with pytest.raises(NotReachable, match="is gone"):
        _open(tmp_path)


def test_stale_segments_are_listed_and_removed_and_living_ones_are_kept(made: Segment, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _leave_a_dead_engines_segment(other)
    (found,) = segment_files.find(other)
    assert found.stale
    assert found.num_envs == 9
    assert segment_files.remove_stale(other) == [found]
    assert list(other.iterdir()) == []
    assert segment_files.remove_stale(tmp_path) == []
    (living,) = segment_files.find(tmp_path)
    assert living.engine_pid == os.getpid()
    assert segment_files.find(tmp_path, living.name) == [living]
    assert segment_files.find(tmp_path, "other_name") == segment_files.find(tmp_path / "nowhere") == []


def test_a_foreign_file_of_that_name_is_neither_read_nor_removed(tmp_path: Path) -> None:
    foreign = _lay(tmp_path, "one", b"somebody's data" * 1000)
    with pytest.raises(SegmentError, match="no segment of ours"):
        segment.create("one", SPEC, directory=tmp_path)
    with pytest.raises(SegmentError, match="magic"):
        _open(tmp_path)
    assert foreign.read_bytes().startswith(b"somebody's data")
    assert segment_files.find(tmp_path) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "x.lock", "a b", "ü", "n" * 201])
def test_a_name_that_cannot_be_a_segment_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shared-memory name"):
        segment.create(name, SPEC, directory=tmp_path)


def test_a_truncated_segment_is_refused_before_any_view_of_it_exists(made: Segment, tmp_path: Path) -> None:
    _lay(tmp_path, "cut", made.path.read_bytes()[: HEADER_BYTES + 100])
    with pytest.raises(SegmentError, match="total_size"):
        _open(tmp_path, "cut")
    _lay(tmp_path, "cut", b"\x43\x42\x52\x4c" + b"\0" * 50)
    with pytest.raises(SegmentError, match="54 bytes"):
        _open(tmp_path, "cut")


def test_another_version_is_refused_with_both(made: Segment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytearray(made.path.read_bytes())
    raw[4:8] = (7).to_bytes(4, "little")
    _lay(tmp_path, "newer", raw)
    with pytest.raises(SegmentError, match=r"version is 7, this side speaks 1; upgrade lucky-transport here: the "):
        _open(tmp_path, "newer")
    monkeypatch.setattr(header, "VERSION", 2)
    with pytest.raises(SegmentError, match=r"version is 1, this side speaks 2; upgrade lucky-transport where the"):
        _open(tmp_path)


def test_an_absent_segment_is_told_with_the_command(made: Segment, tmp_path_factory: pytest.TempPathFactory) -> None:
    absent = f"{made.name}x"
    with pytest.raises(NotReachable) as refused:
        segment.open_segment(absent, Deadline(0), directory=made.path.parent)
    assert str(refused.value) == (
        f"no engine at shm://{absent} after 0 s: {made.path.parent / absent} is not there; engines here: {made.name}; "
        f"did you mean {made.name!r}? start one: lucky-transport serve ENGINE --endpoint shm://{absent}; "
        "`lucky-transport ls` lists what is there"
    )
    with pytest.raises(NotReachable, match="absent is not there; there are no engines here; start one: "):
        _open(tmp_path_factory.mktemp("empty"), "absent")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(set(FIELDS) - {"version", "server_pid", "server_start"})),
    value=st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 8192)),
)
def test_a_hostile_header_field_is_refused_or_harmless(made: Segment, tmp_path: Path, name: str, value: int) -> None:
    """Whatever a peer writes into one field: our error, or a segment whose every region lies inside the mapping."""
    place = FIELDS[name]
    raw = bytearray(made.path.read_bytes())
    size = struct.calcsize("<" + place.code)
    raw[place.offset : place.offset + size] = (value % (1 << (8 * size))).to_bytes(size, "little")
    _lay(tmp_path, "hostile", raw)
    try:
        seen = _open(tmp_path, "hostile")
    except (SegmentError, NotReachable):
        return
    for region in seen.layout.regions.values():
        assert region.offset + region.size <= len(seen.mapping)
    assert seen.spec == SPEC


def test_no_space_is_an_error_before_any_write_leaving_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(NoSpace, match=r"bytes are free.*--shm-size"):
        segment.create("big", SPEC, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


# views


def test_a_view_lies_at_its_offset_and_outlives_everything_else_that_knew_the_mapping() -> None:
    mapping = mmap(-1, 4096)
    array = view(mapping, 64, "float32", (3, 4))
    array[:] = 7
    assert mapping[64:112] == array.tobytes()
    del mapping
    gc.collect()
    assert np.all(array == 7)
