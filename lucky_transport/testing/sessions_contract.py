"""What every transport that carries sessions guarantees about them.

The reference is the engine's own process: the same worlds, seeds and actions give the same bits.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorld
from lucky_transport.errors import ConfigError, PeerTimeout, SessionEnded, SpecError, UnknownSession
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.client import SessionClient
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.transport import SessionTransport
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, TransportSuite, outcome_when
from lucky_transport.testing.trajectories import first_difference, random_moves, record_frames

_RIGHT, _LEFT = CartPoleCommand(True), CartPoleCommand(False)
_ENDLESS = {"initial_angle": 0, "max_ticks": 1_000_000_000}


@needs("sessions")
class SessionsContract(TransportSuite):
    """The part of `TransportContract` about sessions."""

    @contextmanager
    def open_sessions(self) -> Generator[SessionClient]:
        """Yield the sessions of a fresh engine."""
        with self.open_client("cartpole", 1) as client:
            yield SessionClient(client)

    def test_a_session_is_created_advanced_and_destroyed(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(seed=7)
            assert len(session) == 12
            assert sessions.advance(session, 0).ticks == 0
            assert sessions.state(session).phase is Phase.READY
            done = sessions.advance(session, 3, [_RIGHT])
            assert (done.ticks, done.ticks_done, done.interrupt, done.is_over) == (3, 3, "", False)
            assert sessions.state(session).phase is Phase.PLAYING
            assert sessions.ids() == [session]
            sessions.destroy(session)
            sessions.destroy(session)
            with pytest.raises(UnknownSession, match=f"no session '{session}'; create one"):
                sessions.advance(session)

    def test_what_is_observed_is_bit_for_bit_the_world(self) -> None:
        world = CartPoleWorld(7, wind=3.0)
        with self.open_sessions() as sessions:
            session = sessions.create("flat", 7, {"wind": 3.0})
            for command in (_RIGHT, _LEFT, _LEFT, _RIGHT, _RIGHT):
                world.act([command])
                world.tick()
                assert sessions.advance(session, 1, [command]).observation == world.observe()

    def test_sessions_do_not_influence_each_other(self) -> None:
        with self.open_sessions() as sessions:
            first, second = sessions.create(seed=1), sessions.create(seed=1)
            expected = sessions.advance(first, 5, [_RIGHT]).observation
            sessions.advance(first, 5, [_LEFT])
            assert sessions.advance(second, 5, [_RIGHT]).observation == expected

    def test_sessions_advanced_together_show_what_each_shows_alone(self) -> None:
        with self.open_sessions() as sessions:
            ids = [sessions.create(seed=seed) for seed in range(64)]
            alone = [sessions.create(seed=seed) for seed in range(64)]
            for _ in range(3):
                commands = [[_RIGHT if number % 3 else _LEFT] for number in range(64)]
                requests = [AdvanceRequest(session, 1 + n % 5, commands[n]) for n, session in enumerate(ids)]
                expected = [sessions.advance(session, 1 + n % 5, commands[n]) for n, session in enumerate(alone)]
                assert sessions.advance_all(requests) == expected

    def test_a_request_that_fails_stops_no_other_session(self) -> None:
        with self.open_sessions() as sessions:
            first, second = sessions.create(seed=1), sessions.create(seed=2)
            with pytest.raises(UnknownSession, match="no session '0123456789ab'"):
                sessions.advance_all(
                    [
                        AdvanceRequest(first),
                        AdvanceRequest("0123456789ab"),
                        AdvanceRequest(second, 2),
                        AdvanceRequest("ba9876543210"),
                    ]
                )
            assert [sessions.advance(session, 0).ticks for session in (first, second)] == [1, 2]
            with pytest.raises(ConfigError, match=f"session '{first}' is in two requests"):
                sessions.advance_all([AdvanceRequest(first), AdvanceRequest(second), AdvanceRequest(first)])
            assert [sessions.advance(session, 0).ticks for session in (first, second)] == [1, 2]

    def test_one_deadline_ends_all_that_are_advanced_together(self) -> None:
        with self.open_sessions() as sessions:
            ids = [sessions.create(options=_ENDLESS) for _ in range(20)]
            with pytest.raises(PeerTimeout):
                sessions.advance_all([AdvanceRequest(session, 1_000_000_000) for session in ids], Deadline(0.2))
            assert all(
                done.ticks_done == 1 for done in sessions.advance_all([AdvanceRequest(session) for session in ids])
            )

    @needs("sessions", "has_deadlines")
    def test_closing_ends_all_that_are_advanced_together(self) -> None:
        with self.open_sessions() as sessions:
            requests = [AdvanceRequest(sessions.create(options=_ENDLESS), 1_000_000_000) for _ in range(20)]
            advance = partial(SessionClient.advance_all, requests=requests, deadline=Deadline(PATIENCE_S))
            found = outcome_when(sessions.transport.close, sessions, advance)
            assert found == "ClosedError: the transport is closed; connect again"

    def test_an_event_ends_an_advance(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(seed=1)
            done = sessions.advance(session, 400, interrupts=["fell"])
            assert (done.interrupt, done.is_over, done.result) == ("fell", True, "fell")
            assert 0 < done.ticks_done < 400
            again = sessions.advance(session, 5)
            assert (again.ticks_done, again.is_over, again.ticks) == (0, True, done.ticks)
            with pytest.raises(SessionEnded, match=f"session {session} is over since tick {done.ticks}"):
                sessions.latest(session, done.ticks)

    def test_errors_have_the_same_texts(self) -> None:
        with self.open_sessions() as sessions:
            with pytest.raises(SpecError, match="no map 'moon'; there are flat"):
                sessions.create("moon")
            for options in ({"gravity": 1}, {"wind": "strong"}, {"max_ticks": 1.5}):
                with pytest.raises(SpecError, match=r"option (gravity|wind|max_ticks)=.*; .*expected numbers for"):
                    sessions.create(options=options)
            session = sessions.create()
            if self.has_deadlines:
                with pytest.raises(PeerTimeout):
                    sessions.latest(session, 100, Deadline(0.05))

    def test_a_session_runs_freely_and_shows_its_newest_tick(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(seed=1, options=_ENDLESS)
            sessions.run(session, 500.0)
            first = sessions.latest(session)
            second = sessions.latest(session, first.ticks)
            assert second.ticks > first.ticks
            deadline = Deadline(PATIENCE_S)
            while (before := sessions.state(session).ticks) <= second.ticks:
                assert not deadline.expired, "it does not run on by itself"
            assert sessions.latest(session).ticks >= before
            sessions.run(session, None)
            sessions.advance(session, 0)
            stopped = sessions.state(session)
            assert sessions.latest(session).ticks == stopped.ticks

    def test_readers_that_wait_leave_room_for_calls_that_act(self) -> None:
        """More readers than an engine has threads for wait for a tick that another call does."""
        with self.open_sessions() as sessions, ThreadPoolExecutor(32) as pool:
            session = sessions.create(seed=1)
            sessions.advance(session, 0)
            reads = [pool.submit(sessions.latest, session, 0, Deadline(PATIENCE_S)) for _ in range(32)]
            assert sessions.advance(session).ticks == 1
            assert {read.result(PATIENCE_S).ticks for read in reads} == {1}

    def test_the_newest_actions_push_out_the_oldest(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(seed=1, options=_ENDLESS)
            assert sessions.act(session, [_LEFT] * 16) == 0
            assert sessions.act(session, [_RIGHT] * 4) == 4
            assert sessions.advance(session).observation.cart_velocity > 0
            assert sessions.state(session).dropped == 4

    def test_a_recording_shows_the_same_again(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(options={"wind": 2.0}, record=True)
            for command in (_RIGHT, _LEFT, _RIGHT):
                last = sessions.advance(session, 2, [command])
            recording = sessions.recording(session)
            assert [entry.tick for entry in recording.actions] == [0, 2, 4]
            shown = sessions.advance(sessions.replay(recording), 100)
            assert (shown.observation, shown.ticks, shown.result) == (last.observation, 6, "replayed")

    def test_a_session_starts_over_with_another_seed(self) -> None:
        with self.open_sessions() as sessions:
            session = sessions.create(seed=1)
            start = sessions.advance(session, 0).observation
            sessions.advance(session, 400)
            assert sessions.restart(session, 1).observation == start
            assert sessions.restart(session, 2).observation != start
            assert sessions.state(session).phase is Phase.READY

    def test_a_clients_own_sessions_end_with_it(self) -> None:
        with self.serve("cartpole", 1) as endpoint, self.connect(endpoint) as stays:
            with self.connect(endpoint) as leaves:
                kept = SessionClient(leaves, owned=False).create()
                SessionClient(leaves).create()
            deadline = Deadline(PATIENCE_S)
            sessions = SessionClient(stays)
            while sessions.ids() != [kept]:
                assert not deadline.expired

    def test_a_batch_of_sessions_gives_the_frames_of_a_batch_of_worlds(self) -> None:
        with self.open_sessions() as sessions, self.open_reference("cartpole", 3) as reference:
            batch = SessionTransport(sessions, 3)
            moves = random_moves(batch.spec, 60, seed=2, hold=True)
            with batch:
                found = record_frames(batch, moves, reset_ended=True)
            assert first_difference(record_frames(reference, moves, reset_ended=True), found) is None
            assert sessions.ids() == []
