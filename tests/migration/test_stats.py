"""Percentiles, intervals and the sentences of a verdict; bounds of rates against sums that are written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration import stats
from lucky_transport_migration.bounds import LEAST_BLOCKS, MOST_BLOCKS, Blocks, cut, needed_trials, upper_bound
from lucky_transport_migration.stats import Interval, Word
from lucky_transport_migration.units import duration_text, times_text
from tests.migration.gate.power import durations, noise

positive = st.floats(1e-3, 1e6)


@given(st.lists(st.integers(0, 10**12), min_size=1), st.floats(0.1, 100.0))
def test_a_percentile_is_the_smallest_sample_that_covers_its_share(values: list[int], share: float) -> None:
    samples = np.array(values, np.int64)
    found = stats.percentile(samples, share)
    assert found in values
    assert np.count_nonzero(samples <= found) >= len(values) * share / 100 - 1e-6
    smaller = samples[samples < found]
    assert smaller.size < len(values) * share / 100 + 1e-6


@pytest.mark.parametrize(
    ("n", "highest"), [(1, "p50"), (499, "p50"), (500, "p99"), (5_000, "p999"), (99_999, "p999"), (100_000, "p9999")]
)
def test_a_percentile_is_supported_only_by_enough_samples(n: int, highest: str) -> None:
    assert stats.supported(n)[-1] == highest


@given(st.lists(positive, min_size=1, max_size=8))
def test_an_interval_holds_its_median_and_stays_within_the_values(values: list[float]) -> None:
    found = stats.median_interval(values)
    assert min(values) <= found.low <= found.mid <= found.high <= max(values)


@pytest.mark.parametrize(("rounds", "place", "coverage"), [(5, 1, 0.9375), (6, 1, 0.96875), (9, 2, 0.9609375)])
def test_an_interval_is_a_pair_of_order_statistics_with_its_own_coverage(
    rounds: int, place: int, coverage: float
) -> None:
    found = stats.median_interval([float(one) for one in range(rounds)])
    assert (found.low, found.high) == (place - 1, rounds - place)
    assert found.coverage == pytest.approx(coverage)
    assert found.is_known is (rounds >= 6)


@pytest.mark.parametrize("rounds", [4, 6, 9, 20])
def test_the_coverage_that_is_told_is_the_true_one(rounds: int) -> None:
    random = np.random.default_rng(rounds)
    found = [stats.median_interval(random.lognormal(0.0, 1.0, rounds).tolist()) for _ in range(4000)]
    held = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert held == pytest.approx(found[0].coverage, abs=0.015)


@given(st.floats(1e-9, 1e9))
def test_a_ratio_that_is_kept_is_never_zero(value: float) -> None:
    kept = Interval(value, value * 0.5, value * 2, 6).row()
    assert 0 < kept["low"] < kept["ratio"] < kept["high"]


def test_a_ratio_is_taken_round_by_round() -> None:
    found = stats.ratio([10.0, 20.0, 40.0], [1.0, 2.0, 4.0])
    assert (found.mid, found.low, found.high) == (10.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: stats.percentile(np.empty(0, np.int64), 50.0), "at least one"),
        (lambda: stats.median_interval([]), "at least one"),
        (lambda: stats.ratio([1.0, 2.0], [1.0]), "2 rounds over 1"),
        (lambda: stats.ratio([1.0], [0.0]), "above zero"),
    ],
)
def test_what_has_no_figure_is_refused(refused: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        refused()


def test_an_interval_above_one_says_faster() -> None:
    verdict = stats.compare("shm", "gRPC", Interval(412.0, 390.0, 1234.0, 6, 0.97))
    assert verdict.word is Word.FASTER
    assert verdict.sentence == "shm is 412 times faster than gRPC (390 to 1,230)."


def test_an_interval_below_one_says_slower_and_turns_the_numbers() -> None:
    verdict = stats.compare("shm", "limit", Interval(0.5, 0.4, 0.8, 6, 0.97))
    assert verdict.word is Word.SLOWER
    assert verdict.sentence == "shm is 2.00 times slower than limit (1.25 to 2.50)."


@given(positive, positive, positive)
def test_an_interval_that_reaches_into_the_noise_is_no_difference(a: float, b: float, c: float) -> None:
    low, mid, high = sorted((a, b, c))
    floor = max(low, 1 / high) + 1e-9
    verdict = stats.compare("a", "b", Interval(mid, low, high, 6, 0.97), max(floor, 1.0))
    assert verdict.word is Word.SAME
    assert "beyond the noise" in verdict.sentence


def test_the_noise_floor_is_the_farther_end_of_the_interval_of_measuring_twice() -> None:
    assert stats.floor_of(Interval(1.02, 0.8, 1.1, 6, 0.97)) == pytest.approx(1.25)
    assert stats.floor_of(Interval(1.02, 0.95, 1.3, 6, 0.97)) == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("us", "text"), [(0.618, "0.62 µs"), (41.23, "41.2 µs"), (999.4, "999 µs"), (5140.0, "5.14 ms"), (2.5e6, "2.50 s")]
)
def test_a_duration_takes_the_unit_that_fits(us: float, text: str) -> None:
    assert duration_text(us) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0004, "0.0004"),
        (0.953, "0.953"),
        (1.0, "1.00"),
        (41.24, "41.2"),
        (412.4, "412"),
        (1236.0, "1,240"),
        (-106.9, "-107"),
    ],
)
def test_a_ratio_has_three_digits(value: float, text: str) -> None:
    assert times_text(value) == text


@pytest.mark.parametrize(
    ("won", "lost", "word"), [(3, 0, "FASTER"), (2, 1, "MOSTLY FASTER"), (1, 2, "MIXED"), (0, 3, "NOT FASTER")]
)
def test_all_comparisons_together_have_one_word(won: int, lost: int, word: str) -> None:
    found = stats.overall("shm", "gRPC", [Word.FASTER] * won + [Word.SAME] * lost)
    assert found.word.value == word
    assert "gRPC" in found.sentence


def test_without_comparisons_there_is_no_verdict() -> None:
    assert stats.overall("shm", "gRPC", []).word is stats.Overall.UNKNOWN


@pytest.mark.parametrize(("rounds", "few"), [(1, "one round"), (5, "5 rounds")])
def test_fewer_than_six_rounds_give_no_verdict(rounds: int, few: str) -> None:
    found = stats.compare("a", "b", Interval(400.0, 390.0, 410.0, rounds, 1.0))
    said = f"No verdict on a against b: b took 400 times as long ({few}, so no interval)."
    assert (found.word, found.sentence) == (Word.UNKNOWN, said)
    together = stats.overall("a", "b", [Word.UNKNOWN, Word.FASTER])
    assert together.word is stats.Overall.UNKNOWN
    assert together.sentence == "a against b: no verdict, that takes 6 rounds."


def test_what_was_looked_at_is_said_for_each_kind_of_row() -> None:
    rows = [{"title": "one", "path": "shm", "looked_at": "its number"}]
    rows += [
        {"title": "one", "path": "grpc", "looked_at": "its number"},
        {"title": "two", "path": "shm", "looked_at": ""},
        {"title": "two", "path": "grpc", "looked_at": ""},
    ]
    assert stats.looked_at(rows) == [
        "Looked at in each exchange or item of 2 rows: its number.",
        "Nothing was looked at while timing 2 rows: two (shared memory, legacy gRPC).",
    ]


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


def test_where_no_block_is_long_enough_bounds_are_wider() -> None:
    assert _lasting(0.0, 5_000).widening == 1.0
    assert _lasting(0.99, 1_000).widening > 1.0


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_mean_is_above_its_bound_as_seldom_as_promised(correlation: float) -> None:
    random = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        values = noise(random, 2_000, correlation)
        blocks = Blocks.of(values > np.median(values))
        wrong += values.mean() + blocks.half_width(cut(values, blocks.count).mean(axis=1), 0.05) < 0
    assert wrong <= 0.08 * 200


@pytest.mark.parametrize("calls", [1, 3, 4, 17])
def test_a_few_calls_have_few_blocks_and_a_wide_bound(calls: int) -> None:
    blocks = Blocks.of(np.arange(calls) == 0)
    assert blocks.count == LEAST_BLOCKS
    assert blocks.worth(calls) <= calls


def _lasting(correlation: float, calls: int = 20_000) -> Blocks:
    values = durations(np.random.default_rng(2), calls, correlation, 400.0)
    return Blocks.of(values > np.median(values))
