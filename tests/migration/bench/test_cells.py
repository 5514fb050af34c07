"""What a bench plans to measure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucky_transport_migration.bench.plan import Case
from lucky_transport_migration.bench.suites.steps import (
    COPY,
    IDLE,
    PACED_ENVS,
    STEPPING,
    StepCell,
    StepPlan,
    cases_of,
    offered,
    plan_of,
)
from lucky_transport_migration.bench.workloads.steps import prepare


def plan(engine: str = IDLE, transports: tuple[str, ...] = ("grpc", "shm"), quick: bool = False) -> StepPlan:
    return plan_of(engine, transports, (1, 64), None, {"obs_size": 4, "act_size": 2}, rounds=5, quick=quick)


def engines_of(plan: StepPlan) -> list[Case]:
    """Return the cases that start an engine of ours."""
    return [one for one in cases_of(plan) if one.path != "limit"]


def is_full(case: Case) -> bool:
    """True for one that is measured through the env too."""
    return any(cell.level == "env" for cell in case.cells)


def test_grpc_stands_for_the_legacy_steps_and_the_batch_service() -> None:
    assert plan().paths == ("grpc", "grpc-batch", "shm")


def test_a_path_named_twice_is_measured_once() -> None:
    assert plan(transports=("grpc", "grpc-batch", "shm")).paths == ("grpc", "grpc-batch", "shm")


def test_even_rounds_run_forwards_and_odd_ones_backwards() -> None:
    cases = cases_of(plan())
    assert plan().order(cases, 0) == cases
    assert plan().order(cases, 1) == cases[::-1]


def test_every_strategy_is_measured_and_adaptive_stands_for_shm() -> None:
    cases = [one for one in engines_of(plan()) if one.path == "shm" and one.cells[0].engine == IDLE]
    assert {one.wait for one in cases} == {"adaptive", "block", "spin"}
    assert {one.wait for one in cases if is_full(one)} == {"adaptive"}


def test_each_kind_of_row_of_the_reference_is_measured_twice_for_its_noise_floor() -> None:
    six = replace(plan(), rounds=6)
    once = [one for one in cases_of(six) if (one.path, one.wait) == ("shm", "adaptive")]
    twins = [one for one in prepare(six).cases if one.twin]
    assert [replace(one, twin=False) for one in twins] == once


def test_too_few_rounds_for_a_verdict_measure_one_thing_twice() -> None:
    (twin,) = [one for one in prepare(plan()).cases if one.twin]
    assert (twin.path, twin.cells[0].num_envs, twin.wait) == ("shm", 1, "adaptive")


def test_legacy_grpc_is_not_charged_for_an_engine_that_copies_the_whole_batch_per_env() -> None:
    copying = [cell for one in cases_of(plan()) for cell in one.cells if (cell.path, cell.engine) == ("grpc", COPY)]
    assert {(cell.num_envs, cell.frame_bytes is None) for cell in copying} == {(1, False)}


def test_frames_of_growing_size_are_measured_over_every_path_with_one_env() -> None:
    swept = [one for one in engines_of(plan()) if one.cells[0].frame_bytes is not None]
    assert {one.path for one in swept} == {"grpc", "grpc-batch", "shm"}
    assert {one.wait for one in swept if one.path == "shm"} == {"adaptive"}
    assert len({one.cells[0].frame_bytes for one in swept}) > 2
    for one in swept:
        (cell,) = one.cells
        assert (cell.num_envs, cell.engine) == (1, COPY)
        assert plan().options_of(cell.frame_bytes)["obs_size"] * 4 == cell.frame_bytes


def test_an_exchange_at_a_fixed_rate_is_measured_at_the_smallest_size_only() -> None:
    cells = [cell for one in cases_of(plan()) for cell in one.cells if cell.rate_hz and cell.level == "transport"]
    assert {cell.num_envs for cell in cells} == {1}


def paced(plan: StepPlan) -> list[StepCell]:
    return [cell for one in cases_of(plan) for cell in one.cells if cell.rate_hz and cell.level == "env"]


def test_a_control_loop_steps_at_three_rates_in_process_and_over_each_path_but_the_legacy_step() -> None:
    found = paced(plan())
    assert {(cell.path, cell.engine, cell.rate_hz) for cell in found} == {
        (path, engine, rate)
        for path in ("grpc-batch", "shm", "inproc")
        for engine in (STEPPING, IDLE)
        for rate in (50, 200, 1000)
    }
    assert {(cell.num_envs, cell.copy) for cell in found} == {(PACED_ENVS, True)}


def test_any_engine_is_stepped_at_the_rates_that_were_asked_for() -> None:
    asked = plan_of("toy", ("shm",), (1, 2), None, {}, rounds=1, quick=True, rates=(30,))
    assert {(cell.path, cell.num_envs, cell.rate_hz) for cell in paced(asked)} == {
        (path, n, 30) for path in ("shm", "inproc") for n in (1, 2)
    }
    assert not paced(plan("toy"))


def test_in_place_rows_are_only_for_transports_with_frames_in_place() -> None:
    case = next(one for one in cases_of(plan()) if one.path == "shm" and is_full(one) and one.cells[0].engine == IDLE)
    assert any(cell.actions == "inplace" for cell in offered(case.cells, zero_copy=True))
    assert {(cell.actions, cell.observations) for cell in offered(case.cells, zero_copy=False)} == {("copy", "copy")}
    assert {cell.copy for cell in offered(case.cells, zero_copy=False)} == {None, True}


def test_an_engine_that_computes_is_measured_through_the_env_alone() -> None:
    cells: list[StepCell] = [cell for one in cases_of(plan("toy")) for cell in one.cells]
    assert cells
    assert {cell.level for cell in cells} == {"env"}


def test_a_quick_plan_is_one_round_of_less() -> None:
    quick = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=True)
    full = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=False)
    assert (quick.rounds, quick.waits) == (1, ("adaptive",))
    assert full.num_envs == (1, 64, 4096)
    assert prepare(quick).pieces * 5 < prepare(full).pieces
    assert quick.effort.budget_s * 5 < full.effort.budget_s


@pytest.mark.parametrize("waits", [("block",), ("spin", "adaptive")])
def test_a_strategy_stands_for_shm_even_when_adaptive_was_not_asked_for(waits: tuple[str, ...]) -> None:
    chosen = plan_of(IDLE, ("shm",), (1,), waits, {}, rounds=1, quick=False)
    assert chosen.main_wait("shm") == ("adaptive" if "adaptive" in waits else waits[0])
    assert chosen.main_wait("grpc") is None
