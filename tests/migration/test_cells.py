"""What a bench plans to measure."""

from __future__ import annotations

import pytest

from lucky_transport_migration.bench import estimate_s, pieces
from lucky_transport_migration.cells import COPY, IDLE, BenchPlan, plan_of, setups_of


def plan(engine: str = IDLE, transports: tuple[str, ...] = ("grpc", "shm"), quick: bool = False) -> BenchPlan:
    return plan_of(engine, transports, (1, 64), None, {"obs_size": 4, "act_size": 2}, rounds=5, quick=quick)


def test_grpc_stands_for_the_legacy_steps_and_the_batch_service() -> None:
    assert plan().paths == ("grpc", "grpc-batch", "shm")


def test_a_path_named_twice_is_measured_once() -> None:
    assert plan(transports=("grpc", "grpc-batch", "shm")).paths == ("grpc", "grpc-batch", "shm")


def test_even_rounds_run_forwards_and_odd_ones_backwards() -> None:
    setups = list(setups_of(plan()))
    assert plan().order(setups, 0) == setups
    assert plan().order(setups, 1) == setups[::-1]


def test_every_strategy_is_measured_and_adaptive_stands_for_shm() -> None:
    setups = [one for one in setups_of(plan()) if one.path == "shm" and one.engine == IDLE and not one.twin]
    assert {one.wait for one in setups} == {"adaptive", "block", "spin"}
    assert {one.wait for one in setups if one.full} == {"adaptive"}


def test_the_reference_is_measured_twice_for_the_noise_floor() -> None:
    twins = [one for one in setups_of(plan()) if one.twin]
    assert [(one.path, one.num_envs, one.wait) for one in twins] == [("shm", 1, "adaptive")]


def test_legacy_grpc_is_not_charged_for_an_engine_that_copies_the_whole_batch_per_env() -> None:
    assert not [one for one in setups_of(plan()) if one.path == "grpc" and one.engine == COPY]


def test_a_fixed_rate_is_measured_at_the_smallest_size_only() -> None:
    assert {one.num_envs for one in setups_of(plan()) if one.open_loop} == {1}


def test_in_place_rows_are_only_for_transports_with_frames_in_place() -> None:
    setup = next(one for one in setups_of(plan()) if one.path == "shm" and one.full and one.engine == IDLE)
    assert any(cell.actions == "inplace" for cell in setup.cells(zero_copy=True))
    assert not any(cell.actions == "inplace" for cell in setup.cells(zero_copy=False))


def test_an_engine_that_computes_is_measured_through_the_env_alone() -> None:
    cells = [cell for one in setups_of(plan("toy")) for cell in one.cells(zero_copy=True)]
    assert cells
    assert {cell.level for cell in cells} == {"env"}


def test_a_quick_plan_is_one_round_of_less() -> None:
    quick = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=True)
    full = plan_of(IDLE, ("grpc", "shm"), None, None, {}, rounds=5, quick=False)
    assert (quick.rounds, quick.waits) == (1, ("adaptive",))
    assert full.num_envs == (1, 64, 4096)
    assert pieces(quick) < pieces(full)
    assert estimate_s(quick) < 30
    assert estimate_s(quick) * 5 < estimate_s(full)


@pytest.mark.parametrize("waits", [("block",), ("spin", "adaptive")])
def test_a_strategy_stands_for_shm_even_when_adaptive_was_not_asked_for(waits: tuple[str, ...]) -> None:
    chosen = plan_of(IDLE, ("shm",), (1,), waits, {}, rounds=1, quick=False)
    assert chosen.main_wait("shm") == ("adaptive" if "adaptive" in waits else waits[0])
    assert chosen.main_wait("grpc") is None
