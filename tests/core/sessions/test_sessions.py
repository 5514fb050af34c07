"""What can be done with sessions, which also run freely, are looked at and recorded; and worlds that misbehave."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.call import Call
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.engines.cartpole import CartPoleCommand, CartPoleWorlds
from lucky_transport.errors import (
    Busy,
    ClosedError,
    ConfigError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    SessionEnded,
    SpecError,
    TransportError,
    UnknownSession,
)
from lucky_transport.messages import GetLatestRequest, RecordedActions, SessionAction, SessionRecording, SessionSnapshot
from lucky_transport.sessions import service
from lucky_transport.sessions.api import AdvanceRequest
from lucky_transport.sessions.phase import Phase
from lucky_transport.sessions.service import session_handlers
from lucky_transport.sessions.sessions import Sessions
from tests.core.sessions.conftest import Limited
from tests.support.waiting import PATIENCE_S, until


class Gate:
    """Holds up whoever calls it first, until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, *_: Any) -> None:
        is_first = not self.entered.is_set()
        self.entered.set()
        assert not is_first or self.opened.wait(PATIENCE_S)


def test_a_session_is_there_at_once_while_its_world_is_still_being_built(sessions: Sessions, worlds: Any) -> None:
    gate = worlds.on_create = Gate()
    session = sessions.create("hills", 3)
    state = sessions.state(session)
    assert (state.phase, state.map_name, state.ticks) == (Phase.CREATING, "hills", 0)
    with pytest.raises(PeerTimeout, match=r"was not ready within 0\.01 s"):
        sessions.advance(session, deadline=Deadline(0.01))
    gate.opened.set()
    assert sessions.advance(session).ticks == 1
    assert worlds.made[0].seed == 3


def test_the_first_map_is_the_default_and_an_unknown_one_is_refused_at_once(sessions: Sessions) -> None:
    assert sessions.state(sessions.create()).map_name == "plain"
    with pytest.raises(SpecError, match="no map 'moon'; there are plain, hills"):
        sessions.create("moon")


def test_the_actions_of_an_advance_come_before_its_first_tick(sessions: Sessions, worlds: Any) -> None:
    order = worlds.action
    session = sessions.create()
    sessions.advance(session, 2, [order(1), order(2)])
    sessions.advance(session, 1, [order(3)])
    assert worlds.made[0].given == [(0, [1, 2]), (2, [3])]


def test_events_are_looked_for_every_so_many_ticks(sessions: Sessions, worlds: Any) -> None:
    worlds.on_tick = lambda world: ["sun", "rain"] if world.ticks == 3 else []
    assert sessions.advance(sessions.create(), 10, interrupts=["rain"]).ticks_done == 3
    late = sessions.advance(sessions.create(), 10, interrupts=["rain"], check_every=4)
    assert (late.ticks_done, late.interrupt) == (4, "rain")
    assert sessions.advance(sessions.create(), 10, interrupts=["snow"]).ticks_done == 10


def test_an_event_in_a_worlds_last_tick_is_told_however_seldom_it_is_checked(sessions: Sessions, worlds: Any) -> None:
    worlds.last_tick = 3
    worlds.on_tick = lambda world: ["rain"] if world.ticks == 3 else []
    done = sessions.advance(sessions.create(), 10, interrupts=["rain"], check_every=100)
    assert (done.ticks_done, done.interrupt, done.result) == (3, "rain", "done")


def test_a_session_in_two_requests_is_refused_before_any_tick(sessions: Sessions) -> None:
    other, twice = sessions.create(), sessions.create()
    with pytest.raises(ConfigError, match="in two requests"):
        sessions.advance_all([AdvanceRequest(other), AdvanceRequest(twice), AdvanceRequest(twice, 2)])
    assert [sessions.state(one).ticks for one in (other, twice)] == [0, 0]


@pytest.mark.parametrize(("ticks", "check_every"), [(-1, 1), (1, 0)])
def test_numbers_that_make_no_sense_are_refused(sessions: Sessions, ticks: int, check_every: int) -> None:
    with pytest.raises(ConfigError, match=f"ticks {ticks}, check_every {check_every}"):
        sessions.advance(sessions.create(), ticks, check_every=check_every)


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_world_that_breaks_in_close_harms_nobody(sessions: Sessions, worlds: Any, error: type[BaseException]) -> None:
    session = sessions.create()
    sessions.advance(session)
    worlds.made[0].close = Mock(side_effect=error("worlds apart"))
    sessions.destroy(session)
    assert sessions.ids() == []


def test_ctrl_c_in_a_tick_is_not_the_worlds_failure(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create()
    sessions.advance(session)
    worlds.made[0]._on_tick = lambda world: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        sessions.advance(session)
    worlds.made[0]._on_tick = lambda world: None
    assert sessions.advance(session).ticks == 3


def test_destroying_ends_an_advance_after_its_present_tick(sessions: Sessions, worlds: Any) -> None:
    gate = worlds.on_tick = Gate()
    session = sessions.create()
    with ThreadPoolExecutor(1) as pool:
        advance = pool.submit(sessions.advance, session, 1000)
        assert gate.entered.wait(PATIENCE_S)
        sessions.destroy(session)
        assert worlds.made[0].closed == 0, "somebody holds it"
        gate.opened.set()
        with pytest.raises(SessionEnded, match=f"session {session} was destroyed"):
            advance.result(PATIENCE_S)
    assert worlds.made[0].ticks == 1
    assert worlds.made[0].closed == 1


def test_a_session_destroyed_while_it_is_built_leaves_no_world(sessions: Sessions, worlds: Any) -> None:
    gate = worlds.on_create = Gate()
    session = sessions.create()
    assert gate.entered.wait(PATIENCE_S)
    destroyed = sessions.find(session)
    sessions.destroy(session)
    gate.opened.set()
    sessions.close()
    assert [world.closed for world in worlds.made] == [1]
    assert destroyed.phase is Phase.GONE


def test_an_unknown_session_is_named_and_destroying_it_is_no_error(sessions: Sessions) -> None:
    sessions.destroy("nobody")
    for call in (sessions.state, sessions.advance, sessions.latest, sessions.restart, sessions.recording):
        with pytest.raises(UnknownSession, match="engine 'scripted' has no session 'nobody'; create one"):
            call("nobody")


def test_an_advance_stops_when_its_caller_gave_up(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create()
    with pytest.raises(PeerTimeout, match="an advance did 3 ticks"):
        sessions.advance(session, 1000, is_cancelled=lambda: worlds.made[0].ticks == 3)
    assert sessions.advance(session, 1).ticks == 4


def test_what_is_not_recorded_cannot_be_had(sessions: Sessions) -> None:
    session = sessions.create()
    with pytest.raises(LocalProtocolError, match="is not recorded; create it with record=True"):
        sessions.recording(session)


def test_a_world_that_is_over_can_be_begun_again(sessions: Sessions, worlds: Any) -> None:
    worlds.last_tick = 3
    session = sessions.create()
    assert sessions.advance(session, 5).is_over
    sessions.restart(session)
    assert sessions.state(session).phase is Phase.READY


def test_a_world_that_cannot_restart_is_replaced_and_its_queue_forgotten(sessions: Sessions, worlds: Any) -> None:
    session = sessions.create(seed=1)
    sessions.advance(session, 5)
    sessions.act(session, [worlds.action(9)])
    assert sessions.restart(session, 2).ticks == 0
    assert sessions.advance(session).observation.total == 0
    first, second = worlds.made
    assert (first.closed, second.closed, second.seed) == (1, 0, 2)


def test_closing_destroys_everything(sessions: Sessions, worlds: Any) -> None:
    for _ in range(5):
        sessions.advance(sessions.create())
    sessions.close()
    sessions.close()
    assert [world.closed for world in worlds.made] == [1] * 5
    with pytest.raises(ClosedError, match="the engine is closing"):
        sessions.create()


def test_there_are_so_many_sessions_and_no_more(limited: Limited) -> None:
    with limited(sessions=2) as sessions:
        first = sessions.create()
        sessions.create()
        with pytest.raises(Busy, match="all 2 sessions are in use; destroy one first"):
            sessions.create()
        sessions.destroy(first)
        sessions.create()


def test_who_finds_no_worker_slot_in_time_is_told_so(limited: Limited, worlds: Any) -> None:
    gate = worlds.on_tick = Gate()
    with limited(slots=1, slot_timeout_s=0.05) as sessions, ThreadPoolExecutor(1) as pool:
        busy, waits = sessions.create(), sessions.create()
        advance = pool.submit(sessions.advance, busy)
        assert gate.entered.wait(PATIENCE_S)
        with pytest.raises(Busy, match="all worker slots busy: 1 sessions advance at once; retry later"):
            sessions.advance(waits)
        gate.opened.set()
        assert advance.result(PATIENCE_S).ticks == 1
        assert sessions.advance(waits).ticks == 1


def test_who_waits_too_long_for_a_session_in_another_calls_use_is_told_so(sessions: Sessions, worlds: Any) -> None:
    gate = worlds.on_tick = Gate()
    with ThreadPoolExecutor(1) as pool:
        busy = sessions.create()
        advance = pool.submit(sessions.advance, busy)
        assert gate.entered.wait(PATIENCE_S)
        with pytest.raises(PeerTimeout, match=rf"session {busy} was in use for 0\.05 s; one call after another"):
            sessions.advance(busy, deadline=Deadline(0.05))
        gate.opened.set()
        assert advance.result(PATIENCE_S).ticks == 1
        assert sessions.advance(busy).ticks == 2


def test_calls_that_wait_for_one_session_keep_no_slot_from_others(limited: Limited, worlds: Any) -> None:
    gate = worlds.on_create = Gate()
    with limited(slots=1, slot_timeout_s=0.05) as sessions, ThreadPoolExecutor(4) as pool:
        slow = sessions.create()
        waiting = [pool.submit(sessions.advance, slow) for _ in range(4)]
        assert gate.entered.wait(PATIENCE_S)
        assert sessions.advance(sessions.create()).ticks == 1
        gate.opened.set()
        assert sorted(call.result(PATIENCE_S).ticks for call in waiting) == [1, 2, 3, 4]


def test_a_session_without_calls_is_destroyed(limited: Limited, worlds: Any) -> None:
    with limited(idle_s=300.0, sweep_s=0.01) as sessions:
        idle, used = sessions.create(), sessions.create()
        sessions.advance(used)
        sessions.find(idle).used_at -= 300.0  # its last call was so long ago
        until(lambda: idle not in sessions.ids())
        assert sessions.ids() == [used]
        with pytest.raises(UnknownSession, match=r"without a call for 300 s is destroyed"):
            sessions.state(idle)


@pytest.mark.parametrize(
    "error",
    [
        Busy("no room"),
        PeerTimeout("too late"),
        SessionEnded("gone"),
        SpecError("no such army", hint="take another"),
        SystemExit(4),
    ],
)
def test_whatever_a_world_raises_ends_its_session_alone(sessions: Sessions, worlds: Any, error: BaseException) -> None:
    broken = sessions.create()
    sessions.advance(broken)  # its world is there: the first one
    other = sessions.create()
    sessions.advance(other)
    worlds.made[0]._on_tick = worlds.on_create = Mock(side_effect=error)
    unbuilt = sessions.create()
    ours = isinstance(error, TransportError)
    text = str(error) if ours else r"engine 'scripted' failed in session .*: SystemExit: 4"
    with pytest.raises(type(error) if ours else EngineFailed, match=text):
        sessions.advance(broken)
    for session in (broken, unbuilt):
        for use in (sessions.advance, sessions.latest, sessions.restart, lambda one: sessions.act(one, [])):
            with pytest.raises(SessionEnded, match=f"session {session} failed: "):
                use(session)
        state = sessions.state(session)
        assert state.phase is Phase.FAILED
        assert state.error.endswith(str(error))
    assert worlds.made[0].closed == 1
    assert sessions.advance(other).ticks == 2


# --- running freely, readers, recordings ---


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
