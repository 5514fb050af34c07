"""Rows beside the steps: an idle engine's CPU, other threads of a waiting client, native limits."""

from __future__ import annotations

import pytest

from lucky_transport_migration.bench.measuring import Effort, Measurement
from lucky_transport_migration.bench.suites.steps import IDLE, cases_of, plan_of
from lucky_transport_migration.bench.workloads import limits
from lucky_transport_migration.bench.workloads.overheads import idle_row, threads_row

EFFORT = Effort(budget_s=0.002, idle_s=0.1, neighbour_s=0.05)
OPTIONS = {"obs_size": 4, "act_size": 2}


def test_an_idle_engine_over_shm_uses_some_share_of_a_core() -> None:
    row = idle_row("shm", "adaptive", OPTIONS, EFFORT)
    assert 0 <= row["cpu_percent"] <= row["cpu_percent_max"] <= 1000


def test_lateness_of_another_thread_is_sampled_at_every_tick() -> None:
    alone = threads_row("none", None, OPTIONS, EFFORT)
    beside = threads_row("inproc", None, OPTIONS, EFFORT, repeats=2)
    assert (alone["n"], beside["n"]) == (50, 100)


def test_a_missing_compiler_is_a_note_and_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.shutil, "which", lambda name: None)
    limits.ping_pong_program.cache_clear()
    plan = plan_of(IDLE, ("shm",), (1,), None, OPTIONS, rounds=1, quick=True)
    found = limits.measure_limit(cases_of(plan)[-1].cells[0], plan)
    assert isinstance(found, str)
    assert "no native block limit" in found


@pytest.mark.exhaustive
def test_the_limits_cover_every_size_and_copy_what_a_step_copies() -> None:
    plan = plan_of(IDLE, ("shm",), (1, 8), None, OPTIONS, rounds=1, quick=True)
    cells = cases_of(plan)[-1].cells
    assert {(cell.num_envs, cell.engine) for cell in cells if cell.wait == "spin"} == {
        (n, engine) for n in (1, 8) for engine in (IDLE, "toy:copy")
    }
    found = limits.measure_limit(cells[-1], plan)
    assert isinstance(found, (Measurement, str))
    if isinstance(found, Measurement):
        assert found.samples_ns.size >= 90
