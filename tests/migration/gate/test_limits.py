"""The limits of `[gate]`, how looks are counted, and what one call means for the stage of its method."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bounds import error_of_look, needed_trials, upper_bound
from lucky_transport_migration.evidence.record import Evidence
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.routing.evidence_policy import demotion
from tests.support.fixtures.migration_evidence import promote
from tests.support.waiting import PATIENCE_S


def test_without_a_file_the_defaults_fit_together(tmp_path: Path) -> None:
    limits = Limits.load(tmp_path)
    assert limits == Limits()
    assert upper_bound(0, limits.calls, limits.confidence) <= limits.mismatch_limit


def test_the_page_says_how_many_calls_the_default_limit_needs() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "how-to" / "gate.md").read_text().split())
    one, ten, all_of_them = (_needed(methods=methods) for methods in (1, 10, 72))
    counts = f"at the first look, {ten} of each of 10 methods and {all_of_them} of each of 72"
    assert f"needs {one} requests of a single method {counts}" in page
    fifth, fiftieth = (_needed(look=look) for look in (5, 50))
    assert f"needs {one} requests at the first look, {fifth} at the fifth and {fiftieth} at the fiftieth" in page


def _needed(methods: int = 1, look: int = 1) -> str:
    limits = Limits()
    error = error_of_look(1 - limits.confidence, look)
    return f"{needed_trials(0, limits.mismatch_limit, 1 - error / methods):,}"


def test_the_file_says_otherwise(tmp_path: Path) -> None:
    rows = "calls = 1\nslower_limit = 2\ntail_limit = 3\ndemote = false\n"
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{rows}")
    assert Limits.load(tmp_path) == Limits(calls=1, slower_limit=2, tail_limit=3, demote=False)


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ("calls = 0", "a whole number of calls from 1"),
        ("calls = true", "a whole number of calls from 1"),
        ("calls = 10.5", "a whole number of calls from 1"),
        ("mismatch_limit = 0", "a rate between 0 and 1"),
        ("mismatch_limit = '1%'", "a rate between 0 and 1"),
        ("slower_limit = 0.9", "a ratio from 1"),
        ("slower_limit = nan", "a ratio from 1"),
        ("tail_limit = 0.9", "a ratio from 1"),
        ("confidence = 1", "a share from 0.5"),
        ("demote = 'no'", "true or false"),
        ("cool_down_s = -1", "seconds >= 0"),
        ("cool_down_s = inf", "seconds >= 0"),
        (f"cool_down_s = 1{'0' * 400}", "seconds >= 0"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_a_remedy(tmp_path: Path, row: str, remedy: str) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f"[gate]\n{row}\n")
    with pytest.raises(ConfigError) as caught:
        Limits.load(tmp_path)
    key = row.partition(" ")[0]
    assert str(tmp_path / "lucky_transport.toml") in str(caught.value)
    assert f"{key} = " in str(caught.value)
    assert remedy in caught.value.hint


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    (tmp_path / "lucky_transport.toml").write_text("[gate]\nmismatch_limits = 0.1\n")
    with pytest.raises(ConfigError, match="did you mean 'mismatch_limit'"):
        Limits.load(tmp_path)


METHOD, OTHER = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.SceneService/ListEntities"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in which nobody has looked at anything yet."""
    (tmp_path / "looks.jsonl").touch()
    return tmp_path


def look(folder: Path, calls: int, *, method: str = METHOD) -> int:
    return Looks(folder).take({method: (calls, 0)}, lambda name, number: True)[method]


def test_all_looks_together_spend_no_more_than_the_error() -> None:
    spent = [error_of_look(0.05, number) for number in range(1, 10_000)]
    assert spent == sorted(spent, reverse=True)
    assert 0.0499 < sum(spent) < 0.05


def test_looks_are_counted_method_by_method(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_300, 1_400)] == [1, 2, 3]
    assert look(folder, 1_400, method=OTHER) == 1


def test_a_look_at_what_was_looked_at_before_is_no_new_one(folder: Path) -> None:
    assert [look(folder, calls) for calls in (1_200, 1_200, 1_300, 1_200, 1_300)] == [1, 1, 2, 1, 2]


def test_a_move_begins_a_new_count(folder: Path) -> None:
    for calls in (1_200, 1_300):
        look(folder, calls)
    promote(folder, METHOD, "shadow", "canary 1%")
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


def test_a_look_that_cannot_be_counted_is_an_error(folder: Path) -> None:
    (folder / "looks.jsonl").unlink()
    (folder / "looks.jsonl").mkdir()
    with pytest.raises(ConfigError, match="each look has to be counted"):
        look(folder, 1_200)


Seen = Callable[..., Evidence]
NOT_LIVE = ("aa", "replay", "parity")


@pytest.mark.parametrize("verdict", ["different", "failed"])
@pytest.mark.parametrize("fields", [{"stage": "grpc"}, {"stage": "complete"}, *({"kind": one} for one in NOT_LIVE)])
def test_only_live_calls_of_a_method_on_its_way_demote_it(seen: Seen, verdict: str, fields: dict[str, str]) -> None:
    """Where they lead is shown by tests/migration/evidence/test_evidence_policy.py."""
    assert demotion(seen(**{"stage": "shm", "verdict": verdict, **fields}), Limits()) is None


def test_a_team_can_switch_it_off(seen: Seen) -> None:
    assert demotion(seen(stage="shm", verdict="failed"), Limits(demote=False)) is None
