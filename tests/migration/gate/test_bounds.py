"""Bounds of rates and percentiles, against sums that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.gate.bounds import needed_trials, rank_above, rank_below, upper_bound


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


def test_the_median_of_what_is_drawn_lies_between_its_ranks_as_often_as_promised() -> None:
    drawn = np.sort(np.random.default_rng(1).random((2_000, 101)), axis=1)
    low, high = rank_below(101, 0.5, 0.025), rank_above(101, 0.5, 0.025)
    inside = (drawn[:, low - 1] <= 0.5) & (drawn[:, high - 1] >= 0.5)
    assert 0.94 < inside.mean() < 0.99


def test_a_few_samples_say_nothing_of_a_tail() -> None:
    assert rank_above(20, 0.99, 5e-5) == 21
    assert rank_above(3, 0.5, 5e-5) == 4
    assert rank_below(3, 0.5, 5e-5) == 0
