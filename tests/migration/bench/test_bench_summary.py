"""A run at a glance: one row a way, one column a batch size."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport_migration.bench.reading import all_rows, glance, headlines, lead, losses, numbers
from lucky_transport_migration.bench.report import bench_markdown
from lucky_transport_migration.units import times_text


def test_each_cell_has_the_ratio_of_the_result_and_p50(bench_result: dict[str, Any]) -> None:
    exchange, *_ = glance(bench_result)
    assert (exchange.title, exchange.heads) == ("One exchange", ["1 env", "64 envs"])
    cells = {name: first for name, first, *_ in exchange.rows}
    rows = {row["path"]: row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"}
    (ratio,) = (one for one in headlines(bench_result) if (one["to"], one["size"]) == ("grpc", 1))
    assert cells["shared memory (adaptive)"].startswith("1.00× ")
    assert cells["legacy gRPC"].startswith(f"{times_text(ratio['ratio'])}× ")
    assert rows["grpc"]["times"] == ratio["ratio"] == pytest.approx(500, rel=0.1)


def test_ways_stand_fastest_first_and_a_size_that_was_not_measured_is_empty(bench_result: dict[str, Any]) -> None:
    exchange, *_ = glance(bench_result)
    names = [name for name, *_ in exchange.rows]
    assert names[0] == "native limit (spin)"
    assert names[-2:] == ["gRPC batch service", "legacy gRPC"]
    assert {name: cells for name, *cells in exchange.rows}["native limit (spin)"][1] == "–"


def test_rates_of_one_size_are_columns_too(bench_result: dict[str, Any]) -> None:
    found = {table.title: table.heads for table in glance(bench_result)}
    assert found["VectorEnv.step(copy=True), toy engine at work, 16 envs"] == [f"{n} a second" for n in (50, 200, 1000)]


def test_the_second_measurement_stands_behind_the_first(bench_result: dict[str, Any]) -> None:
    rows = bench_result["rows"]
    (at,) = (i for i, row in enumerate(rows) if row["again"])
    assert [rows[at][key] for key in ("path", "wait", "title")] == ["shm", "adaptive", rows[at - 1]["title"]]
    assert rows[at]["way"] == f"{rows[at - 1]['way']}, again (A/A)"
    assert rows[at]["times"] == bench_result["noise_floor"]["ratio"]


def test_the_first_sentence_and_the_big_numbers_are_of_an_exchange(bench_result: dict[str, Any]) -> None:
    assert lead(bench_result).startswith("One exchange over shared memory, p50: ")
    assert [meaning.partition(" (")[0] for _, meaning in numbers(bench_result)] == [
        "One exchange, 1 env: legacy gRPC",
        "One exchange, 64 envs: legacy gRPC",
    ]


def test_all_rows_are_in_tables_of_which_only_the_way_differs(bench_result: dict[str, Any]) -> None:
    tables = all_rows(bench_result)
    assert sum(len(table.rows) for table in tables) == len(bench_result["rows"])
    assert all(len({row[0] for row in table.rows}) == len(table.rows) for table in tables)


def test_an_unsupported_percentile_is_a_dash_and_an_empty_column_is_left_out(bench_result: dict[str, Any]) -> None:
    first, second, *_ = [row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"]
    second |= {"reliable_to": "p50"}
    (table,) = all_rows(bench_result | {"rows": [first, second]})
    assert [row[table.heads.index("p99") + 1] == "–" for row in table.rows] == [False, True]
    assert "p99.99" not in table.heads


def test_losses_name_what_is_not_faster(bench_result: dict[str, Any]) -> None:
    text = " ".join(losses(bench_result))
    assert "slower than native limit (spin)" in text
    assert "slower than legacy gRPC" not in text


def test_losses_name_more_cpu_and_slower_tails(bench_result: dict[str, Any]) -> None:
    rows = [row for row in bench_result["rows"] if row["title"] == "One exchange, 1 env"]
    (ours,) = (row for row in rows if row["wait"] == "adaptive" and not row["again"])
    ours["cpu_us_each"] = {"client": 1e6, "engine": 1e6}
    ours["us"]["p99"] = 1e7
    found = losses(bench_result)
    for what in ("at p99 over legacy gRPC", "of CPU over legacy gRPC"):
        assert any(what in sentence and sentence.startswith("One exchange, 1 env: ") for sentence in found)
    ours["reliable_to"] = "p50"
    assert not any(
        "at p99 over legacy gRPC" in one and one.startswith("One exchange, 1 env:") for one in losses(bench_result)
    )


def test_markdown_has_verdict_glance_losses_and_how_it_was_done(bench_result: dict[str, Any]) -> None:
    text = bench_markdown(bench_result)
    assert text.startswith("## Transports of toy:idle\n\n**FASTER** Shared memory is faster than gRPC in ")
    assert "| One exchange | 1 env | 64 envs |\n| --- | ---: | ---: |" in text
    assert "Where shared memory does not win:" in text
    assert "Measured twice (A/A)" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
