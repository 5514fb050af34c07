"""What the gate makes of a candidate that is as fast as the control, and of one that is a quarter slower.

Each run draws the durations of every method anew; the seeds are fixed. The durations spread as those of real calls do
(lognormal, sigma 0.4), and a method has as many calls as the bound of that many methods needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lucky_transport_migration.evidence.record import EQUAL
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.method import MethodVerdict, judge_method

_SIGMA = 0.4
_RUNS = {1: 200, 40: 50}
_SLOWER = 1.25
#: The number of mismatches decides nothing here.
_LIMITS = Limits(mismatch_limit=0.5)


def tally(random: np.random.Generator, calls: int, times: float) -> EvidenceSummary:
    """Return what so many equal calls come to whose candidate takes `times` as long, but for chance."""
    found = EvidenceSummary()
    found.verdicts[EQUAL] = calls
    for is_control, us in ((True, 400.0), (False, 400.0 * times)):
        samples = random.lognormal(np.log(us), _SIGMA, calls)
        kept = found._durations[is_control, is_control]  # pyright: ignore[reportPrivateUsage] - `add` takes too long
        kept.frombytes(samples.tobytes())
    return found


def verdicts(methods: int, calls: int, times: float) -> Iterator[list[MethodVerdict]]:
    random = np.random.default_rng(methods)
    for _ in range(_RUNS[methods]):
        yield [judge_method(tally(random, calls, times), _LIMITS, among=methods) for _ in range(methods)]


@pytest.mark.parametrize(("methods", "calls"), [(1, 2_000), (40, 4_000)])
def test_an_equal_candidate_moves_on(methods: int, calls: int) -> None:
    promoted = sum(all(one.promote for one in run) for run in verdicts(methods, calls, 1.0))
    assert promoted >= 0.95 * _RUNS[methods]


@pytest.mark.parametrize("calls", [1_000, 4_000])
@pytest.mark.parametrize("methods", [1, 40])
def test_a_candidate_that_is_a_quarter_slower_is_held_back(methods: int, calls: int) -> None:
    assert not any(one.promote for run in verdicts(methods, calls, _SLOWER) for one in run)


@pytest.mark.parametrize("methods", [1, 40])
def test_a_candidate_at_the_limit_moves_on_no_more_often_than_the_error_allows(methods: int) -> None:
    """The error is joint: of all runs at most 5 % promote any method that is just at the limit."""
    wrong = sum(any(one.promote for one in run) for run in verdicts(methods, 2_500, _LIMITS.slower_limit))
    assert wrong <= 0.05 * _RUNS[methods]


def test_the_bound_is_wider_the_more_methods_are_judged() -> None:
    one = tally(np.random.default_rng(7), 1_000, 1.0)
    bounds = [judge_method(one, Limits(), among=methods).latency[0].at_most for methods in (1, 10, 40, 88)]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == len(bounds)


@pytest.mark.parametrize("calls", [0, 1, 5])
def test_too_few_durations_hold_back_and_say_how_many_are_missing(calls: int) -> None:
    random = np.random.default_rng(calls)
    found = tally(random, calls, 0.1)
    found.verdicts[EQUAL] = 1_000
    verdict = judge_method(found, Limits())
    (reason,) = verdict.reasons
    assert "its p50 is not known" in reason
    assert not verdict.latency
