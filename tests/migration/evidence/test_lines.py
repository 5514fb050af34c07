"""Evidence is appended whole, and a folder that cannot be written harms nobody."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, Evidence, SideResult, read_folder

ONE = Evidence("/a.B/C", "shadow", SideResult("grpc"), verdict=EQUAL)
BAD = Evidence("/a.B/C", "shadow", SideResult("grpc"), verdict=DIFFERENT)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def lines(told: list[str]) -> Lines:
    return Lines(told.append)


def test_lines_go_to_the_file_of_the_process(tmp_path: Path, lines: Lines, told: list[str]) -> None:
    lines.write(tmp_path / "new", [ONE, BAD])
    lines.close()
    lines.write(tmp_path / "new", [ONE])
    lines.close()
    lines.close()
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == [f"calls-{os.getpid()}.jsonl", "looks.jsonl", "programs.jsonl"]
    assert list(read_folder(tmp_path / "new")) == [ONE, BAD, ONE]
    assert told == []


def test_looks_that_are_gone_are_not_begun_anew_beside_evidence(tmp_path: Path, lines: Lines) -> None:
    lines.write(tmp_path, [ONE])
    lines.close()
    (tmp_path / "looks.jsonl").unlink()
    lines.write(tmp_path, [ONE])
    assert not (tmp_path / "looks.jsonl").exists()


def test_a_line_that_a_killed_process_tore_is_closed_first(tmp_path: Path, lines: Lines) -> None:
    (tmp_path / f"calls-{os.getpid()}.jsonl").write_text(ONE.write()[:30])
    lines.write(tmp_path, [BAD])
    lines.close()
    assert list(read_folder(tmp_path)) == [BAD]


def test_a_folder_that_is_removed_is_made_again(tmp_path: Path, lines: Lines) -> None:
    lines.write(tmp_path / "x", [ONE])
    shutil.rmtree(tmp_path / "x")
    lines.write(tmp_path / "x", [BAD])
    lines.close()
    assert list(read_folder(tmp_path / "x")) == [BAD]


def test_another_folder_gets_what_follows(tmp_path: Path, lines: Lines) -> None:
    lines.write(tmp_path / "x", [ONE])
    lines.write(tmp_path / "y", [BAD])
    lines.close()
    assert list(read_folder(tmp_path / "y")) == [BAD]


def test_a_folder_that_cannot_be_made_is_said_once_until_it_can(tmp_path: Path, lines: Lines, told: list[str]) -> None:
    (tmp_path / "x").write_text("a file")
    for _ in range(3):
        lines.write(tmp_path / "x", [ONE])
    assert len(told) == 1
    assert told[0].startswith("evidence is lost: ")
    (tmp_path / "x").unlink()
    lines.write(tmp_path / "x", [BAD])
    lines.close()
    assert list(read_folder(tmp_path / "x")) == [BAD]
    shutil.rmtree(tmp_path / "x")
    (tmp_path / "x").write_text("a file again")
    lines.write(tmp_path / "x", [ONE])
    assert len(told) == 2


def test_a_full_disk_is_said_once_and_tears_no_later_line(
    tmp_path: Path, lines: Lines, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    lines.write(tmp_path, [ONE])
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:10]))
    lines.write(tmp_path, [ONE])
    lines.write(tmp_path, [ONE])
    monkeypatch.undo()
    lines.write(tmp_path, [BAD])
    lines.close()
    assert list(read_folder(tmp_path)) == [ONE, BAD]
    assert len(told) == 1
    assert "no space left" in told[0]


def test_a_file_at_its_limit_gets_only_what_differs(tmp_path: Path, told: list[str]) -> None:
    lines = Lines(told.append, largest=2 * len(ONE.write()))
    for _ in range(5):
        lines.write(tmp_path, [ONE])
    lines.write(tmp_path, [BAD, ONE])
    lines.close()
    assert [one.verdict for one in read_folder(tmp_path)] == [EQUAL] * 3 + [DIFFERENT]
    assert len(told) == 1
    assert "only what differs or fails" in told[0]
