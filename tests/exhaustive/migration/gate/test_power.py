"""What the gate makes of a candidate that is as fast as the control, and of slower ones, where noise lasts too.

At the stated number of calls the first passes in at least 95 % of runs, and the second is held back in at least 95 %.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from lucky_transport_migration.gate.latency import Pairs, Tails
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import judge_method
from tests.migration.gate.power import (
    AT_LIMIT,
    CALLS,
    CORRELATIONS,
    LOOKS,
    Growing,
    drawn,
    moments,
    pairs,
    passed,
    share,
    summary,
    tails,
    verdicts,
)

_RUNS = {1: 300, 10: 100, 72: 40}


@pytest.mark.parametrize("methods", _RUNS)
@pytest.mark.parametrize(("times", "least", "most"), [(1.0, 0.95, 1.0), (1.2, 0.0, 0.05)])
def test_an_equal_candidate_moves_on_and_one_that_is_a_fifth_slower_does_not(
    methods: int, times: float, least: float, most: float
) -> None:
    runs = verdicts(methods, times, _RUNS[methods], Limits())
    assert least <= sum(all(one.promote for one in run) for run in runs) / _RUNS[methods] <= most


@pytest.mark.parametrize("methods", _RUNS)
def test_a_candidate_at_the_limit_moves_on_no_more_often_than_the_error_allows(methods: int) -> None:
    """The error is joint: of all runs 5 % promote any method that is just at the limit, but for chance."""
    count = _RUNS[methods]
    limits = Limits(mismatch_limit=0.5)  # which decides nothing here
    runs = verdicts(methods, limits.slower_limit, count, limits)
    three_errors = 3 * (0.05 * 0.95 / count) ** 0.5
    assert sum(any(one.promote for one in run) for run in runs) / count <= 0.05 + three_errors


def test_the_bound_is_wider_the_more_methods_are_judged() -> None:
    one = drawn(np.random.default_rng(7), 1_000, 1.0)
    bounds = [judge_method(one, Limits(), among=methods).latency[0].at_most for methods in (1, 10, 40, 88)]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == len(bounds)


def test_what_slows_both_answers_alike_needs_no_more_calls() -> None:
    """Latencies that drift tenfold over a run are no slowness of the candidate."""
    random = np.random.default_rng(3)
    drift = np.geomspace(400.0, 4_000.0, 1_200)
    control, candidate = (drift * random.lognormal(0.0, 0.05, 1_200) for _ in range(2))
    verdict = judge_method(summary(control, candidate, 1_200), Limits())
    assert verdict.promote
    assert verdict.latency[0].at_most < 1.02


@pytest.mark.parametrize("samples", [100, 500, 3_000])
def test_the_sampling_error_of_an_aa_run_raises_no_limit(samples: int) -> None:
    """Both sides are alike; fewer samples show less noise, not more."""
    random = np.random.default_rng(13)
    shown = [Pairs(*(random.lognormal(0.0, 0.4, samples).tolist() for _ in range(2))).noise() for _ in range(200)]
    assert sum(one > 1.1 for one in shown) == 0
    assert sum(one > 1.0 for one in shown) <= 20


@pytest.mark.parametrize("swapped", [False, True])
def test_an_aa_run_with_noise_shows_it_from_below(swapped: bool) -> None:
    random = np.random.default_rng(14)
    both = [(times * random.lognormal(0.0, 0.4, 20_000)).tolist() for times in (1.0, 1.2)]
    assert 1.1 < Pairs(*(reversed(both) if swapped else both)).noise() < 1.2


def test_an_aa_run_raises_no_limit_of_the_tail() -> None:
    random = np.random.default_rng(15)
    found = drawn(random, 2_500, 0.5)
    slow = drawn(random, 2_500, 2.0).pairs
    found.tails = Tails(slow.control, slow.candidate)
    found.stages.add("canary")
    noisy = [(times * random.lognormal(0.0, 0.4, 20_000)).tolist() for times in (1.0, 3.0)]
    found.aa = Pairs(*noisy)
    [tail] = [one for one in judge_method(found, Limits()).latency if one.percentile == "p99"]
    assert (tail.limit, tail.noise, tail.holds_back) == (1.5, "", True)


_LASTING_RUNS = 100
_THREE_ERRORS = 3 * (0.05 * 0.95 / _LASTING_RUNS) ** 0.5
#: All of either beside one of the other: `tests.migration.gate.power` simulates each with each.
_NOISE_AND_LOOKS = {*product(CORRELATIONS, LOOKS[1:2]), *product(CORRELATIONS[2:3], LOOKS)}


@pytest.mark.parametrize(("correlation", "looks"), sorted(_NOISE_AND_LOOKS))
@pytest.mark.parametrize("what", ["p50 at slower_limit", "p99 at tail_limit", "mismatches at mismatch_limit"])
def test_a_candidate_at_its_limit_passes_no_more_often_than_the_error_allows(
    what: str, correlation: float, looks: int
) -> None:
    kind, given, limits = AT_LIMIT[what]
    assert share(kind, correlation, looks, _LASTING_RUNS, limits, **given) <= 0.05 + _THREE_ERRORS


@pytest.mark.parametrize("correlation", CORRELATIONS[:3])
def test_a_candidate_that_takes_a_third_of_the_time_moves_on_at_the_first_look(correlation: float) -> None:
    random = np.random.default_rng(12)
    runs = [judge_method(drawn(random, CALLS[1], 0.3, correlation), Limits()).promote for _ in range(_LASTING_RUNS)]
    assert sum(runs) >= 0.95 * _LASTING_RUNS


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("kind", [pairs, tails])
def test_an_equal_candidate_passes_where_noise_does_not_last(kind: Callable[..., Growing], looks: int) -> None:
    random = np.random.default_rng(13)
    refused = sum(not passed(kind(random, 0.0, 1.0), moments(random, looks), Limits()) for _ in range(40))
    assert refused <= 0.05 * 40
