"""A run at a glance: one row a way, one column a batch size."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.reading import rows_with_floor, summaries


def test_each_cell_has_the_ratio_of_the_result_and_p50(bench_result: dict[str, Any]) -> None:
    exchange, step = summaries(bench_result)
    assert (exchange.title, exchange.sizes) == ("One exchange", ("1 env", "64 envs"))
    cells = {name: seen for _, name, seen in exchange.rows}
    ours, theirs = cells["shared memory"][0], cells["legacy gRPC"][0]
    assert ours is not None
    assert theirs is not None
    assert ours.times == 1.0
    assert theirs.times == pytest.approx(theirs.p50_us / ours.p50_us, rel=0.1)
    assert {name for _, name, _ in step.rows} == {
        *("shared memory", "legacy gRPC", "gRPC batch service", "same process"),
    }


def test_ways_stand_fastest_first_and_a_size_that_was_not_measured_is_empty(bench_result: dict[str, Any]) -> None:
    exchange, _ = summaries(bench_result)
    first = [seen[0].p50_us for _, _, seen in exchange.rows if seen[0] is not None]
    assert first == sorted(first)
    pure = {name: seen for _, name, seen in exchange.rows}["shared memory, pure Python"]
    assert pure[0] is not None
    assert pure[1] is None


def test_the_second_measurement_stands_behind_the_first(bench_result: dict[str, Any]) -> None:
    rows = rows_with_floor(bench_result)
    at = next(i for i, row in enumerate(rows) if row is bench_result["noise_floor"]["row"])
    assert [rows[at - 1][key] for key in ("path", "wait", "num_envs", "rate_hz")] == ["shm", "adaptive", 1, None]
    bench_result["noise_floor"] = None
    assert rows_with_floor(bench_result) == bench_result["rows"]


def test_markdown_has_verdict_glance_losses_and_how_it_was_done(bench_result: dict[str, Any]) -> None:
    text = bench_markdown(bench_result)
    assert text.startswith("## Transports of toy:idle\n\n**FASTER** Shared memory is faster than gRPC in ")
    assert "| One exchange | 1 env | 64 envs |\n| --- | ---: | ---: |" in text
    assert "Where shared memory does not win:" in text
    assert "Measured twice (A/A)" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
