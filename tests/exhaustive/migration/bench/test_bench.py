"""The bench's result: rows, ratios and targets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.reading import headlines
from lucky_transport_migration.bench.report import without_histograms
from lucky_transport_migration.bench.suites.steps import (
    COPY,
    IDLE,
    PACED_ENVS,
    STEP_TARGETS,
    STEPPING,
    plan_of,
    prepare,
)


def rows(result: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if all(row[key] == value for key, value in wanted.items())]


def test_a_row_says_what_was_measured_and_how_often(bench_result: dict[str, Any]) -> None:
    for row in bench_result["rows"]:
        assert {"p50", "p99", "p999", "p50_min", "p50_max", "max"} <= set(row["us"])
        assert row["us"]["p50_min"] <= row["us"]["p50"] <= row["us"]["p50_max"]
        assert set(row["cpu_s"]) == {"client", "engine"}
        assert row["n"] == 600 * row["rounds"]


def test_a_row_without_an_engine_process_has_no_engine_cpu(bench_result: dict[str, Any]) -> None:
    assert all(row["cpu_s"]["engine"] is None for row in rows(bench_result, path="inproc"))
    assert all(row["cpu_s"]["engine"] > 0 for row in rows(bench_result, path="shm"))
    assert all(row["cpu_s"]["client"] is None for row in rows(bench_result, path="limit"))


def test_placement_tells_when_it_changed_between_rounds(bench_result: dict[str, Any]) -> None:
    assert rows(bench_result, path="shm")[0]["placement"] == "mixed"


def test_ratios_compare_like_with_like_within_the_run(bench_result: dict[str, Any]) -> None:
    found = {(one["title"], one["to"], one["to_wait"]): one for one in bench_result["ratios"]}
    legacy = found["One exchange, 1 env", "grpc", None]
    assert legacy["low"] <= legacy["ratio"] <= legacy["high"]
    assert legacy["ratio"] == pytest.approx(500, rel=0.1)
    assert legacy["word"] == "FASTER"
    assert "shared memory (adaptive) is" in legacy["sentence"]
    for other in (("limit", "spin"), ("shm", "block")):
        assert ("One exchange, 1 env", *other) in found
    assert ("One exchange, 1 env, 50 a second", "grpc", None) in found
    assert all((one["of"], one["wait"]) == ("shm", "adaptive") for one in bench_result["ratios"])


def test_a_larger_frame_is_compared_with_one_of_its_size(bench_result: dict[str, Any]) -> None:
    swept = [one for one in bench_result["ratios"] if (one["kind"], one["size"]) == ("frame", 4096)]
    assert {one["to"] for one in swept} == {"grpc", "grpc-batch", "inproc"}
    assert all("4 KiB" in one["sentence"] for one in swept)


def test_the_limit_is_compared_but_decides_no_verdict(bench_result: dict[str, Any]) -> None:
    assert any(one["to"] == "limit" and one["word"] == "SLOWER" for one in bench_result["ratios"])
    assert bench_result["verdict"]["word"] == "FASTER"
    assert "each judged alone" in bench_result["verdict"]["sentence"]


def test_the_noise_floor_comes_from_the_same_thing_measured_twice(bench_result: dict[str, Any]) -> None:
    floor = bench_result["noise_floor"]
    assert floor["path"] == "shm"
    assert floor["floor"] >= 1
    assert floor["low"] <= floor["ratio"] <= floor["high"]


def test_the_result_is_json_and_without_histograms_it_is_short(bench_result: dict[str, Any]) -> None:
    whole, short = json.dumps(bench_result, allow_nan=False), json.dumps(without_histograms(bench_result))
    assert '"hdr"' in whole
    assert '"hdr"' not in short
    assert len(json.loads(short)["rows"]) == len(bench_result["rows"])


def test_headlines_are_exchanges_of_whole_paths(bench_result: dict[str, Any]) -> None:
    assert {(one["to"], one["title"]) for one in headlines(bench_result)} == {
        (path, f"One exchange, {size}") for path in ("grpc", "grpc-batch", "inproc") for size in ("1 env", "64 envs")
    }


def test_each_target_is_met_missed_or_not_measured(bench_result: dict[str, Any]) -> None:
    found = {one["name"]: one for one in targets.check(bench_result, STEP_TARGETS)}
    assert len(found) == len(STEP_TARGETS)
    legacy = found["1 env, exchange: legacy gRPC over shm"]
    assert legacy["measured"] == pytest.approx(500, rel=0.1)
    assert legacy["word"] == ("PASS" if legacy["measured"] >= 400 else "FAIL")
    assert found["in place: 4096 envs over 1 env"]["word"] == "NOT MEASURED"
    assert found["in place: 4096 envs over 1 env"]["measured"] is None


def test_every_target_is_of_rows_that_a_whole_run_has() -> None:
    plan = plan_of(IDLE, ("grpc", "shm"), None, None, rounds=6, quick=False)
    prepared = prepare(plan)
    cells = [vars_of(cell) for case in prepared.cases for cell in case.cells]
    for target in STEP_TARGETS:
        for marks in (target.numerator, target.denominator):
            assert isinstance(marks, dict)
            assert marks in cells, target.name


def vars_of(cell: Any) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in cell.__slots__}


def test_a_missed_target_fails(bench_result: dict[str, Any]) -> None:
    rows(bench_result, path="limit")[0]["us"]["p50"] = 0.01
    found = {one["name"]: one for one in targets.check(bench_result, STEP_TARGETS)}
    assert found["1 env, exchange: shm over the native two-process spin"]["word"] == "FAIL"


def test_a_bench_in_process_runs_all_its_pieces() -> None:
    plan = plan_of(IDLE, ("inproc",), (1, 3), None, {"obs_size": 5, "act_size": 2}, rounds=2, quick=True)
    told: list[str] = []
    prepared = prepare(plan)
    result = prepared.run("lucky-transport bench", told.append)
    assert len(told) == prepared.pieces
    batches = {row["size"] for row in result["rows"] if row["path"] == "inproc" and row["kind"] != "frame"}
    assert batches == {1, 3, PACED_ENVS}
    assert {row["what"] for row in result["rows"]} == {IDLE, COPY, STEPPING}
    json.dumps(result, allow_nan=False)


def test_a_bench_of_an_engine_that_computes_says_that_its_work_is_included() -> None:
    plan = plan_of("toy", ("inproc",), (2,), None, {"obs_size": 5}, rounds=1, quick=True)
    result = prepare(plan).run("lucky-transport bench toy")
    assert {row["kind"] for row in result["rows"]} == {"step", "view"}
    assert any("they hold the engine's time too" in note for note in result["notes"])
