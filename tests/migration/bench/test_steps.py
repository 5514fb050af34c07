"""The suite of steps: what it plans, measures and looks at, and how a run goes; a fast wrong answer is no result."""

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import PeerTimeout, RemoteProtocolError
from lucky_transport_migration.bench import limits, run
from lucky_transport_migration.bench.measuring import Effort, Measurement
from lucky_transport_migration.bench.suites.steps import (
    _check_whole,  # pyright: ignore[reportPrivateUsage]
    cases_of,
    measure_case,
    plan_of,
    prepare,
)


def plan(engine: str = "toy:idle", transports: tuple[str, ...] = ("grpc", "shm"), quick: bool = False) -> Any:
    return plan_of(engine, transports, (1, 64), None, {"obs_size": 4, "act_size": 2}, rounds=5, quick=quick)


def cells_of(plan: Any) -> list[Any]:
    return [cell for case in cases_of(plan) for cell in case.cells]


def test_all_cells_of_a_case_have_one_way_and_one_engine_and_no_cell_is_measured_twice() -> None:
    cases = cases_of(plan())
    for case in cases:
        assert {cell.path for cell in case.cells} == {case.path}
        assert case.path == "limit" or len({(cell.what, cell.size) for cell in case.cells}) == 1
    assert len(set(cells_of(plan()))) == len(cells_of(plan()))


def test_every_strategy_is_measured_and_adaptive_stands_for_shm() -> None:
    cells = [cell for cell in cells_of(plan()) if cell.path == "shm" and cell.what == "toy:idle"]
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
    assert {cell.kind for cell in cells_of(plan()) if (cell.path, cell.what) == ("grpc", "toy:copy")} == {"frame"}


def paced(plan: Any) -> list[Any]:
    return [cell for cell in cells_of(plan) if cell.rate_hz and cell.kind == "step"]


def test_any_engine_is_stepped_at_the_rates_that_were_asked_for() -> None:
    asked = plan_of("toy", ("shm",), (1, 2), None, {}, rounds=1, quick=True, rates=(30,))
    assert {(cell.path, cell.size, cell.rate_hz) for cell in paced(asked)} == {
        (path, n, 30) for path in ("shm", "inproc") for n in (1, 2)
    }
    assert not paced(plan("toy"))


def test_an_engine_that_computes_is_measured_through_the_env_alone() -> None:
    assert {cell.kind for cell in cells_of(plan("toy"))} == {"step", "view"}
    assert any("they hold the engine's time too" in note for note in prepare(plan("toy")).notes)


def test_a_quick_plan_is_one_round_of_less() -> None:
    quick = plan_of("toy:idle", ("grpc", "shm"), None, None, {}, rounds=5, quick=True)
    full = plan_of("toy:idle", ("grpc", "shm"), None, None, {}, rounds=5, quick=False)
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
    plan = plan_of("toy:idle", ("shm",), (1,), None, OPTIONS, rounds=1, quick=True)
    found = limits.measure_limit(cases_of(plan)[-1].cells[0], plan)
    assert isinstance(found, str)
    assert "no native block limit" in found


@pytest.mark.exhaustive
def test_the_limits_cover_every_size_and_copy_what_a_step_copies() -> None:
    plan = plan_of("toy:idle", ("shm",), (1, 8), None, OPTIONS, rounds=1, quick=True)
    cells = cases_of(plan)[-1].cells
    assert {(cell.size, cell.what) for cell in cells if cell.wait == "spin"} == {
        (n, engine) for n in (1, 8) for engine in ("toy:idle", "toy:copy")
    }
    found = limits.measure_limit(cells[-1], plan)
    assert isinstance(found, (Measurement, str))
    if isinstance(found, Measurement):
        assert found.samples_ns.size >= 90


EFFORT = Effort(budget_s=0.002, least=2, most=50, open_loop_s=0.02)
PLAN = replace(
    plan_of("toy:idle", ("inproc",), None, None, {"obs_size": 4, "act_size": 2}, rounds=1, quick=True), effort=EFFORT
)


def case_of(num_envs: int, engine: str = "toy:idle") -> Any:
    """Return the case of an engine with so many envs in this process."""
    cases = cases_of(replace(PLAN, num_envs=(num_envs,)))
    return next(one for one in cases if one.path == "inproc" and one.cells[0].what == engine)


@pytest.mark.parametrize("engine", ["toy:idle", "toy:copy"])
def test_all_cells_of_a_case_are_measured(engine: str) -> None:
    case = case_of(3, engine)
    case = replace(case, cells=(*case.cells, replace(case.cells[0], rate_hz=50)))
    found = measure_case(case, PLAN)
    assert list(found) == list(case.cells)
    assert all(one.samples_ns.size >= 2 for one in found.values())


@pytest.mark.parametrize("engine", ["toy:idle", "toy:copy"])
@pytest.mark.parametrize("kind", ["exchange", "step"])
def test_one_torn_frame_in_the_middle_of_a_loop_is_found(
    engine: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, torn = ToyEngine.step, iter([9])

    def tear(self: ToyEngine, control: Any) -> None:
        step(self, control)
        if next(steps) == 9:
            self._buffers.observations[-1, -1] = next(torn)  # pyright: ignore[reportPrivateUsage]
        elif engine == "toy:idle":
            self._buffers.observations[:] = 0  # pyright: ignore[reportPrivateUsage]

    steps = itertools.count()
    monkeypatch.setattr(ToyEngine, "step", tear)
    case = case_of(2, engine)
    case = replace(case, cells=(replace(case.cells[0], kind=kind),))
    with pytest.raises(RemoteProtocolError, match="a frame was torn"):
        measure_case(case, replace(PLAN, effort=replace(EFFORT, least=20)))


def test_a_frame_that_came_twice_is_found_by_its_stamp() -> None:
    check = _check_whole("toy:copy", np.array([[7.0, 0.5], [0.5, 7.0]]))
    check(np.array([[8.0, 0.5], [0.5, 8.0]]))
    with pytest.raises(RemoteProtocolError, match=r"stamps 8.0 and 8.0, not 9.0"):
        check(np.array([[8.0, 0.5], [0.5, 8.0]]))


def test_a_row_says_what_was_looked_at_and_one_of_an_engine_at_work_that_nothing_was() -> None:
    case = case_of(2, "toy:copy")
    at_rest = measure_case(replace(case, cells=(*case.cells, replace(case.cells[0], kind="step"))), PLAN)
    assert {cell.kind: one.looked_at for cell, one in at_rest.items()} == {
        "exchange": "its number, and the stamps at both ends of its observations",
        "step": "the stamps at both ends of its observations",
    }
    assert {one.looked_at for one in measure_case(case_of(2, "toy"), PLAN).values()} == {""}


def _stopped(error: BaseException, after: int) -> Any:
    """Return a suite of one case a round whose measuring raises after so many rounds."""
    case = case_of(1)
    found, rounds = measure_case(case, PLAN), itertools.count()

    def measure(_: Any) -> Any:
        if next(rounds) == after:
            raise error
        return found

    return replace(prepare(PLAN), plan=replace(PLAN, rounds=8), cases=[case], measure=measure)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), PeerTimeout("no frame within 20 s")])
@pytest.mark.parametrize(
    ("after", "cases", "rounds", "said"),
    [
        (7, 1, 7, "stopped after 7 of 8 rounds, which are what is shown: "),
        (1, 2, 1, "stopped in the first round, of which 1 of 2 pairs are shown: "),
    ],
)
def test_a_run_that_is_stopped_shows_what_was_measured_and_says_so(
    error: BaseException, after: int, cases: int, rounds: int, said: str
) -> None:
    suite = _stopped(error, after)
    found = replace(suite, cases=[*suite.cases, case_of(2)][:cases]).run("lucky-transport bench")
    assert found["rounds"] == rounds
    assert {(row["rounds"], row["size"]) for row in found["rows"]} == {(rounds, 1)}
    assert found["stopped"] in found["notes"]
    assert found["stopped"].startswith(said)
    assert str(error) in found["stopped"]


@pytest.mark.parametrize(
    ("error", "after"), [(KeyboardInterrupt(), 0), (PeerTimeout("x"), 0), (RemoteProtocolError("torn"), 7)]
)
def test_a_run_without_any_measurement_or_with_a_wrong_answer_has_no_result(error: BaseException, after: int) -> None:
    with pytest.raises(type(error)):
        _stopped(error, after).run("lucky-transport bench")


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_first_round_says_how_long_the_others_take(rounds: int) -> None:
    case = case_of(1)
    found, told = measure_case(case, PLAN), list[str]()
    plan = replace(PLAN, rounds=rounds)
    replace(prepare(plan), cases=[case], measure=lambda _: found).run("lucky-transport bench", tell=told.append)
    assert told == ([] if rounds == 1 else ["about 0.0 min for the other 2 rounds"])


@pytest.mark.parametrize("rounds", [5, 8])
def test_a_disturbed_round_is_measured_once_more_where_there_can_be_a_verdict(rounds: int) -> None:
    case = case_of(1)
    cases = [case, replace(case, twin=True)]
    found, calls = measure_case(case, PLAN), itertools.count()
    slow = {cell: replace(one, samples_ns=one.samples_ns * 10) for cell, one in found.items()}

    def measure(_: Any) -> Any:
        return slow if next(calls) == 4 else found  # of the third round

    suite = replace(prepare(PLAN), plan=replace(PLAN, rounds=rounds), cases=cases, measure=measure)
    result = suite.run("lucky-transport bench")
    again = [note for note in result["notes"] if "measured again" in note]
    assert next(calls) == 2 * rounds + 2 * len(again)
    assert again == (["round 3 was measured again: its A/A pair differed 10.0 times"] if rounds >= 6 else [])
    assert {row["rounds"] for row in result["rows"]} == {rounds}
    assert all(len(set(row["p50s"])) == (1 if again else 2) for row in result["rows"] if not row["again"])


def test_exchanges_that_the_loop_did_not_make_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_transport.env.vector_env import VectorEnv

    step = VectorEnv.step

    def twice(self: VectorEnv, actions: Any) -> Any:
        step(self, actions)
        return step(self, actions)

    monkeypatch.setattr(VectorEnv, "step", twice)
    with pytest.raises(RemoteProtocolError, match="frames for"):
        measure_case(case_of(2), PLAN)


def test_a_pair_starts_when_what_is_left_of_the_pair_before_has_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a channel may run on for a moment after its close; here they use a whole CPU for three looks."""
    seen: list[str] = []

    class Clock:
        used_ns = 0

        def process_time_ns(self) -> int:
            return self.used_ns

        def sleep(self, seconds: float) -> None:
            self.used_ns += int(seconds * 1e9) if len(seen) < 3 else 0
            seen.append("look")

        def __getattr__(self, name: str) -> Any:
            return getattr(time, name)

    monkeypatch.setattr(run, "time", Clock())
    case = case_of(1)
    suite = replace(prepare(PLAN), cases=[case, case])

    def measure(case: Any) -> Any:
        seen.append("pair")
        return measure_case(case, PLAN)

    replace(suite, measure=measure).run("lucky-transport bench")
    assert seen == [*("look",) * 4, "pair", "look", "pair"]
