"""Bounds of rates against sums that are written out, and of calls whose noise lasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.bounds import LEAST_BLOCKS, MOST_BLOCKS, Blocks, cut, needed_trials, upper_bound
from tests.migration.gate.power import durations, noise


@pytest.mark.parametrize("n", [100, 1_000, 100_000])
def test_no_mismatch_in_n_calls_bounds_the_rate_by_three_over_n(n: int) -> None:
    bound = upper_bound(0, n, 0.95)
    assert 2.9 / n < bound <= 3 / n
    assert bound == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-6)


def test_the_bound_is_the_published_one_of_clopper_and_pearson() -> None:
    # One-sided 95 % bounds are the upper ends of two-sided 90 % intervals, which tables give: 3 of 20 and 10 of 100.
    assert upper_bound(3, 20, 0.95) == pytest.approx(0.34366, abs=5e-5)
    assert upper_bound(10, 100, 0.95) == pytest.approx(0.16372, abs=5e-5)


def test_without_a_call_and_with_nothing_but_mismatches_every_rate_is_open() -> None:
    assert upper_bound(0, 0, 0.95) == upper_bound(7, 7, 0.95) == 1.0


@given(hits=st.integers(0, 40), limit=st.floats(0.001, 0.2))
def test_the_calls_needed_are_the_first_that_are_enough(hits: int, limit: float) -> None:
    n = needed_trials(hits, limit, 0.95)
    assert upper_bound(hits, n, 0.95) <= limit
    assert n == hits + 1 or upper_bound(hits, n - 1, 0.95) > limit


def test_blocks_of_independent_calls_are_worth_about_all_of_them() -> None:
    blocks = Blocks.of(np.random.default_rng(1).random(4_000) < 0.5)
    assert blocks.count == MOST_BLOCKS
    assert blocks.worth(4_000) > 2_000


def test_the_longer_noise_lasts_the_fewer_independent_calls_they_are_worth() -> None:
    worths = [_lasting(correlation).worth(20_000) for correlation in (0.0, 0.5, 0.9, 0.99)]
    assert worths == sorted(worths, reverse=True)
    assert 1_000 < worths[2] < 4_000, "20,000 calls, each about 9 times as much like the next as independent ones"
    assert worths[3] < 500


def test_blocks_are_longer_where_noise_lasts_longer() -> None:
    assert _lasting(0.99, 5_000).count == LEAST_BLOCKS < _lasting(0.0, 5_000).count


def test_where_no_block_is_long_enough_bounds_are_wider() -> None:
    assert _lasting(0.0, 5_000).widening == 1.0
    assert _lasting(0.99, 1_000).widening > 1.0


def test_calls_of_processes_that_differ_are_worth_about_as_many_as_there_are_processes() -> None:
    random = np.random.default_rng(3)
    values = random.standard_normal(10_000) + 2 * np.repeat(random.standard_normal(20), 500)
    assert Blocks.of(values > np.median(values)).worth(10_000) < 60


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_mean_is_above_its_bound_as_seldom_as_promised(correlation: float) -> None:
    random = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        values = noise(random, 2_000, correlation)
        blocks = Blocks.of(values > np.median(values))
        wrong += values.mean() + blocks.half_width(cut(values, blocks.count).mean(axis=1), 0.05) < 0
    assert wrong <= 0.08 * 200


def test_mismatches_that_come_in_bursts_are_worth_fewer_trials_than_those_that_are_spread() -> None:
    burst, spread = np.zeros((2, 5_000), np.bool_)
    burst[1_000:1_010] = True
    spread[100::500] = True
    assert Blocks.of(burst).loss(0.05) > 5 * Blocks.of(spread).loss(0.05)


@pytest.mark.parametrize("calls", [1, 3, 4, 17])
def test_a_few_calls_have_few_blocks_and_a_wide_bound(calls: int) -> None:
    blocks = Blocks.of(np.arange(calls) == 0)
    assert blocks.count == LEAST_BLOCKS
    assert blocks.worth(calls) <= calls


def _lasting(correlation: float, calls: int = 20_000) -> Blocks:
    values = durations(np.random.default_rng(2), calls, correlation, 400.0)
    return Blocks.of(values > np.median(values))
