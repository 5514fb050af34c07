"""The suite of scale: many pairs, many clients of one engine, engines that come and go."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from lucky_transport.cli.main import cli
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport_migration.bench.markdown import bench_markdown
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.page import bench_page
from lucky_transport_migration.bench.parts import growth
from lucky_transport_migration.bench.plan import Case
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suites import scale as suite
from lucky_transport_migration.bench.suites.scale import ScaleCell, cases_of, plan_of_scale
from lucky_transport_migration.bench.workloads import scale
from lucky_transport_migration.bench.workloads.scale import measure_scale, prepare
from lucky_transport_migration.bench.workloads.scale_program import cycles

BOTH = ("grpc", "shm")
SCHEMA = Path(__file__).parents[4] / "schema" / "bench.schema.json"


def with_cpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(suite.os, "sched_getaffinity", lambda pid: set(range(count)))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize(("cpus", "pairs"), [(1, [1, 4]), (2, [1, 2, 8]), (16, [1, 16, 64]), (128, [1, 16, 64])])
def test_without_a_number_up_to_four_pairs_a_cpu_are_measured(
    monkeypatch: pytest.MonkeyPatch, cpus: int, pairs: list[int]
) -> None:
    with_cpus(monkeypatch, cpus)
    prepared = prepare(BOTH, None, rounds=1, quick=False)
    assert prepared.plan.options["pairs"] == pairs
    lent = "1 CPU" if cpus == 1 else f"{cpus} CPUs"
    assert f"at most {pairs[-1]} pairs at once: this machine lends the bench {lent}" in prepared.notes


def test_each_number_is_measured_over_each_way() -> None:
    plan = plan_of_scale(BOTH, None, rounds=1, quick=True, pairs=(1, 3), cycles=7)
    assert [str(case) for case in cases_of(plan)] == [
        *("grpc-batch, 1 pair", "shm adaptive, 1 pair", "grpc-batch, 3 pairs", "shm adaptive, 3 pairs"),
        *("grpc, 1 client", "shm adaptive, 1 client", "grpc, 3 clients", "shm adaptive, 3 clients"),
        *("grpc, 7 cycles", "shm adaptive, 7 cycles"),
    ]


def test_more_pairs_than_there_are_descriptors_for_are_refused_with_the_limit_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite.resource, "getrlimit", lambda which: (256, 4096))
    with pytest.raises(
        ConfigError, match="--pairs 64 needs 704 descriptors in one process, and this shell allows 256"
    ) as e:
        plan_of_scale(BOTH, None, rounds=1, quick=True, pairs=(1, 64))
    assert e.value.hint == "run `ulimit -n 704` first, or write --pairs 19"
    assert plan_of_scale(BOTH, None, rounds=1, quick=True, pairs=(19,)).options["pairs"] == [19]


def test_a_transport_without_processes_is_refused() -> None:
    with pytest.raises(ConfigError, match="processes of their own"):
        plan_of_scale(("inproc", "shm"), None, rounds=1, quick=True)


@pytest.fixture(scope="module", autouse=True)
def engines_are_forks() -> None:
    """They are none here: a fork shares the memory that is measured."""


def measured(kind: str, count: int, path: str = "shm") -> Measurement:
    plan = plan_of_scale(("shm",), None, rounds=1, quick=True)
    rate = suite.STEP_HZ if kind == "pairs" else suite.CALL_HZ
    cell = ScaleCell(kind, path, "adaptive", f"{count} {kind}", rate, count)
    before = children()
    (found,) = measure_scale(Case(path, "adaptive", (cell,)), plan).values()
    assert children() == before
    return found


@pytest.mark.parametrize("kind", ["pairs", "clients"])
def test_what_each_uses_is_told_of_all_side_by_side(kind: str) -> None:
    one, two = measured(kind, 1), measured(kind, 2)
    assert two.samples_ns.size == 2 * one.samples_ns.size
    for found in (one, two):
        assert found.engine_cpu_ns
        assert found.client_cpu_ns
        assert set(found.beside) == {"cpu_percent", "memory_mib", "descriptors"}
        assert min(found.beside.values()) > 0
    if kind == "pairs":
        assert two.beside["descriptors"] == one.beside["descriptors"]


def test_a_client_that_fails_ends_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "_PROGRAM", "no_such_program")
    before = children()
    with pytest.raises(NotReachable, match="ended before it was ready"):
        measured("pairs", 2)
    assert children() == before


def test_engines_that_come_and_go_keep_no_descriptor() -> None:
    found = cycles("shm", "adaptive", 30)
    assert (found.samples_ns.size, found.warmup_ns.size) == (27, 3)
    assert found.beside["kept_descriptors"] == 0


def made_up(cell: ScaleCell) -> Measurement:
    """Each of many uses as much CPU, half the memory and twice the descriptors of one alone."""
    beside = {"cpu_percent": 4.0, "memory_mib": 80.0 if cell.count == 1 else 40.0, "descriptors": 20.0 * cell.count}
    samples = np.full(600, 1000 if cell.path == "shm" else 9000, np.int64)
    achieved = True if cell.rate_hz else None
    kept = {"kept_kib": 0.5, "kept_descriptors": 0.0, "last_over_first": 1.0}
    return Measurement(samples, samples[:5], 10**6, 10**6, None, achieved, beside=beside if cell.rate_hz else kept)


@pytest.fixture
def result() -> dict[str, Any]:
    prepared, results = prepare(BOTH, None, rounds=6, quick=False, pairs=(1, 2), cycles=50), Results()
    for _ in range(6):
        for case in prepared.cases:
            results.add(case, {cell: made_up(cell) for cell in case.cells})
    return prepared.result_of(results, "lucky-transport bench --suite scale", load=0.0)


def test_growth_says_what_each_of_many_uses_over_one_alone(result: dict[str, Any]) -> None:
    (table,) = growth(result)
    assert list(table.heads) == ["p99", "CPU", "memory", "descriptors"]
    assert {row[1:] for row in table.rows} == {("1.00×", "1.00×", "0.500×", "2.00×")}
    assert [row[0].partition(",")[0] for row in table.rows] == ["2 pairs over 1 pair"] * 2 + [
        "2 clients over 1 client"
    ] * 2


def test_ratios_compare_as_many_over_each_way(result: dict[str, Any]) -> None:
    found = {(one["kind"], one["count"], one["to"]): one["ratio"] for one in result["ratios"]}
    assert found == {
        **{("pairs", n, "grpc-batch"): 9.0 for n in (1, 2)},
        **{("clients", n, "grpc"): 9.0 for n in (1, 2)},
        ("cycles", 50, "grpc"): 9.0,
    }


def test_page_and_markdown_show_what_each_uses_and_how_it_grows(result: dict[str, Any]) -> None:
    for text in (bench_page(result), bench_markdown(result)):
        for part in (
            "Many pairs on one host",
            "2 pairs, 16 envs each",
            "MiB each",
            "growth, of each",
            "last over first",
        ):
            assert part in text


def test_the_result_keeps_to_the_published_schema(result: dict[str, Any]) -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(json.loads(json.dumps(result)))


@pytest.mark.parametrize("option", ["--pairs", "--cycles"])
def test_other_suites_have_one_pair_at_a_time(option: str) -> None:
    done = CliRunner().invoke(cli, ["bench", option, "2"])
    assert done.exit_code == 2
    assert "--pairs and --cycles are of --suite scale" in done.output
