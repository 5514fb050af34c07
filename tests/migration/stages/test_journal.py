"""The journal of demotions: what is in force, whoever wrote it and however it was cut off."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert Entry.read(line) == entry


def test_of_two_demotions_the_lower_one_counts_and_the_longer_cool_down(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(Entry(1000.0, "demoted", _ENTITY, _SHM, _GRPC, "died", 100))
    journal.append(Entry(1001.0, "demoted", _ENTITY, _SHM, _SHADOW, "differs", 10))
    found = journal.demotions()[_ENTITY]
    assert (found.to, found.cool_until) == (_GRPC, 1100.0)


@pytest.mark.parametrize(
    "torn",
    [
        '{"v": 1, "at": "2026',
        "\0\0\0\0",
        "[]",
        "3",
        '{"v": 2}',
        '{"v": 1, "event": "demoted", "at": 3}',
        "\x85",
        "null",
        "[" * 66 + "]" * 66,
        "[" * 100_000,
    ],
)
def test_a_torn_or_foreign_line_hides_no_other_and_is_not_glued_to_the_next(tmp_path: Path, torn: str) -> None:
    journal = Journal(tmp_path)
    journal.demote(_STEP, _SHM, _GRPC, "died")
    with journal.path.open("a") as file:
        file.write(torn)
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
