"""HDR histograms of latencies."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.stats import percentile


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


def test_a_curve_of_nothing_is_empty() -> None:
    assert Histogram.of([]).curve() == []


def test_the_encoded_form_is_read_by_the_histogram_library() -> None:
    encoded = Histogram.of([np.array([1500, 1500, 9000])]).encoded()
    decoded = HdrHistogram.decode(encoded)
    assert decoded.get_total_count() == 3
