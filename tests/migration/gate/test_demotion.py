"""What one call means for the stage of its method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, FAILED, NOT_COMPARED, Evidence
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.routing.evidence_policy import demotion

Seen = Callable[..., Evidence]


@pytest.mark.parametrize(
    ("stage", "after_a_mismatch", "after_a_failure"),
    [
        ("shadow", "grpc", "grpc"),
        ("canary 1%", "shadow", "grpc"),
        ("canary 50%", "shadow", "grpc"),
        ("shm", "shadow", "grpc"),
    ],
)
def test_a_wrong_answer_leads_back_to_comparing_and_a_failure_to_grpc(
    seen: Seen, stage: str, after_a_mismatch: str, after_a_failure: str
) -> None:
    assert str(demotion(seen(stage=stage, verdict=DIFFERENT), Limits())) == after_a_mismatch
    assert str(demotion(seen(stage=stage, verdict=FAILED), Limits())) == after_a_failure
    changing = replace(seen(stage=stage, verdict=DIFFERENT), aspect="effect")  # at shadow it would be made twice
    assert str(demotion(changing, Limits())) == "grpc"


@pytest.mark.parametrize("stage", ["grpc", "complete"])
@pytest.mark.parametrize("verdict", [DIFFERENT, FAILED])
def test_at_both_ends_there_is_nowhere_to_go_back_to(seen: Seen, stage: str, verdict: str) -> None:
    assert demotion(seen(stage=stage, verdict=verdict), Limits()) is None


@pytest.mark.parametrize("verdict", [EQUAL, NOT_COMPARED])
def test_what_is_equal_or_was_not_compared_demotes_nothing(seen: Seen, verdict: str) -> None:
    assert demotion(seen(stage="canary 10%", verdict=verdict), Limits()) is None


@pytest.mark.parametrize("kind", ["aa", "replay", "parity"])
def test_only_live_calls_demote(seen: Seen, kind: str) -> None:
    assert demotion(seen(kind=kind, stage="shm", verdict=DIFFERENT), Limits()) is None


def test_a_team_can_switch_it_off(seen: Seen) -> None:
    assert demotion(seen(stage="shm", verdict=FAILED), Limits(demote=False)) is None
