"""A second in-process path, and a bench's result made from known measurements."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from lucky_transport_migration import paths
from lucky_transport_migration.bench import bench, targets
from lucky_transport_migration.bench.bench import BenchResults
from lucky_transport_migration.bench.bench_plan import plan_of, setups_of
from lucky_transport_migration.bench.cells import Cell
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.report_bench import bench_page
from lucky_transport_migration.bench.setups import PeerSetup

#: Typical step of each path in the made-up result, in nanoseconds.
TYPICAL_NS = {
    "shm": 1_000,
    "shm-python": 2_000,
    "grpc": 500_000,
    "grpc-batch": 300_000,
    "inproc": 4_000,
    "limit": 300,
    **{name: 9_000 + 1_000 * place for place, name in enumerate(PEERS)},
}


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make "twin" a second name of the in-process transport, so that two members need no process."""
    monkeypatch.setitem(paths.NAMED, "twin", ("inproc", ()))
    return "twin"


def made_up(cell: Cell, round_index: int, n: int = 600) -> Measurement:
    """Return a measurement around the path's typical time, a little different in each round."""
    random = np.random.default_rng([round_index, cell.num_envs, len(cell.path)])
    typical = TYPICAL_NS[cell.path] * cell.num_envs**0.5 * (1.5 if cell.level == "env" else 1.0)
    samples = (typical * random.lognormal(0.0, 0.05, n)).astype(np.int64) + round_index
    engine = None if cell.path in ("inproc", "limit") else int(samples.sum() // 2)
    achieved = None if cell.rate_hz is None else True
    return Measurement(samples, samples[:20] * 3, int(samples.sum() // 3), engine, round_index % 2 == 0, achieved)


@pytest.fixture
def bench_result(_made_up_result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a bench whose measurements are made up: shm is 500 times faster than legacy gRPC.

    Each test gets a copy of its own.
    """
    return copy.deepcopy(_made_up_result)


@pytest.fixture(scope="session")
def bench_text(_made_up_result: dict[str, Any]) -> str:
    """Return the page of that result, with its targets."""
    result = _made_up_result | {"targets": [one.plain() for one in targets.check(_made_up_result)]}
    return bench_page(result)


@pytest.fixture(scope="session")
def _made_up_result() -> dict[str, Any]:
    plan = plan_of(
        "toy:idle", ("grpc", "shm", "inproc"), (1, 64), ("adaptive", "block"), {}, rounds=6, quick=False, peers=True
    )
    results = BenchResults()
    for index in range(plan.rounds):
        for setup in setups_of(plan):
            table = results.twins if setup.twin else results.cells
            peer = isinstance(setup, PeerSetup)
            cells = setup.cells() if peer else setup.cells(zero_copy=setup.path in ("shm", "inproc"))
            for cell in cells:
                table.setdefault(cell, []).append(made_up(cell, index))
        spin = Cell("transport", "limit", "spin", 1, "toy:idle", "copy", "inplace")
        results.cells.setdefault(spin, []).append(made_up(spin, index))
    results.idle["shm", "adaptive"] = [0.1, 0.2]
    results.threads["none", None] = [np.full(1000, 60_000)]
    results.threads["shm", "adaptive"] = [np.full(1000, 90_000)]
    return bench.bench_result(results, plan, "lucky-transport bench", load=0.0)
