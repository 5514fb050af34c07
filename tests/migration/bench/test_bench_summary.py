"""A run at a glance: one row a way, one column a batch size."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.parts import glance
from lucky_transport_migration.bench.reading import headlines, is_plain, rows_with_floor
from lucky_transport_migration.units import times_text


def test_each_cell_has_the_ratio_of_the_result_and_p50(bench_result: dict[str, Any]) -> None:
    exchange, step = glance(bench_result)
    assert (exchange.title, exchange.heads) == ("One exchange", ["1 env", "64 envs"])
    cells = {name: first for name, first, *_ in exchange.rows}
    p50 = {row["path"]: row["us"]["p50"] for row in bench_result["rows"] if is_plain(row, bench_result)}
    (ratio,) = (one for one in headlines(bench_result) if (one["to"], one["num_envs"]) == ("grpc", 1))
    assert cells["shared memory"].startswith("1.00× ")
    assert cells["legacy gRPC"].startswith(f"{times_text(ratio['ratio'])}× ")
    assert ratio["ratio"] == pytest.approx(p50["grpc"] / p50["shm"], rel=0.1)
    assert {name for name, *_ in step.rows} == {
        *("shared memory", "legacy gRPC", "gRPC batch service", "same process"),
    }


def test_ways_stand_fastest_first_and_a_size_that_was_not_measured_is_empty(bench_result: dict[str, Any]) -> None:
    exchange, _ = glance(bench_result)
    names = [name for name, *_ in exchange.rows]
    assert names[:2] == ["native limit (spin)", "shared memory"]
    assert names[-2:] == ["gRPC batch service", "legacy gRPC"]
    again = {name: cells for name, *cells in exchange.rows}["shared memory, again (A/A)"]
    assert again[0] != "–"
    assert again[1] == "–"


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
