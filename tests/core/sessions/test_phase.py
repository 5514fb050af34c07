"""The life of a session follows its table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.sessions.phase import DEAD, ENDED, TRANSITIONS, Phase, SessionEvent, following


def test_the_table_knows_every_phase() -> None:
    assert set(TRANSITIONS) == set(Phase)


@pytest.mark.parametrize("phase", list(Phase), ids=lambda phase: phase.value)
def test_a_session_can_be_destroyed_in_every_phase(phase: Phase) -> None:
    assert following(phase, SessionEvent.DESTROY) is Phase.GONE


@given(st.lists(st.sampled_from(SessionEvent)))
def test_nothing_leads_back_from_death_and_nothing_skips_the_building(events: list[SessionEvent]) -> None:
    phase, seen = Phase.CREATING, [Phase.CREATING]
    for event in events:
        phase = following(phase, event)
        seen.append(phase)
    if Phase.GONE in seen:
        assert phase is Phase.GONE
    if Phase.FAILED in seen:
        assert phase in DEAD
    if Phase.PLAYING in seen:
        assert Phase.READY in seen[: seen.index(Phase.PLAYING)]


def test_only_a_world_that_is_over_can_be_begun_again_after_its_end() -> None:
    assert {phase for phase in ENDED if following(phase, SessionEvent.REBUILT) is Phase.READY} == {Phase.OVER}
