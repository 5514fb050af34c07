"""What changed between two runs, beyond the noise of both."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lucky_transport_migration.bench.changes import changes
from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.page import bench_page


def slower(result: dict[str, Any], path: str, times: float) -> dict[str, Any]:
    """Return a copy in which every row of `path` took so many times as long."""
    made = copy.deepcopy(result)
    for row in made["rows"]:
        if row["path"] == path:
            row["p50s"] = [one * times for one in row["p50s"]]
            row["us"] |= {key: row["us"][key] * times for key in ("p50", "p50_min", "p50_max")}
    return made


@pytest.mark.exhaustive
def test_a_run_is_no_change_to_itself(bench_result: dict[str, Any]) -> None:
    found = changes(bench_result, bench_result)
    assert found["sentence"] == f"NO CHANGE: none of {len(bench_result['rows'])} rows changed beyond noise."
    assert {one["word"] for one in found["rows"]} == {"NO DIFFERENCE"}
    assert (found["only_before"], found["only_now"], found["machine_differs"]) == (0, 0, [])


def test_rows_that_became_slower_or_faster_are_named(bench_result: dict[str, Any]) -> None:
    now = slower(slower(bench_result, "shm", 1.5), "grpc", 0.5)
    found = {one["what"]: one for one in changes(bench_result, now)["rows"]}
    ours, theirs = found["1 env, one exchange, shared memory (adaptive)"], found["1 env, one exchange, legacy gRPC"]
    assert (ours["word"], ours["ratio"]) == ("SLOWER", pytest.approx(1.5))
    assert "1.50 times slower than before" in ours["sentence"]
    assert (theirs["word"], theirs["ratio"]) == ("FASTER", pytest.approx(0.5))
    assert found["1 env, one exchange, gRPC batch service"]["word"] == "NO DIFFERENCE"


def test_a_difference_within_the_noise_of_either_run_is_no_change(bench_result: dict[str, Any]) -> None:
    noisy, now = copy.deepcopy(bench_result), slower(bench_result, "shm", 1.5)
    for row in noisy["rows"]:
        row["floor"] = 1.6
    assert changes(noisy, now)["sentence"].startswith("NO CHANGE")
    assert changes(bench_result, now)["sentence"].startswith("CHANGED")


def test_a_row_is_judged_by_the_noise_of_its_own_kind(bench_result: dict[str, Any]) -> None:
    noisy, now = copy.deepcopy(bench_result), slower(bench_result, "shm", 1.5)
    for row in noisy["rows"]:
        row["floor"] = 1.6 if row["num_envs"] == 64 else 1.0
    words = {one["what"]: one["word"] for one in changes(noisy, now)["rows"]}
    assert words["1 env, one exchange, shared memory (adaptive)"] == "SLOWER"
    assert words["64 envs, one exchange, shared memory (adaptive)"] == "NO DIFFERENCE"


def test_a_run_of_too_few_rounds_has_no_verdict_on_a_change(bench_result: dict[str, Any]) -> None:
    short = copy.deepcopy(bench_result)
    for row in short["rows"]:
        row["rounds"], row["p50s"] = 5, row["p50s"][:5]
    for pair in ((short, bench_result), (bench_result, short)):
        found = changes(*pair)
        assert found["sentence"].startswith("NO VERDICT")
        assert {one["word"] for one in found["rows"]} == {"NO VERDICT"}


def test_rows_of_one_run_alone_are_counted_and_not_compared(bench_result: dict[str, Any]) -> None:
    old = bench_result | {"rows": bench_result["rows"][2:]}
    new = bench_result | {"rows": bench_result["rows"][:-3]}
    found = changes(old, new)
    assert (found["only_before"], found["only_now"]) == (3, 2)
    assert len(found["rows"]) == len(bench_result["rows"]) - 5


def test_a_result_that_keeps_no_rounds_is_compared_by_their_range(bench_result: dict[str, Any]) -> None:
    old = copy.deepcopy(bench_result)
    for row in old["rows"]:
        del row["p50s"]
    assert changes(old, slower(bench_result, "shm", 3))["sentence"].startswith("CHANGED")


def test_another_machine_is_said(bench_result: dict[str, Any]) -> None:
    old = copy.deepcopy(bench_result)
    old["environment"]["cpu"] = "abacus"
    (difference,) = changes(old, bench_result)["machine_differs"]
    assert difference.startswith("cpu: abacus before, ")


@pytest.mark.usefixtures("without_charts")
def test_page_and_markdown_show_what_changed_and_nothing_else(bench_result: dict[str, Any]) -> None:
    bench_result["changes"] = changes(bench_result, slower(bench_result, "shm", 2.0))
    page, markdown = bench_page(bench_result), bench_markdown(bench_result)
    for text in (page, markdown):
        assert "1 env, one exchange, shared memory (adaptive)" in text
        assert "1 env, one exchange, gRPC batch service" not in text
    assert "What changed" in page
