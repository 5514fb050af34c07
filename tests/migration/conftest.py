"""A second in-process path, and a bench's result made from known measurements."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from lucky_transport_migration import paths
from lucky_transport_migration.bench import page, targets
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.page import bench_page
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.run import Results
from lucky_transport_migration.bench.suites.steps import IDLE, STEP_TARGETS, StepCell, offered, plan_of
from lucky_transport_migration.bench.workloads.steps import prepare
from lucky_transport_migration.parity import call_proof

#: Typical step of each path in the made-up result, in nanoseconds.
TYPICAL_NS = {
    "shm": 1_000,
    "grpc": 500_000,
    "grpc-batch": 300_000,
    "inproc": 4_000,
    "limit": 300,
    **{name: 9_000 + 1_000 * place for place, name in enumerate(PEERS)},
}


@pytest.fixture(scope="module", autouse=True)
def _engines_are_forks(forked_engines: None) -> None:
    """How an engine's process starts is tested in tests/core and tests/plugins."""


@pytest.fixture
def few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tenth of a stream's items compared: all of them take seconds to come."""
    monkeypatch.setattr(call_proof, "MOST_ITEMS", call_proof.MOST_ITEMS // 10)


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pages say all but draw nothing, which takes a second each: the pages of other tests have their charts."""
    monkeypatch.setattr(page, "charts", lambda result: iter(()))


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch, few_items: None) -> str:
    """Make "twin" a second name of the in-process transport, so that two members need no process."""
    monkeypatch.setitem(paths.NAMED, "twin", ("inproc", ()))
    return "twin"


def made_up(cell: StepCell, round_index: int, n: int = 600) -> Measurement:
    """Return a measurement around the path's typical time, a little different in each round."""
    random = np.random.default_rng([round_index, cell.num_envs, len(cell.path)])
    typical = TYPICAL_NS[cell.path] * cell.num_envs**0.5 * (1.5 if cell.level == "env" else 1.0)
    samples = (typical * random.lognormal(0.0, 0.05, n)).astype(np.int64) + round_index
    engine = None if cell.path in ("inproc", "limit") else int(samples.sum() // 2)
    achieved = None if cell.rate_hz is None else True
    client = None if cell.path == "limit" else int(samples.sum() // 3)
    return Measurement(samples, samples[:20] * 3, client, engine, round_index % 2 == 0, achieved)


@pytest.fixture
def bench_result(_made_up_result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a bench whose measurements are made up: shm is 500 times faster than legacy gRPC.

    Each test gets a copy of its own.
    """
    return copy.deepcopy(_made_up_result)


@pytest.fixture(scope="session")
def bench_text(_made_up_result: dict[str, Any]) -> str:
    """Return the page of that result, with its targets."""
    result = _made_up_result | {"targets": targets.check(_made_up_result, STEP_TARGETS)}
    return bench_page(result)


@pytest.fixture(scope="session")
def _made_up_result() -> dict[str, Any]:
    plan = plan_of(
        "toy:idle", ("grpc", "shm", "inproc"), (1, 64), ("adaptive", "block"), {}, rounds=6, quick=False, peers=True
    )
    prepared, results = prepare(plan), Results()
    for index in range(plan.rounds):
        for case in prepared.cases:
            cells = offered(case.cells, zero_copy=case.path not in ("grpc", "grpc-batch"))
            if case.path == "limit":
                cells = [cell for cell in cells if (cell.wait, cell.num_envs, cell.engine) == ("spin", 1, IDLE)]
            results.add(case, {cell: made_up(cell, index) for cell in cells})
    idle = {"suite": "idle", "level": "transport", "path": "shm", "wait": "adaptive", "num_envs": 1, "n": 2}
    results.surroundings = [
        idle | {"cpu_percent": 0.15, "cpu_percent_max": 0.2},
        _late("none", None, 60.0),
        _late("shm", "adaptive", 90.0),
    ]
    return prepared.result_of(results, "lucky-transport bench", load=0.0)


def _late(path: str, wait: str | None, us: float) -> dict[str, Any]:
    """Return the row of another thread that was always so late."""
    shown = dict.fromkeys(("p50", "p99", "p999", "max", "p50_min", "p50_max"), us)
    row = {"suite": "threads", "level": "transport", "path": path, "wait": wait, "num_envs": 1}
    return row | {"n": 1000, "us": shown, "reliable_to": "p99"}
