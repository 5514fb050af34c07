"""An A/A run passes the gate, with the noise that machines have; a real difference does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from lucky_transport_migration.evidence.record import EQUAL, Evidence, SideResult
from lucky_transport_migration.gate.gate_verdict import judge, twins_as_candidates
from lucky_transport_migration.gate.limits import Limits

METHODS = [f"/hazel.rpc.SceneService/Method{index}" for index in range(2)]
CALLS = 5_000
#: How often it errs is counted by test_power.py.
RUNS = 8
LIMITS = Limits()


def noisy_durations(seed: int, n: int) -> np.ndarray:
    """Return pairs of durations: a skewed body, phases in which the whole machine is slow, rare long pauses."""
    random = np.random.default_rng(seed)
    phase = np.repeat(random.lognormal(0.0, 0.3, n // 50 + 1), 50)[:n, None]
    body = 300 * phase * random.lognormal(0.0, 0.5, (n, 2))
    return body + random.choice([0.0, 5_000.0], (n, 2), p=[0.995, 0.005])


def run(seed: int, kind: str, transports: tuple[str, str], factor: float = 1.0) -> Iterator[Evidence]:
    for index, method in enumerate(METHODS):
        for first, second in noisy_durations(seed * 100 + index, 2 * CALLS).tolist():
            sides = (SideResult(transports[0], us=first), SideResult(transports[1], us=second * factor))
            yield Evidence(method, "shadow", *sides, kind=kind, verdict=EQUAL)


def test_an_aa_run_passes() -> None:
    verdicts = [judge(twins_as_candidates(run(seed, "aa", ("grpc", "grpc"))), LIMITS) for seed in range(RUNS)]
    assert [one.reasons for one in verdicts if not one.promote] == []


def test_an_equal_candidate_cannot_be_shown_to_be_no_slower_where_no_slack_is_allowed() -> None:
    strict = replace(LIMITS, slower_limit=1.0)
    verdict = judge(run(100, "live", ("grpc", "shm")), strict)
    assert all("the limit is 1.00" in reason for reason in verdict.reasons)
    assert len(verdict.reasons) == len(METHODS)


def test_a_candidate_that_is_a_quarter_slower_is_held_back_every_time() -> None:
    assert not any(judge(run(seed, "live", ("grpc", "shm"), 1.25), LIMITS).promote for seed in range(RUNS))


@pytest.mark.parametrize("transports", [("grpc", "grpc"), ("shm", "shm")])
def test_an_aa_run_of_either_transport_can_be_judged(transports: tuple[str, str]) -> None:
    verdict = judge(twins_as_candidates(run(1, "aa", transports)), LIMITS)
    assert verdict.promote
    assert [row.summary.compared for row in verdict.methods.values()] == [CALLS] * len(METHODS)
    assert all(row.latency for row in verdict.methods.values())
