"""The loops that time steps, histograms, CPU time, and what a report says of the machine; never how long it takes."""

import asyncio
import getpass
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench import measuring
from lucky_transport_migration.bench.environment import capture
from lucky_transport_migration.bench.measuring import (
    Effort,
    Look,
    awaited_loop,
    busiest_core,
    client_cpu_ns,
    closed_loop,
    engine_cpu_ns,
    measure_loop,
    open_loop,
)
from lucky_transport_migration.bench.rows import Histogram
from lucky_transport_migration.stats import percentile

ACTIONS = np.zeros((1, 2), np.float32)
NUMBER = Look("its number", lambda n: n)
EFFORT = Effort(budget_s=0.002, least=3, most=50)


def test_a_closed_loop_makes_every_step_it_counts() -> None:
    calls: list[Any] = []
    found = closed_loop(calls.append, ACTIONS, EFFORT, None)
    assert found.samples_ns.size + found.warmup_ns.size == len(calls)
    assert EFFORT.least <= found.samples_ns.size <= EFFORT.most
    assert all(one is ACTIONS for one in calls)
    assert (found.samples_ns >= 0).all()


@pytest.mark.parametrize("numbers", [[1, 2, 3, 5], [1, 2, 2], [4, 3]])
def test_a_lost_or_doubled_frame_ends_the_measurement(numbers: list[int]) -> None:
    source = itertools.chain(numbers, itertools.count(100))
    with pytest.raises(RemoteProtocolError, match="an exchange was lost or doubled"):
        closed_loop(lambda _: next(source), ACTIONS, Effort(budget_s=0.05, least=20, most=50), None, NUMBER)


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
    found = open_loop(calls.append, ACTIONS, 2000.0, 20, None)
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

    found = open_loop(step, ACTIONS, 1000.0, 30, None)
    slow = int(np.argmax(found.samples_ns))
    behind = found.samples_ns[slow : slow + 10]
    assert (behind[1:] < behind[:-1]).all()  # each one a period less late than the one before
    assert found.rate_achieved is False


def test_an_open_loop_does_not_charge_a_step_for_a_sleep_that_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualTime()
    monkeypatch.setattr(measuring, "time", clock)
    monkeypatch.setattr(clock, "sleep", lambda seconds: ManualTime.sleep(clock, seconds + 0.0002))
    found = open_loop(lambda _: None, ACTIONS, 1000.0, 10, None)
    assert (found.samples_ns < 200_000).all()
    assert found.rate_achieved


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=200), st.sampled_from([50.0, 99.0, 99.9]))
def test_a_percentile_is_right_to_three_digits(values: list[int], share: float) -> None:
    samples = np.array(values, np.int64)
    exact = percentile(samples, share) / 1e3
    assert abs(Histogram.of([samples]).us(share) - exact) <= exact * 1e-3 + 1e-3


def test_rounds_are_merged() -> None:
    found = Histogram.of([np.array([1000, 2000]), np.array([3000])])
    assert found.n == 3
    assert found.us(100.0) == pytest.approx(3.0, rel=1e-3)


def test_the_deepest_percentile_is_named_only_with_enough_samples() -> None:
    few, many = Histogram.of([np.full(99_999, 1000)]), Histogram.of([np.full(100_000, 1000)])
    assert "p9999" not in few.percentiles()
    assert many.percentiles() == {"p50": 1.0, "p99": 1.0, "p999": 1.0, "p9999": 1.0, "max": 1.0}


def test_a_curve_ends_where_the_sample_does() -> None:
    assert Histogram.of([np.arange(1, 100)]).curve()[-1][0] == 50.0
    assert Histogram.of([np.arange(1, 1001)]).curve()[-1][0] == 99.0
    assert Histogram.of([]).curve() == []


def test_the_encoded_form_is_read_by_the_histogram_library() -> None:
    encoded = Histogram.of([np.array([1500, 1500, 9000])]).encoded()
    decoded = HdrHistogram.decode(encoded)
    assert decoded.get_total_count() == 3


def test_the_clock_of_our_own_pid_is_our_own_cpu_time() -> None:
    before = client_cpu_ns()
    found = engine_cpu_ns(os.getpid())
    after = client_cpu_ns()
    assert found is not None
    assert before <= found <= after
    assert engine_cpu_ns(None) is None


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
