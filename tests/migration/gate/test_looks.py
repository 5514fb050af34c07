"""How looks are counted, and what each may spend."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bounds import error_of_look
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.stage import Placement
from tests.support.waiting import PATIENCE_S

METHOD, OTHER = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.SceneService/ListEntities"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in which nobody has looked at anything yet."""
    (tmp_path / "looks.jsonl").touch()
    return tmp_path


def look(folder: Path, calls: int, *, counts: bool = True, method: str = METHOD) -> int:
    return Looks(folder).take({method: (calls, 0)}, lambda name, number: counts)[method]


def test_all_looks_together_spend_no_more_than_the_error() -> None:
    spent = [error_of_look(0.05, number) for number in range(1, 10_000)]
    assert spent == sorted(spent, reverse=True)
    assert 0.0499 < sum(spent) < 0.05


def test_looks_are_counted_method_by_method(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_300, 1_400)] == [1, 2, 3]
    assert look(folder, 1_400, method=OTHER) == 1


def test_a_look_at_what_was_looked_at_before_is_no_new_one(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_200, 1_300, 1_200, 1_300)] == [1, 1, 2, 1, 2]


def test_a_look_that_could_promote_nothing_is_not_counted(folder: Path) -> None:
    assert [look(folder, calls, counts=False) for calls in (100, 200)] == [1, 1]
    assert look(folder, 1_200) == 1


def test_a_move_begins_a_new_count(folder: Path) -> None:
    for calls in (1_200, 1_300):
        look(folder, calls)
    Journal(folder).promote(METHOD, Placement.parse("shadow"), Placement.parse("canary 1%"))
    assert look(folder, 1_400) == 1


def test_looks_of_several_at_once_are_all_counted(folder: Path) -> None:
    numbers: list[int] = []
    start = threading.Barrier(8)

    def several(first: int) -> None:
        start.wait(PATIENCE_S)
        numbers.extend(look(folder, calls) for calls in range(first, 80, 8))

    threads = [threading.Thread(target=several, args=(first,)) for first in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    assert sorted(numbers) == list(range(1, 81))


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00\xff\n", b'{"v": 1, "at": "2026-01-01T00:00:00.000Z", "met', b"[]\n"]
)
def test_where_looks_are_lost_one_after_every_hundred_calls_is_assumed(folder: Path, content: bytes | None) -> None:
    path = folder / "looks.jsonl"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    expected = [1, 2, 3] if content == b"" else [13, 21, 51]
    assert [look(folder, calls) for calls in (1_200, 2_000, 5_000)] == expected


def test_looks_that_are_gone_are_not_begun_anew(folder: Path) -> None:
    (folder / "looks.jsonl").unlink()
    look(folder, 1_200)
    assert not (folder / "looks.jsonl").exists()


def test_a_damaged_line_hides_no_other_look(folder: Path) -> None:
    for calls in range(1_200, 1_230):
        look(folder, calls)
    with (folder / "looks.jsonl").open("a") as file:
        file.write('{"v": 1, "at"')
    assert [look(folder, calls) for calls in (1_230, 1_231)] == [31, 32]


def test_a_look_that_cannot_be_counted_is_an_error(folder: Path) -> None:
    (folder / "looks.jsonl").unlink()
    (folder / "looks.jsonl").mkdir()
    with pytest.raises(ConfigError, match="each look has to be counted"):
        look(folder, 1_200)
