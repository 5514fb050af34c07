"""Rates and step times from glances at two counters."""

from __future__ import annotations

import pytest

from lucky_transport_migration.top.step_samples import StepSamples

MS = 1_000_000


def samples(*glances: tuple[int, int, int], window_s: float = 10.0) -> StepSamples:
    """Samples of (milliseconds, frame counter, action counter)."""
    made = StepSamples(window_s)
    for at, frames, actions in glances:
        made.add(at * MS, frames, actions)
    return made


def test_without_two_glances_nothing_is_known() -> None:
    for made in (samples(), samples((0, 5, 5))):
        reading = made.read()
        assert (reading.rate, reading.p50_s, reading.p99_s, reading.engine_share) == (0.0, None, None, None)


def test_fast_steps_are_averaged_between_two_glances() -> None:
    reading = samples(*[(10 * n, 100 * n, 100 * n) for n in range(11)]).read()
    assert reading.rate == pytest.approx(10_000)
    assert reading.p50_s == reading.p99_s == pytest.approx(100e-6)


def test_slow_steps_are_timed_from_one_move_of_the_counter_to_the_next() -> None:
    reading = samples(*[(10 * n, n // 5, n // 5) for n in range(51)]).read()
    assert reading.rate == pytest.approx(20)
    assert reading.p50_s == reading.p99_s == pytest.approx(50e-3)


def test_a_percentile_is_of_steps_not_of_glances() -> None:
    """98 steps in the first 10 ms after a move, two that take 50 ms each: the median is a fast one, p99 a slow one."""
    reading = samples((0, 0, 0), (10, 1, 1), (20, 99, 99), (120, 101, 101)).read()
    assert reading.p50_s == pytest.approx(10e-3 / 98)
    assert reading.p99_s == pytest.approx(50e-3)


def test_the_engines_share_counts_the_glances_at_which_it_had_actions_and_no_frame() -> None:
    assert samples((0, 1, 2), (10, 2, 2), (20, 2, 3), (30, 3, 3)).read().engine_share == 0.5


def test_old_glances_are_forgotten() -> None:
    reading = samples(*[(100 * n, n, n) for n in range(100)], window_s=1.0).read()
    assert reading.seen_s == pytest.approx(1.0)


def test_a_counter_of_any_size_is_read() -> None:
    most = (1 << 64) - 2
    assert samples((0, most, 0), (10, most + 1, 0)).read().rate == pytest.approx(100)


@pytest.mark.parametrize("frames", [3, 1 << 60], ids=["backwards", "a leap"])
def test_a_counter_that_goes_where_no_step_leads_begins_anew(frames: int) -> None:
    reading = samples((0, 10, 10), (10, 20, 20), (20, frames, frames), (30, frames + 1, frames + 1)).read()
    assert reading.rate == pytest.approx(100)
