"""The machine's own limits, as yardsticks: two native processes that spin or sleep on one word and copy
as many bytes as a step does.

Rule 1: this kit does not build or load anything native itself; where the core offers no limits the rows are left out
        and a note says so.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from lucky_transport_migration.bench_plan import BenchPlan
from lucky_transport_migration.cells import COPY, IDLE, Cell
from lucky_transport_migration.measuring import Measurement, Samples

__all__ = ["limit_cells", "measure_limit"]

_KINDS = {"spin": "spin", "block": "futex"}  # waiting strategy -> the native loop that is its limit
_WARMUP_SHARE = 10
_MOST_ROUNDS = 50_000
#: Rough cost of a round trip, to choose how many fit into a budget: waking a sleeper, and copying a byte.
_ROUND_NS = {"spin": 500.0, "block": 60_000.0}
_BYTE_NS = 0.1
_FLOAT_BYTES = 4


def limit_cells(plan: BenchPlan) -> list[Cell]:
    """Return the cells whose limit is worth knowing: spinning at every size, sleeping at the smallest one."""
    smallest = min(plan.num_envs)
    cells = [Cell("transport", "limit", "block", smallest, IDLE, "copy", "inplace")]
    for num_envs in plan.num_envs:
        cells.append(Cell("transport", "limit", "spin", num_envs, IDLE, "copy", "inplace"))
        cells.append(Cell("transport", "limit", "spin", num_envs, COPY, "copy", "copy"))
    return cells


def measure_limit(cell: Cell, plan: BenchPlan) -> Measurement | str:
    """Return the round trips of the native loop that copies as many bytes as the cell's steps do, or why not."""
    assert cell.wait is not None
    actions = cell.num_envs * int(plan.options["act_size"]) * _FLOAT_BYTES
    frame = cell.num_envs * int(plan.options["obs_size"]) * _FLOAT_BYTES if cell.engine == COPY else 0
    typical_ns = _ROUND_NS[cell.wait] + (actions + frame) * _BYTE_NS
    rounds = int(np.clip(plan.effort.budget_s * 1e9 / typical_ns, 100, _MOST_ROUNDS))
    try:
        limits: Any = importlib.import_module("lucky_transport.shm.limits")
        samples: Samples = np.asarray(limits.ping_pong_ns(_KINDS[cell.wait], rounds, actions, frame), np.int64)
    except (ImportError, OSError, NotImplementedError, RuntimeError) as error:
        return f"no native {cell.wait} limit: {error}"
    cut = samples.size // _WARMUP_SHARE
    return Measurement(samples[cut:], samples[:cut], 0, None)
