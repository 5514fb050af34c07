"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.migration import (
    bench_result,
    bench_text,
    engines_are_forks,
    few_items,
    made_up_result,
    twin,
    without_charts,
)
