"""The journal of demotions, and what evidence counts beside it, whoever wrote either and however it was cut off."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.evidence.record import Evidence, SideResult
from lucky_transport_migration.jsonl import Damage, moment
from lucky_transport_migration.stages.evidence_window import count_evidence, recent_evidence
from lucky_transport_migration.stages.journal import Entry, Journal
from lucky_transport_migration.stages.stage import Placement, Stage
from tests.support.waiting import PATIENCE_S

_ENTITY, _STEP = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.AgentService/Step"
_GRPC, _SHADOW, _SHM = Placement(Stage.GRPC), Placement(Stage.SHADOW), Placement(Stage.SHM)
_CANARY = Placement(Stage.CANARY, 10)


def test_a_demoted_method_stays_where_it_was_put_until_it_is_promoted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "evidence")
    assert journal.demotions() == {}
    journal.append(Entry(1000.0, "demoted", _ENTITY, _CANARY, _SHADOW, "item 0 differs", 60))
    journal.demote(_STEP, _SHM, _GRPC, "died")
    found = journal.demotions()[_ENTITY]
    assert (found.to, found.why, found.cooling_s(now=1040.0), found.cooling_s(now=1070.0)) == (
        _SHADOW,
        "item 0 differs",
        20.0,
        0.0,
    )
    journal.promote(_ENTITY, _SHADOW, _CANARY)
    assert list(journal.demotions()) == [_STEP]


def test_an_entry_is_one_line_of_json(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    entry = journal.append(Entry(1767225600.0, "demoted", _ENTITY, _CANARY, _SHADOW, "a\nb ü", 300.0))
    (line,) = journal.path.read_text().splitlines()
    assert json.loads(line) == {
        "v": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "event": "demoted",
        "method": _ENTITY,
        "from": "canary 10%",
        "to": "shadow",
        "why": "a\nb ü",
        "cool_down_s": 300.0,
    }
    assert list(journal.entries()) == [entry]


def test_of_two_demotions_the_lower_one_counts_and_the_longer_cool_down(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(Entry(1000.0, "demoted", _ENTITY, _SHM, _GRPC, "died", 100))
    journal.append(Entry(1001.0, "demoted", _ENTITY, _SHM, _SHADOW, "differs", 10))
    found = journal.demotions()[_ENTITY]
    assert (found.to, found.cool_until) == (_GRPC, 1100.0)


def test_a_torn_line_is_not_glued_to_the_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.demote(_STEP, _SHM, _GRPC, "died")
    with journal.path.open("a") as file:
        file.write('{"v": 1, "at": "2026')
    journal.demote(_ENTITY, _CANARY, _SHADOW, "differs")
    assert set(journal.demotions()) == {_STEP, _ENTITY}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal"))
    journal.path.write_bytes(junk)
    journal.demote(_ENTITY, _CANARY, _SHADOW, "differs")
    assert journal.demotions()[_ENTITY].to == _SHADOW


def test_many_may_write_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for index in range(20):
            Journal(tmp_path).demote(f"/a.B/{number}_{index}", _SHM, _GRPC, "x" * 500)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_S)
    assert len(Journal(tmp_path).demotions()) == 160


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match="taken"):
        Journal(tmp_path / "taken").demote(_ENTITY, _SHM, _GRPC, "died")
    assert Journal(tmp_path / "taken").demotions() == {}


METHODS = ("/hazel.rpc.SceneService/GetEntity", "/lab.Arm/Read")


def line(number: int, *, verdict: str = "equal", kind: str = "live") -> str:
    at = f"2099-01-01T00:00:{number % 60:02}.{number % 1000:03}Z"
    sides = SideResult("grpc"), SideResult("shm")
    return Evidence(METHODS[number % 2], "shadow", *sides, kind=kind, verdict=verdict, at=at).write()


def test_evidence_is_counted_from_the_last_move_of_its_method_on(tmp_path: Path) -> None:
    (tmp_path / "calls-1.jsonl").write_text("".join(map(line, range(40))) + "torn\n[]\n")
    (tmp_path / "calls-2.jsonl").write_text(line(41, verdict="different") + line(42, kind="aa") + "torn")
    damage = Damage()
    seen = count_evidence(tmp_path, damage)
    assert seen == {METHODS[0]: {"equal": 21}, METHODS[1]: {"equal": 20, "different": 1}}
    assert (damage.lines, damage.file, damage.line) == (3, str(tmp_path / "calls-1.jsonl"), 41)
    stages = Placement.parse("shadow"), Placement.parse("grpc")
    at = 4_070_908_820.02  # of 2099, at second 20
    moved = Journal(tmp_path).append(Entry(at, "demoted", METHODS[0], *stages, "differs"))
    assert moved.moment == "2099-01-01T00:00:20.020Z"
    assert count_evidence(tmp_path, Damage())[METHODS[0]] == {"equal": 11}
    Journal(tmp_path).append(Entry(at + 86_400, "promoted", METHODS[1], *stages))
    assert count_evidence(tmp_path, Damage())[METHODS[1]] == {}, "a method that was called is named"


METHOD = "/hazel.rpc.SceneService/GetEntity"
DAY_S = 86_400


def test_an_aa_run_tells_for_some_days_what_noise_is_and_then_no_more(tmp_path: Path) -> None:
    now = time.time()
    sides = SideResult("grpc", us=400.0), SideResult("grpc", us=410.0)
    moments = [moment(now - days * DAY_S) for days in (20, 6.9, 0.1)]
    written = [Evidence(METHOD, "shadow", *sides, kind="aa", verdict="equal", at=at) for at in moments]
    (tmp_path / "calls-1.jsonl").write_text("".join(one.write() for one in written))
    assert [one.at for one in recent_evidence(tmp_path)] == moments[1:]
    assert [one.at for one in recent_evidence(tmp_path, 30)] == moments
    assert [one.at for one in recent_evidence(tmp_path, 1)] == moments[2:]


def test_live_evidence_counts_whatever_its_age(tmp_path: Path) -> None:
    """A method that was not moved since stays judged by what was seen of it."""
    old = Evidence(METHOD, "shadow", SideResult("grpc"), SideResult("shm"), verdict="equal", at=moment(0))
    (tmp_path / "calls-1.jsonl").write_text(old.write())
    assert list(recent_evidence(tmp_path)) == [old]
