"""Lines of a recording: what is written is read again, and anything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError
from lucky_transport_migration.recording.entries import Header, RecordedCall, Step, header_of, line_of, read_entry
from lucky_transport_migration.recording.reading import Recording

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


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_a_line_that_is_no_entry_is_a_value_error(line: Any) -> None:
    line = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(ValueError):
        read_entry(line)


@pytest.mark.parametrize(
    "line", [b'{"call": 1', b'{"us": 1.0}', b'{"step": 1}', b'{"call": "/a.B/C", "items": [{"b64": "?"}]}']
)
def test_a_torn_or_foreign_entry_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_entry(line)


def test_keys_of_a_newer_writer_are_passed_over() -> None:
    assert read_entry(b'{"call": "/a.B/C", "colour": "red"}') == RecordedCall("/a.B/C")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"v": 1}', b'{"what": "something else", "v": 1}'])
def test_a_file_that_is_no_recording_is_refused_by_name(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"run.jsonl is no recording; make one"):
        header_of(line, "run.jsonl")


def test_a_recording_of_another_version_is_refused_with_both_versions() -> None:
    line = line_of(Header("shm")).replace('"v":1', '"v":2').encode()
    with pytest.raises(ConfigError, match="of version 2; this reads 1"):
        header_of(line, "run.jsonl")


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_a_recording_that_is_nested_too_deeply_is_refused_by_name_and_line(depth: int, tmp_path: Path) -> None:
    deep = f'{{"call": {"[" * depth}1{"]" * depth}}}\n'
    path = tmp_path / "run.jsonl"
    path.write_text(deep)
    with pytest.raises(ConfigError, match=r"run.jsonl is no recording"):
        Recording(path)
    path.write_text(line_of(Header("shm", "shm://demo", "toy", 7, {"num_envs": 2}, "2026-01-01T00:00:00.000Z")) + deep)
    with pytest.raises(ConfigError, match=r"run.jsonl: line 2: nested deeper than 64 levels; record it anew"):
        list(Recording(path).entries())
