"""The native limits beside the steps."""

from __future__ import annotations

import pytest

from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.suites.steps import IDLE, cases_of, plan_of
from lucky_transport_migration.bench.workloads import limits

OPTIONS = {"obs_size": 4, "act_size": 2}


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
    assert {(cell.size, cell.what) for cell in cells if cell.wait == "spin"} == {
        (n, engine) for n in (1, 8) for engine in (IDLE, "toy:copy")
    }
    found = limits.measure_limit(cells[-1], plan)
    assert isinstance(found, (Measurement, str))
    if isinstance(found, Measurement):
        assert found.samples_ns.size >= 90
