"""Evidence survives being written and read, whole; a folder that cannot be written harms nobody."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout, Status, StatusError
from lucky_transport.messages import GetAgentSchemaRequest, GetSceneInfoRequest, LidarSensorRequest
from lucky_transport.routing import Ending
from lucky_transport_migration.evidence.call_comparison import request_hash
from lucky_transport_migration.evidence.lines import Lines, commit_of, describe_process, read_programs
from lucky_transport_migration.evidence.outcome import as_seen, ending_of
from lucky_transport_migration.evidence.record import Evidence, SideResult, read_folder
from lucky_transport_migration.jsonl import Damage, entry_of, moment
from tests.support.command import python

TEXT = st.text(max_size=20)
SIDES = st.builds(SideResult, TEXT, TEXT, st.floats(0, 1e9), st.integers(0, 1000))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT


EVIDENCE = st.builds(
    Evidence,
    method=TEXT,
    stage=TEXT,
    primary=SIDES,
    shadow=st.none() | SIDES,
    kind=st.sampled_from(["live", "aa", "replay", "parity"]),
    verdict=st.sampled_from(["equal", "different", "failed", "not_compared"]),
    aspect=TEXT,
    where=TEXT,
    values=st.dictionaries(TEXT, PLAIN, max_size=3),
    why=TEXT,
    left_out=st.dictionaries(TEXT, TEXT, max_size=3),
    at=TEXT,
)


@given(EVIDENCE)
def test_what_is_written_is_read_again(evidence: Evidence) -> None:
    line = evidence.write()
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert entry_of(Evidence, line) == evidence


def test_the_form_of_a_line_is_fixed() -> None:
    evidence = Evidence("/a.B/C", "shadow", SideResult("grpc", us=1.5, items=1), at=moment(0.003))
    assert json.loads(evidence.write()) == {
        "v": 1,
        "at": "1970-01-01T00:00:00.003Z",
        "method": "/a.B/C",
        "stage": "shadow",
        "kind": "live",
        "authority": {"transport": "grpc", "code": "OK", "us": 1.5, "items": 1, "local": False, "first": 0.0},
        "shadow": None,
        "verdict": "not_compared",
        "aspect": "",
        "where": "",
        "values": {},
        "why": "",
        "left_out": {},
        "request": "",
    }


@pytest.mark.parametrize(
    ("verdict", "aspect", "where", "sentence"),
    [
        ("different", "item", "state.qpos[0]", "/a.B/C: item differs at state.qpos[0]: grpc 'x', shm 1"),
        ("different", "details", "details", "/a.B/C: details differ: grpc 'x', shm 1"),
        ("failed", "late", "code", "/a.B/C: the candidate failed (late): grpc 'x', shm 1"),
        ("equal", "", "", ""),
    ],
)
def test_a_difference_is_one_sentence(verdict: str, aspect: str, where: str, sentence: str) -> None:
    values = {"grpc": "x", "shm": 1}
    evidence = Evidence(
        "/a.B/C", "shadow", SideResult("grpc"), verdict=verdict, aspect=aspect, where=where, values=values
    )
    assert evidence.sentence == sentence


PAYLOADS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


@given(PAYLOADS, PAYLOADS)
def test_equal_requests_have_one_hash_and_different_ones_do_not(left: list[bytes], right: list[bytes]) -> None:
    assert (request_hash(left) == request_hash(right)) == (left == right)


def test_messages_are_told_apart_by_their_fields() -> None:
    hashes = [request_hash(GetAgentSchemaRequest(name)) for name in ("agent_1", "agent_2", "agent_1")]
    assert hashes[0] == hashes[2] != hashes[1]
    assert len(hashes[0]) == 16


@pytest.mark.parametrize("request_", [None, b"", [], [b""], GetSceneInfoRequest(), LidarSensorRequest()], ids=repr)
def test_what_carries_nothing_has_no_hash(request_: Any) -> None:
    assert request_hash(request_) == ""


_LATE = Ending("DEADLINE_EXCEEDED", "Deadline Exceeded", is_local=True)


@pytest.mark.parametrize(
    ("took_s", "timeout_s", "is_local"), [(1.0, 1.0, True), (0.998, 1.0, True), (0.2, 1.0, False), (9.0, None, False)]
)
def test_a_deadline_is_over_when_the_callers_clock_says_so(
    took_s: float, timeout_s: float | None, is_local: bool
) -> None:
    assert as_seen(_LATE, int(took_s * 1e9), timeout_s).is_local == is_local


def test_another_end_stays_as_it_is_whatever_the_clock_says() -> None:
    gone = Ending("UNAVAILABLE", "Socket closed", is_local=True)
    assert as_seen(gone, 0, 1.0) is gone


@pytest.mark.parametrize(
    ("error", "code", "is_local"),
    [
        (NotReachable("nobody there"), "UNAVAILABLE", True),
        (PeerDied("it ended"), "UNAVAILABLE", True),
        (PeerTimeout("too late"), "DEADLINE_EXCEEDED", True),
        (StatusError(Status.UNAVAILABLE, "try again"), "UNAVAILABLE", False),
        (EngineFailed("it broke"), "INTERNAL", False),
    ],
)
def test_of_a_typed_call_the_error_says_it(error: Exception, code: str, is_local: bool) -> None:
    found = ending_of(error)
    assert (found.code, found.is_local) == (code, is_local)


ONE = Evidence("/a.B/C", "shadow", SideResult("grpc"), verdict="equal")
BAD = Evidence("/a.B/C", "shadow", SideResult("grpc"), verdict="different")


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
    assert [one.verdict for one in read_folder(tmp_path)] == ["equal"] * 3 + ["different"]
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
    words = ["--port", "1", "--api-token", "t0p", "--password=s3cret", "--metadata", "x-one=hush 1"]
    words += ["--metadata=x-two=hush 2", "--metadata", "x-three=$HUSH", "grpc://me:pw@host:1", "--monkey", "business"]
    python("-c", f"{made}d(Path({str(tmp_path)!r}))", *words, check=True, env=os.environ | {"PRIVATE": "hidden-value"})
    (program,) = read_programs(tmp_path, Damage())
    assert program.command[:2] == (os.path.basename(sys.executable), "-c")
    assert program.command[3:6] == ("--port", "1", "--api-token")
    text = (tmp_path / "programs.jsonl").read_text()
    for secret in ("t0p", "s3cret", "hush", "HUSH", "me:pw", "hidden-value"):
        assert secret not in text
    masked = ("--metadata", "x-one=***", "--metadata=x-two=***", "--metadata", "x-three=***", "grpc://***@host:1")
    assert program.command[-8:] == (*masked, "--monkey", "business")


def test_a_very_long_command_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "x" * 10_000, *["y"] * 1_000])
    describe_process(tmp_path)
    (program,) = read_programs(tmp_path, Damage())
    assert program.command[-1] == "..."
    assert (tmp_path / "programs.jsonl").stat().st_size < 4096


def test_a_file_that_is_full_or_cannot_be_written_harms_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "programs.jsonl").mkdir()
    lines = Lines(lambda _: None)
    lines.write(tmp_path, [ONE])
    lines.close()
    assert (tmp_path / f"calls-{os.getpid()}.jsonl").read_text() == ONE.write()


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
