"""The gate where noise lasts: a candidate at its limit passes as seldom as promised, a far faster one moves on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import judge_method
from tests.migration.gate.power import (
    CALLS,
    CORRELATIONS,
    LOOKS,
    Growing,
    drawn,
    mismatches,
    moments,
    pairs,
    passed,
    tails,
)

_RUNS = 100
_THREE_ERRORS = 3 * (0.05 * 0.95 / _RUNS) ** 0.5
_AT_LIMIT: dict[str, tuple[Callable[[np.random.Generator, float], Growing], Limits]] = {
    "p50": (lambda random, lasts: pairs(random, lasts, 1.1), Limits(mismatch_limit=0.5)),
    "p99": (lambda random, lasts: tails(random, lasts, 1.5), Limits(mismatch_limit=0.5)),
    "mismatches": (lambda random, lasts: mismatches(random, lasts, 0.003), Limits()),
}


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("what", _AT_LIMIT)
def test_a_candidate_at_its_limit_passes_no_more_often_than_the_error_allows(
    what: str, correlation: float, looks: int
) -> None:
    kind, limits = _AT_LIMIT[what]
    random = np.random.default_rng(11)
    found = sum(passed(kind(random, correlation), moments(random, looks), limits) for _ in range(_RUNS))
    assert found / _RUNS <= 0.05 + _THREE_ERRORS


@pytest.mark.parametrize("correlation", CORRELATIONS[:3])
def test_a_candidate_that_takes_a_third_of_the_time_moves_on_at_the_first_look(correlation: float) -> None:
    random = np.random.default_rng(12)
    runs = [judge_method(drawn(random, CALLS[1], 0.3, correlation), Limits()).promote for _ in range(_RUNS)]
    assert sum(runs) >= 0.95 * _RUNS


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("kind", [pairs, tails])
def test_an_equal_candidate_passes_where_noise_does_not_last(kind: Callable[..., Growing], looks: int) -> None:
    random = np.random.default_rng(13)
    refused = sum(not passed(kind(random, 0.0, 1.0), moments(random, looks), Limits()) for _ in range(40))
    assert refused <= 0.05 * 40
