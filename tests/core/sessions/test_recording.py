"""What is recorded of a session is all that it takes to see it again."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorlds
from lucky_transport.errors import SpecError
from lucky_transport.messages import RecordedActions, SessionAction, SessionRecording
from lucky_transport.sessions.sessions import Sessions

_MOVES = st.lists(st.tuples(st.integers(0, 4), st.lists(st.booleans(), max_size=3), st.booleans()), max_size=8)


@given(_MOVES)
def test_a_recording_that_travelled_shows_the_same_world_again(moves: list[tuple[int, list[bool], bool]]) -> None:
    sessions = Sessions(CartPoleWorlds(), "cartpole")
    try:
        session = sessions.create(options={"wind": 4.0, "initial_angle": 0.0}, record=True)
        last = sessions.advance(session, 0)
        for ticks, pushes, through_queue in moves:
            commands = [CartPoleCommand(push) for push in pushes]
            if through_queue:
                sessions.act(session, commands)
            last = sessions.advance(session, ticks, () if through_queue else commands)
        recording = decode(SessionRecording, encode(sessions.recording(session)))
        shown = sessions.advance(sessions.replay(recording), 1000)
        assert (shown.observation, shown.ticks, shown.score) == (last.observation, last.ticks, last.score)
        assert shown.is_over
    finally:
        sessions.close()


def test_a_recorded_session_without_a_seed_gets_one(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create(record=True)
    sessions.advance(session)
    assert sessions.recording(session).seed == worlds.made[0].seed


def test_a_restart_begins_the_recording_anew(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create(seed=1, record=True)
    sessions.advance(session, 3, [worlds.action(5)])
    sessions.restart(session, 2)
    assert sessions.recording(session) == SessionRecording("plain", 2, "{}")


def test_a_recording_that_is_shown_takes_no_actions(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create(seed=1, record=True)
    sessions.advance(session, 4, [worlds.action(5)])
    shown = sessions.replay(sessions.recording(session))
    sessions.act(shown, [worlds.action(7)])
    assert sessions.advance(shown, 1, [worlds.action(9)]).observation.total == 5


@pytest.mark.parametrize("text", ["{", "[1]", "7", "null", '{"wind": NaN}', '{"wind": 1e999}', "[" * 100_000])
def test_a_recording_with_malformed_options_is_refused_with_its_field(text: str) -> None:
    with (
        closing(Sessions(CartPoleWorlds(), "cartpole")) as sessions,
        pytest.raises(SpecError, match=r"recording\.options_json .* is no JSON.*; send an object such as"),
    ):
        sessions.replay(SessionRecording("flat", 1, text))


@pytest.mark.parametrize(
    ("recording", "finding"),
    [
        (SessionRecording("moon", 1), "no map 'moon'; there are flat"),
        (SessionRecording("flat", 1, '{"wind": "strong"}'), "option wind='strong'; expected numbers for"),
        (SessionRecording("flat", 1, '{"sails": 2}'), "option sails=2; expected numbers for"),
        (
            SessionRecording("flat", 1, "", 9, [RecordedActions(4, [SessionAction(b"no action")])]),
            r"recording\.actions before tick 4: action 0 is no CartPoleCommand: .*; replay a recording of",
        ),
    ],
)
def test_a_recording_of_what_cannot_be_is_refused_at_once(recording: SessionRecording, finding: str) -> None:
    with closing(Sessions(CartPoleWorlds(), "cartpole")) as sessions:
        with pytest.raises(SpecError, match=finding):
            sessions.replay(recording)
        assert sessions.ids() == []
