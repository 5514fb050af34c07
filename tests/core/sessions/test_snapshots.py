"""Sessions that run freely, readers who look at them, and what is recorded of them to see them again."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorlds
from lucky_transport.errors import ConfigError, PeerTimeout, SessionEnded, SpecError
from lucky_transport.messages import GetLatestRequest, RecordedActions, SessionAction, SessionRecording, SessionSnapshot
from lucky_transport.sessions import service
from lucky_transport.sessions.service import session_handlers
from lucky_transport.sessions.sessions import Sessions
from tests.support.waiting import PATIENCE_S, until


def test_a_session_that_runs_goes_on_by_itself_until_its_world_is_over(sessions: Sessions, worlds: Any) -> None:
    worlds.last_tick = 50
    session = sessions.create()
    sessions.run(session, 0)
    until(lambda: sessions.state(session).is_over)
    state = sessions.state(session)
    assert (state.ticks, state.result, state.phase) == (50, "done", "over")
    until(lambda: sessions.state(session).rate_hz is None)
    assert sessions.state(session).rate_hz is None
    assert sessions.latest(session).ticks == 50


def test_a_turn_of_a_session_without_a_rate_goes_on_until_its_world_is_over(sessions: Sessions, worlds: Any) -> None:
    worlds.last_tick = 50
    session = sessions.find(sessions.create())
    session.latest(-1, Deadline(PATIENCE_S))
    session.rate_hz = 0.0
    assert session.run_for(PATIENCE_S)
    assert session.state().is_over


@pytest.mark.parametrize(("rate_hz", "ticks"), [(0, 5), (0.001, 0)])
def test_a_session_may_be_run_before_it_is_built(sessions: Sessions, worlds: Any, rate_hz: float, ticks: int) -> None:
    go_on = threading.Event()
    worlds.on_create = lambda: go_on.wait(PATIENCE_S)
    session = sessions.create()
    sessions.run(session, rate_hz)
    time.sleep(0.01)
    go_on.set()
    assert sessions.latest(session, ticks, Deadline(PATIENCE_S)).ticks > ticks


@pytest.mark.parametrize("rate_hz", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_makes_no_sense_is_refused(sessions: Sessions, rate_hz: float) -> None:
    with pytest.raises(ConfigError, match="rate_hz"):
        sessions.run(sessions.create(), rate_hz)


def test_a_reader_sees_a_slow_world_without_waiting_for_its_next_tick(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.run(session, 0.001)
    until(lambda: sessions.state(session).ticks == 1)
    assert sessions.latest(session, 0, Deadline(PATIENCE_S)).ticks == 1


def test_a_reader_looks_into_the_middle_of_a_long_advance(sessions: Sessions, worlds: Any) -> None:
    ticks = threading.Semaphore(3)
    worlds.on_tick = lambda world: ticks.acquire(timeout=PATIENCE_S) and None
    session = sessions.create()
    with ThreadPoolExecutor(2) as pool:
        advance = pool.submit(sessions.advance, session, 10)
        until(lambda: worlds.made and worlds.made[0].ticks == 4)  # the fourth tick goes on
        look = pool.submit(sessions.latest, session)
        until(lambda: sessions.find(session).world_lock.snapshots.waiting)
        ticks.release()
        assert look.result(PATIENCE_S).ticks == 4
        assert not advance.done()
        ticks.release(10)
        assert advance.result(PATIENCE_S).ticks == 10


def test_a_reader_that_comes_while_the_world_is_held_looks_when_it_is_released(sessions: Sessions) -> None:
    lock = sessions.find(sessions.create()).world_lock
    until(lambda: lock.world is not None)
    asked = threading.Event()

    def ask() -> None:
        lock.serve_readers()
        asked.set()

    assert lock.acquire(Deadline(PATIENCE_S))
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lock.snapshots.wait, -1, Deadline(PATIENCE_S), ask)
        try:
            assert asked.wait(PATIENCE_S)
            assert not found.done()
        finally:
            lock.lock.release()
            lock.settle()
        assert found.result() is not None


def test_who_waits_for_a_tick_that_does_not_come_is_told_in_time(sessions: Sessions) -> None:
    session = sessions.create()
    with pytest.raises(PeerTimeout, match=f"session {session} showed nothing after tick 7 within 0.02 s; advance it"):
        sessions.latest(session, 7, Deadline(0.02))


def test_a_caller_waits_for_a_tick_however_many_did_before(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = session_handlers(sessions)
    latest = handlers["/lucky_transport.v1.SessionService/GetLatest"]
    request = GetLatestRequest(sessions.create(), 0)
    monkeypatch.setattr(service, "_LONGEST_WAIT_S", 0.001)
    for _ in range(20):
        assert latest(request, Call("me")) == SessionSnapshot()
    monkeypatch.setattr(service, "_LONGEST_WAIT_S", PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(latest, request, Call("me"))
        until(lambda: bool(sessions.find(request.session_id).world_lock.snapshots.waiting))
        sessions.advance(request.session_id)
        assert found.result().ticks == 1


def test_a_session_that_ends_ends_the_wait_for_it(sessions: Sessions, worlds: Any) -> None:
    destroyed, over = sessions.create(), sessions.create()
    sessions.advance(over, 0)
    with ThreadPoolExecutor(2) as pool:
        looks = [pool.submit(sessions.latest, session, 7) for session in (destroyed, over)]
        until(lambda: sessions.find(over).world_lock.snapshots.waiting)
        sessions.destroy(destroyed)
        with pytest.raises(SessionEnded, match="was destroyed"):
            looks[0].result(PATIENCE_S)
        worlds.made[-1]._last_tick = 3
        worlds.made[0]._last_tick = 3
        sessions.advance(over, 5)
        with pytest.raises(SessionEnded, match="over since tick 3"):
            looks[1].result(PATIENCE_S)


def test_readers_and_a_running_session_never_lose_each_other(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.run(session, 0)

    def follow(_: int) -> bool:
        seen = -1
        for _ in range(50):
            ticks = sessions.latest(session, seen, Deadline(PATIENCE_S)).ticks
            assert ticks > seen
            seen = ticks
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(follow, range(8)))


def test_a_world_that_breaks_while_it_runs_ends_its_session(sessions: Sessions, worlds: Any) -> None:
    def on_tick(world: Any) -> None:
        if world.ticks == 3:
            raise ZeroDivisionError("three is one too many")

    worlds.on_tick = on_tick
    session = sessions.create()
    sessions.run(session, 0)
    with pytest.raises(SessionEnded, match="three is one too many"):
        sessions.latest(session, 100)
    assert sessions.state(session).phase == "failed"


def test_the_slowest_rate_there_is_holds_up_nobody_else(sessions: Sessions) -> None:
    slow, fast = sessions.create(), sessions.create()
    sessions.run(slow, 5e-324)
    until(lambda: sessions.state(slow).ticks == 1)
    sessions.run(fast, 1000.0)
    assert sessions.latest(fast, 5, Deadline(PATIENCE_S)).ticks > 5
    assert sessions.state(slow).ticks == 1


def test_another_rate_counts_from_now_on(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.run(session, 0.001)
    until(lambda: sessions.state(session).ticks == 1)
    sessions.run(session, 1000.0)
    assert sessions.latest(session, 5, Deadline(PATIENCE_S)).ticks > 5
    sessions.run(session, None)
    sessions.run(session, 0)
    ticks = sessions.state(session).ticks
    assert sessions.latest(session, ticks + 50, Deadline(PATIENCE_S)).ticks > ticks + 50


def test_a_session_that_is_told_its_rate_again_and_again_ticks_no_faster(sessions: Sessions) -> None:
    session = sessions.create()
    sessions.run(session, 0.001)
    until(lambda: sessions.state(session).ticks == 1)
    for _ in range(20):
        sessions.run(session, 0.001)
        time.sleep(0.001)
    assert sessions.state(session).ticks == 1


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
        *(
            (SessionRecording("flat", 1, text), r"recording\.options_json .* is no JSON.*; send an object such as")
            for text in ("{", "[1]", "7", "null", '{"wind": NaN}', '{"wind": 1e999}', "[" * 100_000)
        ),
    ],
)
def test_a_recording_of_what_cannot_be_is_refused_at_once(recording: SessionRecording, finding: str) -> None:
    with closing(Sessions(CartPoleWorlds(), "cartpole")) as sessions:
        with pytest.raises(SpecError, match=finding):
            sessions.replay(recording)
        assert sessions.ids() == []
