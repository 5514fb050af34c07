"""What changed between two runs of the bench, beyond the noise of both."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lucky_transport_migration.stats import LEAST_COVERAGE
from tests.endurance.compare import changes, main, ratio_between_runs

P50S = [10.0, 10.1, 10.2, 9.9, 10.0, 9.8]


def result(*, floor: float | None = 1.01, cpu: str = "a cpu", **times: float) -> dict[str, Any]:
    """Return as much of a result as is compared: path -> how many times P50S its rounds took."""
    rows = [
        {"title": "one exchange", "path": path, "wait": None, "p50s": [one * by for one in P50S], "floor": floor}
        for path, by in times.items()
    ]
    environment = dict.fromkeys(("usable_cores", "machine", "kernel", "virtual_machine", "python")) | {"cpu": cpu}
    return {"rows": rows, "environment": environment, "noise_floor": {"floor": 1.02}}


def words(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [word for word, _ in changes(old, new)]


def test_rows_that_became_slower_or_faster_are_told_apart_from_those_that_did_not() -> None:
    assert words(result(shm=1, grpc=1, inproc=1), result(shm=1.5, grpc=0.5, inproc=1)) == [
        *("SLOWER", "FASTER", "NO DIFFERENCE")
    ]


@pytest.mark.parametrize("floors", [(1.6, 1.01), (1.01, 1.6)])
def test_a_difference_within_the_noise_of_either_run_is_no_change(floors: tuple[float, float]) -> None:
    assert words(result(floor=floors[0], shm=1), result(floor=floors[1], shm=1.5)) == ["NO DIFFERENCE"]


def test_a_row_without_noise_of_its_own_is_judged_by_that_of_the_run() -> None:
    old, new = result(floor=None, shm=1), result(floor=None, shm=1.5)
    assert words(old, new) == ["SLOWER"]
    new["noise_floor"] = {"floor": 1.6}
    assert words(old, new) == ["NO DIFFERENCE"]


def test_too_few_rounds_give_no_verdict() -> None:
    short = result(shm=1)
    short["rows"][0]["p50s"] = P50S[:5]
    assert words(short, result(shm=2)) == words(result(shm=2), short) == ["NO VERDICT"]


def test_rows_of_one_run_alone_are_not_compared() -> None:
    assert words(result(shm=1, grpc=1), result(shm=1, inproc=1)) == ["NO DIFFERENCE"]


def test_the_program_prints_what_changed_and_which_machines_differ(tmp_path: Path) -> None:
    for name, one in (("old", result(shm=1)), ("new", result(cpu="another", shm=2))):
        (tmp_path / name).write_text(json.dumps(one))
    done = CliRunner().invoke(main, [str(tmp_path / "old"), str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert "SLOWER       one exchange, shm: 2.00 times as long as before" in done.output
    assert "the machines differ in cpu: a cpu, another" in done.output
    assert "1 of 1 rows changed" in done.output


def test_an_interval_between_runs_holds_the_truth_as_often_as_it_says() -> None:
    """Of all ways to deal twelve ranks to two runs alike, so many intervals hold a ratio of one."""
    ranks = [1.1**rank for rank in range(12)]
    held = total = 0
    for first in combinations(ranks, 6):
        found = ratio_between_runs(first, [one for one in ranks if one not in first])
        held, total = held + (found.low <= 1 <= found.high), total + 1
    assert held / total >= LEAST_COVERAGE
