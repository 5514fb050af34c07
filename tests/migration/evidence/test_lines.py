"""Evidence is appended whole, each process says once what it is, and a folder that cannot be written harms nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lucky_transport_migration.evidence.lines import FILE_NAME, Lines, commit_of, describe_process, read_programs
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, Evidence, SideResult, read_folder
from lucky_transport_migration.jsonl import Damage

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


def test_a_process_that_makes_evidence_has_one_line(tmp_path: Path) -> None:
    lines = Lines(lambda _: None)
    for _ in range(3):
        lines.write(tmp_path, [ONE])
        lines.close()
    (program,) = read_programs(tmp_path, Damage())
    assert program.pid == os.getpid()
    assert program.versions["python"] == sys.version.split()[0]
    assert "lucky-transport" in program.versions
    assert program.system.startswith("Linux ")


def test_the_command_line_is_that_of_the_process_and_its_environment_is_not_written(tmp_path: Path) -> None:
    made = "from pathlib import Path; from lucky_transport_migration.evidence.lines import describe_process as d; "
    words = ["--port", "1", "--api-token", "t0p", "--password=s3cret", "grpc://me:pw@host:1", "--monkey", "business"]
    command = [sys.executable, "-c", f"{made}d(Path({str(tmp_path)!r}))", *words]
    subprocess.run(command, check=True, env=os.environ | {"PRIVATE": "hidden-value"})
    (program,) = read_programs(tmp_path, Damage())
    assert program.command[:2] == (os.path.basename(sys.executable), "-c")
    assert program.command[3:6] == ("--port", "1", "--api-token")
    text = (tmp_path / FILE_NAME).read_text()
    for secret in ("t0p", "s3cret", "me:pw", "hidden-value"):
        assert secret not in text
    assert program.command[-3:] == ("grpc://***@host:1", "--monkey", "business")


def test_a_very_long_command_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "x" * 10_000, *["y"] * 1_000])
    describe_process(tmp_path)
    (program,) = read_programs(tmp_path, Damage())
    assert program.command[-1] == "..."
    assert (tmp_path / FILE_NAME).stat().st_size < 4096


def test_a_file_that_is_full_or_cannot_be_written_harms_no_evidence(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    lines = Lines(lambda _: None)
    lines.write(tmp_path, [ONE])
    lines.close()
    assert (tmp_path / f"calls-{os.getpid()}.jsonl").read_text() == ONE.write()


def test_torn_lines_are_damage(tmp_path: Path) -> None:
    describe_process(tmp_path)
    with (tmp_path / FILE_NAME).open("a") as file:
        file.write('[]\n"text"\n{"v": 1, "at"')
    damage = Damage()
    assert len(read_programs(tmp_path, damage)) == 1
    assert (damage.lines, damage.line) == (3, 2)


def test_the_commit_is_what_git_says(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert commit_of(tmp_path / "nowhere") == ""
    git("init", "-q")
    assert commit_of(tmp_path) == ""
    git("commit", "-q", "--allow-empty", "-m", "one")
    head = git("rev-parse", "--short=12", "HEAD")
    (tmp_path / "inner").mkdir()
    assert commit_of(tmp_path / "inner") == head


def test_a_line_is_json_of_version_1(tmp_path: Path) -> None:
    describe_process(tmp_path)
    assert json.loads((tmp_path / FILE_NAME).read_text())["v"] == 1


def test_metadata_of_a_command_line_have_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--metadata", "x-one=hush 1", "--metadata=x-two=hush 2", "--metadata", "x-three=$HUSH"]
    monkeypatch.setattr(sys, "orig_argv", ["lucky-transport", "replay", *given, "run.jsonl"])
    describe_process(tmp_path)
    (program,) = read_programs(tmp_path, Damage())
    masked = ("--metadata", "x-one=***", "--metadata=x-two=***", "--metadata", "x-three=***")
    assert program.command == ("lucky-transport", "replay", *masked, "run.jsonl")
