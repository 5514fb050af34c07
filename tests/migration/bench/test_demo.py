"""The demo's result and page, with the toy engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucky_transport_migration.bench import demo_result
from lucky_transport_migration.bench.demo import PATHS, pieces, run_demo
from lucky_transport_migration.bench.report_demo import demo_page

pytest.importorskip("grpc")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    ticks: list[str] = []
    found = run_demo("toy", 4, 60, 0, "lucky-transport demo", lambda text="": ticks.append(text))
    assert len(ticks) == pieces(60)
    return found


def test_all_transports_are_equal_and_measured(result: dict[str, Any]) -> None:
    assert result["parity"]["equal"] is True
    assert result["parity"]["between"] == list(PATHS)
    assert result["parity"]["compared"]["steps"] == 60 + 25  # the warm-up is compared too
    assert set(result["transports"]) == {"grpc", "grpc-batch", "shm"}
    for row in result["transports"].values():
        assert row["n"] == 60
        assert {"p50", "p99"} <= set(row["step_us"])
        assert row["warmup"]["n"] == 25
        assert row["transport_us"]["n"] >= 5


def test_the_speed_up_is_taken_from_the_step_and_from_the_transport_alone(result: dict[str, Any]) -> None:
    speedup = result["speedup"]
    assert speedup["step_p50_low"] <= speedup["step_p50"] <= speedup["step_p50_high"]
    assert speedup["step_p50"] == pytest.approx(result["ratios"]["grpc"]["ratio"], abs=0.001)  # both are rounded
    assert set(result["ratios"]) == {"inproc", "grpc", "grpc-batch"}


def test_the_engines_own_work_is_shown_apart(result: dict[str, Any]) -> None:
    assert result["in_process"]["cpu_us_per_step"]["engine"] is None
    assert any("engine's own work" in sentence for sentence in result["limits"])


def test_a_transport_with_faster_slow_steps_is_named() -> None:
    def row(p99: float, reliable_to: str = "p99") -> dict[str, Any]:
        return {"step_us": {"p99": p99}, "reliable_to": reliable_to}

    worse = demo_result.tail_losses({"shm": row(4_760.0), "grpc": row(18_000.0), "grpc-batch": row(4_172.0)})
    assert list(worse) == ["At p99 a step over gRPC batch service took 4.17 ms, over shared memory 4.76 ms."]
    assert not list(demo_result.tail_losses({"shm": row(9.0, "p50"), "grpc": row(1.0)}))  # too few steps to say


def test_the_result_is_json(result: dict[str, Any]) -> None:
    assert {"engine", "num_envs", "steps", "parity", "transports", "speedup"} <= set(
        json.loads(json.dumps(result, allow_nan=False))
    )


def test_the_page_tells_verdict_parity_and_limits(result: dict[str, Any]) -> None:
    text = demo_page(result)
    assert "✓ EQUAL" in text
    assert "http" not in text
    assert text.count("<img ") == 2
    assert text.index("EQUAL") < text.index("Side by side") < text.index("Where shared memory does not win")
    assert demo_page(json.loads(json.dumps(result))) == text


def test_a_difference_is_told_on_the_page(result: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(result))
    changed["parity"] |= {"equal": False, "sentence": "DIFFERENT: reward of env 3 differs"}
    text = demo_page(changed)
    assert "✗ DIFFERENT" in text
    assert "Reward of env 3 differs" in text
