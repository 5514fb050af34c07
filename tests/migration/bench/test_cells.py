"""What a bench plans to measure, and the native limits beside the steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucky_transport_migration.bench import limits
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.suite import Cell, Plan
from lucky_transport_migration.bench.suites.steps import COPY, IDLE, PACED_ENVS, STEPPING, cases_of, plan_of, prepare


def plan(engine: str = IDLE, transports: tuple[str, ...] = ("grpc", "shm"), quick: bool = False) -> Plan:
    return plan_of(engine, transports, (1, 64), None, {"obs_size": 4, "act_size": 2}, rounds=5, quick=quick)


def cells_of(plan: Plan) -> list[Cell]:
    return [cell for case in cases_of(plan) for cell in case.cells]


def test_grpc_stands_for_the_legacy_steps_and_the_batch_service() -> None:
    assert plan().paths == ("grpc", "grpc-batch", "shm")


def test_even_rounds_run_forwards_and_odd_ones_backwards() -> None:
    cases = cases_of(plan())
    assert plan().order(cases, 0) == cases
    assert plan().order(cases, 1) == cases[::-1]


def test_all_cells_of_a_case_have_one_way_and_one_engine_and_no_cell_is_measured_twice() -> None:
    cases = cases_of(plan())
    for case in cases:
        assert {cell.path for cell in case.cells} == {case.path}
        assert case.path == "limit" or len({(cell.what, cell.size) for cell in case.cells}) == 1
    assert len(set(cells_of(plan()))) == len(cells_of(plan()))


def test_every_strategy_is_measured_and_adaptive_stands_for_shm() -> None:
    cells = [cell for cell in cells_of(plan()) if cell.path == "shm" and cell.what == IDLE]
    assert {cell.wait for cell in cells} == {"adaptive", "block", "spin"}
    assert {cell.wait for cell in cells if cell.kind == "step"} == {"adaptive"}


def test_each_kind_of_row_of_the_reference_is_measured_twice_for_its_noise_floor() -> None:
    six = replace(plan(), rounds=6)
    once = [one for one in cases_of(six) if (one.path, one.wait) == ("shm", "adaptive")]
    twins = [one for one in prepare(six).cases if one.twin]
    assert [replace(one, twin=False) for one in twins] == once


def test_too_few_rounds_for_a_verdict_measure_one_thing_twice() -> None:
    (twin,) = [one for one in prepare(plan()).cases if one.twin]
    assert (twin.path, twin.cells[0].size, twin.wait) == ("shm", 1, "adaptive")


def test_legacy_grpc_is_not_charged_for_an_engine_that_copies_the_whole_batch_per_env() -> None:
    assert {cell.kind for cell in cells_of(plan()) if (cell.path, cell.what) == ("grpc", COPY)} == {"frame"}


def test_frames_of_growing_size_are_measured_over_every_path_with_one_env() -> None:
    swept = [cell for cell in cells_of(plan()) if cell.kind == "frame"]
    assert {cell.path for cell in swept} == {"grpc", "grpc-batch", "shm"}
    assert {cell.wait for cell in swept if cell.path == "shm"} == {"adaptive"}
    assert {cell.what for cell in swept} == {COPY}
    assert len({cell.size for cell in swept}) == 4


def paced(plan: Plan) -> list[Cell]:
    return [cell for cell in cells_of(plan) if cell.rate_hz and cell.kind == "step"]


def test_a_control_loop_steps_at_three_rates_in_process_and_over_each_path_but_the_legacy_step() -> None:
    found = paced(plan())
    assert {(cell.path, cell.what, cell.rate_hz) for cell in found} == {
        (path, engine, rate)
        for path in ("grpc-batch", "shm", "inproc")
        for engine in (STEPPING, IDLE)
        for rate in (50, 200, 1000)
    }
    assert {cell.size for cell in found} == {PACED_ENVS}


def test_any_engine_is_stepped_at_the_rates_that_were_asked_for() -> None:
    asked = plan_of("toy", ("shm",), (1, 2), None, {}, rounds=1, quick=True, rates=(30,))
    assert {(cell.path, cell.size, cell.rate_hz) for cell in paced(asked)} == {
        (path, n, 30) for path in ("shm", "inproc") for n in (1, 2)
    }
    assert not paced(plan("toy"))


def test_an_engine_that_computes_is_measured_through_the_env_alone() -> None:
    assert {cell.kind for cell in cells_of(plan("toy"))} == {"step", "view"}


def test_a_quick_plan_is_one_round_of_less() -> None:
    quick = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=True)
    full = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=False)
    assert (quick.rounds, quick.waits) == (1, ("adaptive",))
    assert full.num_envs == (1, 64, 4096)
    assert prepare(quick).pieces * 5 < prepare(full).pieces
    assert quick.effort.budget_s * 5 < full.effort.budget_s


def test_the_reference_is_compared_with_each_other_way_of_its_kind_and_with_nothing_else() -> None:
    suite = prepare(plan()).suite
    for ours, other in suite.pairs(cells_of(plan()), plan()):
        assert (ours.path, ours.wait) == ("shm", "adaptive")
        assert other != ours
        assert replace(other, path="shm", wait="adaptive") == ours


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
