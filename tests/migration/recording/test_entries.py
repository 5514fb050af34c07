"""Files of recordings and their lines: complete, never overwritten; what is no entry is refused by name."""

import itertools
import json
import logging
import multiprocessing
import os
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import (
    Header,
    RecordedCall,
    Recording,
    Step,
    header_of,
    line_of,
    read_entry,
)
from lucky_transport_migration.recording.recorder import Recorder, recorder_of
from tests.support.waiting import PATIENCE_S, at_once, until

METADATA = st.lists(st.tuples(st.text(), st.text() | st.binary()), max_size=3).map(tuple)
MESSAGES = st.lists(st.binary(max_size=40), max_size=3).map(tuple)
COUNT = st.integers(0, 2**32)


CALLS = st.builds(
    RecordedCall,
    st.text(),
    st.sampled_from(["flatbuffers", "protobuf"]),
    st.text(),
    MESSAGES,
    MESSAGES,
    st.text(),
    st.text(),
    METADATA,
    METADATA,
    st.floats(0, 1e9),
    COUNT,
    st.booleans(),
    COUNT,
    st.booleans(),
)


ARRAYS = [st.binary(max_size=40)] * 5
STEPS = st.builds(Step, COUNT, st.binary(), st.none() | st.binary(), *ARRAYS, st.text(), st.text(), st.floats(0, 1e9))


@given(CALLS | STEPS)
def test_an_entry_comes_back_as_it_was_on_one_line(entry: RecordedCall | Step) -> None:
    line = line_of(entry)
    assert line.count("\n") == 1
    assert read_entry(line.encode()) == entry


def test_what_is_as_usual_takes_no_room() -> None:
    assert json.loads(line_of(RecordedCall("/a.B/C"))) == {"call": "/a.B/C"}


def test_a_header_comes_back_as_it_was() -> None:
    header = Header("shm", "shm://demo", "toy", 7, {"num_envs": 2}, "2026-01-01T00:00:00.000Z")
    assert header_of(line_of(header).encode(), "run.jsonl") == header


HEADER = Header("shm", "shm://demo", "toy")


def calls(path: Path) -> list[str]:
    return [entry.call for entry in Recording(path).entries() if isinstance(entry, RecordedCall)]


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz", "run"])
def test_what_is_written_can_be_read_after_a_flush(tmp_path: Path, name: str) -> None:
    recorder = Recorder(tmp_path / "deep" / name, HEADER)
    for index in range(500):
        recorder.write(RecordedCall(f"/a.B/M{index}"))
    recorder.flush()
    assert calls(recorder.path) == [f"/a.B/M{index}" for index in range(500)]
    header = Recording(recorder.path).header
    assert (header.transport, header.endpoint, header.engine) == ("shm", "shm://demo", "toy")
    assert header.at.endswith("Z")


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_what_an_idle_program_did_last_reaches_the_file_by_itself(tmp_path: Path, name: str) -> None:
    recorder = Recorder(tmp_path / name, HEADER)
    for burst in range(2):
        recorder.write(RecordedCall(f"/a.B/{burst}"))
        recorder.write(RecordedCall(f"/a.C/{burst}"))
        until(lambda count=2 * burst + 2: len(calls(recorder.path)) == count)
    assert calls(recorder.path) == ["/a.B/0", "/a.C/0", "/a.B/1", "/a.C/1"]


def test_without_a_thread_to_flush_later_a_line_is_flushed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    recorder = Recorder(tmp_path / "run.jsonl", HEADER)
    recorder.write(RecordedCall("/a.B/C"))
    assert calls(recorder.path) == ["/a.B/C"]


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    paths = [Recorder(tmp_path / "run.jsonl.gz", HEADER).path.name for _ in range(3)]
    assert paths == ["run.jsonl.gz", "run-2.jsonl.gz", "run-3.jsonl.gz"]


def test_all_connections_to_one_engine_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert recorder_of(path, HEADER) is recorder_of(path, HEADER)
    assert recorder_of(path, Header("shm", "shm://other")).path.name == "run-2.jsonl"


def test_threads_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.jsonl.gz", HEADER)

    def write(name: str) -> None:
        for _ in range(200):
            recorder.write(RecordedCall(name, items=(b"x" * 100,)))
            recorder.flush()

    at_once(*(partial(write, f"/a.B/{index}") for index in range(4)))
    assert sorted(set(calls(recorder.path))) == ["/a.B/0", "/a.B/1", "/a.B/2", "/a.B/3"]
    assert len(calls(recorder.path)) == 800


def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.jsonl", HEADER)
    recorder.write(RecordedCall("/parent"))
    pid = os.fork()
    if not pid:
        recorder.write(RecordedCall("/child"))
        recorder.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    recorder.flush()
    assert calls(tmp_path / "run.jsonl") == ["/parent"]
    assert calls(tmp_path / "run-2.jsonl") == ["/child"]


def test_a_worker_of_multiprocessing_is_recorded_to_its_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.jsonl", HEADER)
    worker = multiprocessing.get_context("fork").Process(target=recorder.write, args=(RecordedCall("/worker"),))
    worker.start()
    worker.join(PATIENCE_S)
    assert calls(tmp_path / "run-2.jsonl") == ["/worker"]


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
@pytest.mark.parametrize("cut", [1, 20, 120])
def test_a_torn_end_hides_nothing_before_it_and_is_said(tmp_path: Path, name: str, cut: int) -> None:
    recording = Recording(_written(tmp_path / name))
    assert (len(list(recording.entries())), recording.torn) == (3, "")
    os.truncate(recording.path, recording.path.stat().st_size - cut)
    found = [one.call for one in recording.entries() if isinstance(one, RecordedCall)]
    assert (
        found == ["/a", "/b", "/c"][: 3 if cut == 1 and name.endswith(".gz") else 2]
    )  # there only its checksum is torn
    assert recording.torn == f"the recording ends in the middle of an entry; {len(found)} were read"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (b'{"call":"/a.B/C","form":"fl', RecordedCall("/a.B/C")),
        (b'{"call":"/a.B/', RecordedCall("unknown")),
        (b'{"step":7,"act', Step(0, b"")),
        (b"{", RecordedCall("unknown")),
        (b'{"call":"/a\xff"', RecordedCall("/a\ufffd")),
        (b"", None),
    ],
)
def test_a_torn_entry_is_what_its_beginning_says(
    tmp_path: Path, line: bytes, entry: RecordedCall | Step | None
) -> None:
    recording = Recording(_written(tmp_path / "run.jsonl"))
    recording.path.write_bytes(recording.path.read_bytes() + line)
    assert len(list(recording.entries())) == 3
    assert recording.cut == entry


def test_a_changed_byte_of_a_compressed_recording_is_found_and_named_or_changes_no_entry(tmp_path: Path) -> None:
    path = _written(tmp_path / "run.jsonl.gz")
    whole, good = path.read_bytes(), list(Recording(path).entries())
    for at, bit in itertools.product(range(len(whole)), (1, 8, 128)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        found = _damage(path)
        is_named = "run.jsonl.gz: line " in found or "run.jsonl.gz is " in found
        is_torn = "ends in the middle of an entry" in found  # where its own end is not found
        assert is_named or is_torn or (not found and list(Recording(path).entries()) == good), at


@pytest.mark.parametrize("lost", [1, 7, 60])
def test_where_bytes_are_missing_it_is_an_error_or_the_end_of_the_recording(tmp_path: Path, lost: int) -> None:
    path = _written(tmp_path / "run.jsonl.gz")
    whole = path.read_bytes()
    for at in range(0, len(whole) - 300, 50):
        path.write_bytes(whole[:at] + whole[at + lost :])
        assert _damage(path)


def _damage(path: Path) -> str:
    """Return what is wrong with a recording, "" for nothing."""
    try:
        recording = Recording(path)
        list(recording.entries())
    except ConfigError as error:
        return str(error)
    return recording.torn


def _written(path: Path) -> Path:
    """Return a recording of three calls, each flushed by itself."""
    recorder = Recorder(path, HEADER)
    for name in ("/a", "/b", "/c"):
        recorder.write(RecordedCall(name, items=(bytes(range(200)),)))
        recorder.flush()
    return recorder.path


@pytest.mark.parametrize("name", ["/", ".", "", "sub\0zero", "/dev/null/run.jsonl"])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"a recording to .* cannot be written: .*; name another file \(LUCKY_RECORD"):
        recorder_of(Path(name), HEADER)
    assert list(tmp_path.parent.glob(f"{tmp_path.name}-*")) == []


def test_a_full_disk_ends_the_recording_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(tmp_path / "run.jsonl", HEADER)
    recorder.path = Path("/dev/full")
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        for _ in range(3):
            recorder.write(RecordedCall("/a.B/C"))
            recorder.flush()
    assert [record.message for record in caplog.records] == [
        "recording to /dev/full ended: [Errno 28] No space left on device; what came until then can be replayed"
    ]
