"""The bench's result: rows, ratios, targets, losses and headlines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucky_transport_migration.bench import targets
from lucky_transport_migration.bench.reading import group_title, grouped, headlines, supported_us, times_of
from lucky_transport_migration.bench.slower_cases import losses
from lucky_transport_migration.bench.suites.steps import COPY, IDLE, PACED_ENVS, STEP_TARGETS, STEPPING, plan_of
from lucky_transport_migration.bench.terminal import without_histograms
from lucky_transport_migration.bench.workloads.steps import prepare

ROW_KEYS = {
    "suite",
    "level",
    "path",
    "wait",
    "num_envs",
    "copy",
    "n",
    "us",
    "cpu_s",
    "actions",
    "observations",
    "rate_hz",
}


def rows(result: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if all(row.get(key) == value for key, value in wanted.items())]


def test_a_row_says_what_was_measured_and_how_often(bench_result: dict[str, Any]) -> None:
    for row in bench_result["rows"]:
        assert set(row) >= ROW_KEYS
        assert {"p50", "p99", "p999", "p50_min", "p50_max", "max"} <= set(row["us"])
        assert row["us"]["p50_min"] <= row["us"]["p50"] <= row["us"]["p50_max"]
        assert set(row["cpu_s"]) == {"client", "engine"}
        assert row["n"] == 600 * row["rounds"]


def test_a_row_without_an_engine_process_has_no_engine_cpu(bench_result: dict[str, Any]) -> None:
    assert all(row["cpu_s"]["engine"] is None for row in rows(bench_result, suite="step", path="inproc"))
    assert all(row["cpu_s"]["engine"] > 0 for row in rows(bench_result, suite="step", path="shm"))
    assert all(row["cpu_s"]["client"] is None for row in rows(bench_result, suite="step", path="limit"))


def test_placement_tells_when_it_changed_between_rounds(bench_result: dict[str, Any]) -> None:
    assert rows(bench_result, path="shm", suite="step")[0]["placement"] == "mixed"


def test_ratios_compare_like_with_like_within_the_run(bench_result: dict[str, Any]) -> None:
    found = {
        (one["level"], one["num_envs"], one["to"], one["to_wait"], one["copy"], one["rate_hz"]): one
        for one in bench_result["ratios"]
        if one["engine"] == IDLE
    }
    legacy = found["transport", 1, "grpc", None, None, None]
    assert legacy["low"] <= legacy["ratio"] <= legacy["high"]
    assert legacy["ratio"] == pytest.approx(500, rel=0.1)
    assert legacy["word"] == "FASTER"
    assert "shared memory is" in legacy["sentence"]
    assert ("transport", 1, "limit", "spin", None, None) in found
    assert ("transport", 1, "shm", "block", None, None) in found
    assert ("transport", 1, "grpc", None, None, 50) in found
    assert all(one["of"] == "shm" and one["wait"] == "adaptive" for one in bench_result["ratios"])


def test_legacy_grpc_is_compared_with_a_copying_engine_by_its_idle_rows(bench_result: dict[str, Any]) -> None:
    found = [one for one in bench_result["ratios"] if one["engine"] == COPY and one["to"] == "grpc"]
    assert {one["to_engine"] for one in found if one["frame_bytes"] is None} == {IDLE}
    assert {one["to_engine"] for one in found if one["frame_bytes"] is not None} == {COPY}


def test_a_larger_frame_is_compared_with_one_of_its_size(bench_result: dict[str, Any]) -> None:
    swept = [one for one in bench_result["ratios"] if one["frame_bytes"] == 4096]
    assert {one["to"] for one in swept} >= {"grpc", "grpc-batch", "inproc"}
    assert all("frame of 4 KiB" in one["sentence"] for one in swept)


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
    assert {(one["to"], one["num_envs"]) for one in headlines(bench_result)} == {
        (path, n) for path in ("grpc", "grpc-batch", "inproc") for n in (1, 64)
    }


def test_rows_are_grouped_so_that_only_the_path_differs(bench_result: dict[str, Any]) -> None:
    found = dict(grouped(bench_result["rows"]))
    assert sum(len(members) for members in found.values()) == len(bench_result["rows"])
    for title, members in found.items():
        assert {group_title(row) for row in members} == {title}
        ways = [(row["path"], row["wait"]) for row in members]
        assert len(set(ways)) == len(ways)


def test_the_reference_row_is_one_time_itself(bench_result: dict[str, Any]) -> None:
    for row in rows(bench_result, suite="step", path="shm", wait="adaptive", actions="copy", rate_hz=None):
        assert times_of(row, bench_result) == 1.0
    plain = {"level": "transport", "num_envs": 1, "rate_hz": None, "frame_bytes": None}
    (legacy,) = rows(bench_result, path="grpc", **plain)
    assert times_of(legacy, bench_result) == pytest.approx(500, rel=0.1)


def test_an_unsupported_percentile_is_a_dash(bench_result: dict[str, Any]) -> None:
    row = rows(bench_result, suite="step")[0] | {"n": 100, "reliable_to": "p50"}
    assert supported_us(row, "p50") != "–"
    assert supported_us(row, "p99") == "–"
    assert supported_us(row, "p9999") == "–"


def test_losses_name_what_is_not_faster(bench_result: dict[str, Any]) -> None:
    text = " ".join(losses(bench_result))
    assert "slower than the native spin limit" in text
    assert "slower than legacy gRPC" not in text


def test_losses_name_more_cpu_per_step(bench_result: dict[str, Any]) -> None:
    (row,) = rows(bench_result, path="shm", wait="adaptive", level="transport", num_envs=1, engine=IDLE, rate_hz=50)
    row["cpu_us_per_step"] = {"client": 1e6, "engine": 1e6}
    assert any("of CPU per step" in sentence for sentence in losses(bench_result))


def test_a_smaller_gain_at_a_fixed_rate_is_said(bench_result: dict[str, Any]) -> None:
    for one in bench_result["ratios"]:
        if one["rate_hz"] and one["to"] == "grpc":
            one["ratio"] /= 10
    assert any(sentence.startswith("At 50 steps a second") for sentence in losses(bench_result))


def test_each_target_is_met_missed_or_not_measured(bench_result: dict[str, Any]) -> None:
    found = {one["name"]: one for one in targets.check(bench_result, STEP_TARGETS)}
    assert len(found) == len(STEP_TARGETS)
    legacy = found["1 env, exchange: legacy gRPC over shm"]
    assert legacy["measured"] == pytest.approx(500, rel=0.1)
    assert legacy["measured"] is not None
    assert legacy["word"] == ("PASS" if legacy["measured"] >= 400 else "FAIL")
    assert found["in place: 4096 envs over 1 env"]["word"] == "NOT MEASURED"
    assert found["in place: 4096 envs over 1 env"]["measured"] is None


def test_a_missed_target_fails(bench_result: dict[str, Any]) -> None:
    rows(bench_result, path="limit", num_envs=1, engine=IDLE)[0]["us"]["p50"] = 0.01
    found = {one["name"]: one for one in targets.check(bench_result, STEP_TARGETS)}
    assert found["1 env, exchange: shm over the native two-process spin"]["word"] == "FAIL"


def test_the_native_module_alone_is_promised_to_come_near_the_spin(bench_result: dict[str, Any]) -> None:
    goals = {
        one["name"]: one["goal"]
        for one in targets.check(bench_result, STEP_TARGETS)
        if "two-process spin" in one["name"]
    }
    assert list(goals.values()) == [3.0]


def test_a_bench_in_process_runs_all_its_pieces() -> None:
    plan = plan_of(IDLE, ("inproc",), (1, 3), None, {"obs_size": 5, "act_size": 2}, rounds=2, quick=True)
    told: list[str] = []
    prepared = prepare(plan)
    result = prepared.run("lucky-transport bench", told.append)
    assert len(told) == prepared.pieces
    assert {row["num_envs"] for row in result["rows"] if row["path"] == "inproc"} == {1, 3, PACED_ENVS}
    assert {row["engine"] for row in result["rows"]} == {IDLE, COPY, STEPPING}
    json.dumps(result, allow_nan=False)


def test_a_bench_of_an_engine_that_computes_says_that_its_work_is_included() -> None:
    plan = plan_of("toy", ("inproc",), (2,), None, {"obs_size": 5}, rounds=1, quick=True)
    result = prepare(plan).run("lucky-transport bench toy")
    assert {row["level"] for row in result["rows"]} == {"env"}
    assert any("they hold the engine's time too" in note for note in result["notes"])
