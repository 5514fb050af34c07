"""The suite of steps and the loops that time them: what is planned, measured and looked at; what is wrong ends it."""

import asyncio
import getpass
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import PeerTimeout, RemoteProtocolError
from lucky_transport_migration.bench import limits, measuring, run
from lucky_transport_migration.bench.environment import capture
from lucky_transport_migration.bench.measuring import (
    CpuTimer,
    Effort,
    Look,
    Measurement,
    awaited_loop,
    busiest_core,
    engine_cpu_ns,
    measure_loop,
)
from lucky_transport_migration.bench.rows import Histogram
from lucky_transport_migration.bench.suites.steps import (
    _check_whole,  # pyright: ignore[reportPrivateUsage]
    cases_of,
    measure_case,
    plan_of,
    prepare,
)
from lucky_transport_migration.stats import percentile


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


ACTIONS = np.zeros((1, 2), np.float32)
NUMBER = Look("its number", lambda n: n)


def test_a_closed_loop_makes_every_step_it_counts() -> None:
    calls: list[Any] = []
    found = measure_loop(calls.append, ACTIONS, EFFORT, None)
    assert found.samples_ns.size + found.warmup_ns.size == len(calls)
    assert EFFORT.least <= found.samples_ns.size <= EFFORT.most
    assert all(one is ACTIONS for one in calls)
    assert (found.samples_ns >= 0).all()


@pytest.mark.parametrize("numbers", [[1, 2, 3, 5], [1, 2, 2], [4, 3]])
def test_a_lost_or_doubled_frame_ends_the_measurement(numbers: list[int]) -> None:
    source = itertools.chain(numbers, itertools.count(100))
    with pytest.raises(RemoteProtocolError, match="an exchange was lost or doubled"):
        measure_loop(lambda _: next(source), ACTIONS, Effort(budget_s=0.05, least=20, most=50), None, NUMBER)


@pytest.mark.parametrize("rate_hz", [None, 2000.0])
def test_a_frame_lost_between_warm_up_and_measurement_ends_the_measurement(rate_hz: float | None) -> None:
    source = itertools.chain(range(1, 6), itertools.count(7))
    effort = Effort(budget_s=0.0, least=20, most=50, open_loop_s=0.01)
    with pytest.raises(RemoteProtocolError, match="frame 7 came where frame 6 was due"):
        measure_loop(lambda _: next(source), ACTIONS, effort, None, NUMBER, rate_hz)


def test_an_awaited_loop_counts_and_checks_as_a_closed_one() -> None:
    source = itertools.count(1)

    async def step() -> int:
        return next(source)

    found = asyncio.run(awaited_loop(step, EFFORT, None, NUMBER))
    assert EFFORT.least <= found.samples_ns.size <= EFFORT.most
    assert found.samples_ns.size + found.warmup_ns.size == next(source) - 1


def test_an_open_loop_makes_as_many_steps_as_it_was_asked_for() -> None:
    calls: list[Any] = []
    found = measure_loop(calls.append, ACTIONS, Effort(open_loop_s=0.01), None, rate_hz=2000.0)
    assert found.samples_ns.size == 20
    assert len(calls) == 20 + found.warmup_ns.size
    assert found.rate_achieved is not None


class ManualTime:
    """A `time` whose clock goes on by a microsecond a reading, and by as much as it is told to sleep."""

    def __init__(self) -> None:
        self.now_ns = 0

    def perf_counter_ns(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def test_an_open_loop_charges_a_slow_step_to_those_that_had_to_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 5 holds the loop up for many periods; in a closed loop only one sample would show it."""
    calls, clock = itertools.count(), ManualTime()
    monkeypatch.setattr(measuring, "time", clock)

    def step(_: Any) -> None:
        if next(calls) == 10:
            clock.sleep(0.1)

    found = measure_loop(step, ACTIONS, Effort(open_loop_s=0.03), None, rate_hz=1000.0)
    slow = int(np.argmax(found.samples_ns))
    behind = found.samples_ns[slow : slow + 10]
    assert (behind[1:] < behind[:-1]).all()  # each one a period less late than the one before
    assert found.rate_achieved is False


def test_an_open_loop_does_not_charge_a_step_for_a_sleep_that_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualTime()
    monkeypatch.setattr(measuring, "time", clock)
    monkeypatch.setattr(clock, "sleep", lambda seconds: ManualTime.sleep(clock, seconds + 0.0002))
    found = measure_loop(lambda _: None, ACTIONS, Effort(open_loop_s=0.01), None, rate_hz=1000.0)
    assert (found.samples_ns < 200_000).all()
    assert found.rate_achieved


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=200), st.sampled_from([50.0, 99.0, 99.9]))
def test_a_percentile_is_right_to_three_digits(values: list[int], share: float) -> None:
    samples = np.array(values, np.int64)
    exact = percentile(samples, share) / 1e3
    assert abs(Histogram([samples]).us(share) - exact) <= exact * 1e-3 + 1e-3


def test_rounds_are_merged() -> None:
    found = Histogram([np.array([1000, 2000]), np.array([3000])])
    assert found.n == 3
    assert found.us(100.0) == pytest.approx(3.0, rel=1e-3)


def test_the_deepest_percentile_is_named_only_with_enough_samples() -> None:
    few, many = Histogram([np.full(99_999, 1000)]), Histogram([np.full(100_000, 1000)])
    assert "p9999" not in few.percentiles()
    assert many.percentiles() == {"p50": 1.0, "p99": 1.0, "p999": 1.0, "p9999": 1.0, "max": 1.0}


def test_a_curve_ends_where_the_sample_does() -> None:
    assert Histogram([np.arange(1, 100)]).curve()[-1][0] == 50.0
    assert Histogram([np.arange(1, 1001)]).curve()[-1][0] == 99.0
    assert Histogram([]).curve() == []


def test_the_encoded_form_is_read_by_the_histogram_library() -> None:
    encoded = Histogram([np.array([1500, 1500, 9000])]).encoded()
    decoded = HdrHistogram.decode(encoded)
    assert decoded.get_total_count() == 3


def test_the_clock_of_our_own_pid_is_our_own_cpu_time() -> None:
    before = time.process_time_ns()
    found = engine_cpu_ns(os.getpid())
    after = time.process_time_ns()
    assert found is not None
    assert before <= found <= after
    assert engine_cpu_ns(None) is None
    assert CpuTimer(os.getpid()).stop()[2] is True
    assert CpuTimer(None).stop()[1:] == (None, None)


def test_another_process_has_used_cpu_time_and_no_clock_once_it_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        used = engine_cpu_ns(process.pid)
        assert busiest_core(process.pid) in os.sched_getaffinity(0)
        process.communicate(b"\n")
    assert used is not None
    assert engine_cpu_ns(process.pid) is None
    assert busiest_core(process.pid) is None


def test_machine_kernel_and_versions_are_captured() -> None:
    found = capture()
    assert found["cores"] == os.cpu_count()
    assert found["kernel"] == os.uname().release
    assert found["python"].startswith("CPython 3.")
    assert {"lucky-transport", "numpy", "gymnasium"} <= set(found["versions"])


def test_nothing_personal_is_captured() -> None:
    text = json.dumps(capture(), allow_nan=False)
    assert str(Path.cwd()) not in text
    assert f'"{socket.gethostname()}"' not in text
    assert f'"{getpass.getuser()}"' not in text
