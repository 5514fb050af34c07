"""Sessions advanced together: all of them end, in whatever way, before anybody hears of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy, EngineFailed, PeerDied, PeerTimeout, SessionEnded, UnknownSession
from lucky_transport.sessions.api import AdvanceRequest, AdvanceResult
from lucky_transport.sessions.batch_advance import MAX_IN_FLIGHT, BatchAdvance
from lucky_transport.sessions.sessions import Sessions


def outcome(ticks: int) -> AdvanceResult:
    return AdvanceResult(None, ticks, False, "", 0.0)


class Wire:
    """Calls that are answered by a script. log: what happened; answers: what comes of the nth call begun."""

    def __init__(self, *answers: AdvanceResult | BaseException) -> None:
        self.log: list[str] = []
        self.most_under_way = 0
        self.under_way = 0
        self._answers = iter(answers)

    def begin(self) -> Future[Any]:
        answer = next(self._answers)
        self.log.append("begin")
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return Call(self, answer)

    def advance(self, requests: int) -> BatchAdvance:
        return BatchAdvance([self.begin] * requests, lambda done: done)


class Call(Future[Any]):
    """One of them."""

    def __init__(self, wire: Wire, answer: AdvanceResult | BaseException) -> None:
        super().__init__()
        self._wire = wire
        self._answer = answer

    def result(self, timeout: float | None = None) -> Any:
        self._wire.log.append("await")
        if isinstance(self._answer, KeyboardInterrupt):
            raise self._answer
        self._wire.under_way -= 1
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def cancel(self) -> bool:
        self._wire.under_way -= 1
        self._wire.log.append("cancel")
        return True


def test_all_calls_are_begun_before_the_first_is_awaited() -> None:
    wire = Wire(outcome(1), outcome(2), outcome(3))
    assert wire.advance(3).run() == [outcome(1), outcome(2), outcome(3)]
    assert wire.log == ["begin"] * 3 + ["await"] * 3


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    wire = Wire(outcome(1), SessionEnded("second"), PeerDied("third"), outcome(4))
    with pytest.raises(SessionEnded, match="second"):
        wire.advance(4).run()
    assert wire.under_way == 0


def test_a_request_that_cannot_be_begun_stops_no_other() -> None:
    wire = Wire(outcome(1), outcome(2))

    def refuse() -> Future[Any]:
        raise PeerDied("gone")

    with pytest.raises(PeerDied, match="gone"):
        BatchAdvance([wire.begin, refuse, wire.begin], lambda done: done).run()
    assert wire.log == ["begin", "begin", "await", "await"]


def test_what_was_refused_is_begun_again_once_others_are_done() -> None:
    wire = Wire(Busy("no slot"), outcome(2), Busy("no slot"), outcome(1), Busy("no slot"), outcome(3))
    assert wire.advance(3).run() == [outcome(1), outcome(2), outcome(3)]


def test_busy_is_raised_when_a_whole_round_was_refused_and_the_others_stay_done() -> None:
    wire = Wire(outcome(1), Busy("no slot"), Busy("no slot"), outcome(2))
    together = wire.advance(2)
    with pytest.raises(Busy, match="no slot"):
        together.run()
    assert together.run() == [outcome(1), outcome(2)]


def test_so_many_calls_are_under_way_and_no_more() -> None:
    count = 2 * MAX_IN_FLIGHT + 1
    wire = Wire(*(outcome(ticks) for ticks in range(count)))
    assert [done.ticks for done in wire.advance(count).run()] == list(range(count))
    assert wire.most_under_way == MAX_IN_FLIGHT


def test_ctrl_c_leaves_no_call_open() -> None:
    wire = Wire(outcome(1), KeyboardInterrupt(), outcome(3))
    with pytest.raises(KeyboardInterrupt):
        wire.advance(3).run()
    assert wire.under_way == 0


# in the engine's own process


def test_outcomes_come_in_the_order_of_the_requests(sessions: Sessions, worlds: Any) -> None:
    ids = [sessions.create() for _ in range(5)]
    requests = [AdvanceRequest(session, ticks, [worlds.action(ticks)]) for ticks, session in enumerate(reversed(ids))]
    outcomes = sessions.advance_all(requests)
    assert [(done.ticks, done.ticks_done, done.observation.total) for done in outcomes] == [(n, n, n) for n in range(5)]
    assert sessions.advance_all([]) == []


def test_requests_end_early_for_their_own_interrupts(sessions: Sessions, worlds: Any) -> None:
    worlds.on_tick = lambda world: ["rain"] if world.ticks == 3 else []
    first, second, third = (sessions.create() for _ in range(3))
    requests = [
        AdvanceRequest(first, 9, interrupts=["rain"]),
        AdvanceRequest(second, 9, interrupts=["rain"], check_every=4),
        AdvanceRequest(third, 9),
    ]
    outcomes = sessions.advance_all(requests)
    assert [(done.ticks, done.interrupt) for done in outcomes] == [(3, "rain"), (4, "rain"), (9, "")]


def test_a_session_in_two_requests_is_refused_before_anything_is_done(sessions: Sessions) -> None:
    other, twice = sessions.create(), sessions.create()
    with pytest.raises(ValueError, match=f"session '{twice}' is in two requests"):
        sessions.advance_all([AdvanceRequest(other), AdvanceRequest(twice), AdvanceRequest(twice, 2)])
    assert sessions.advance(other, 0).ticks == 0


def test_a_request_that_fails_stops_no_other(sessions: Sessions, worlds: Any) -> None:
    def on_tick(world: Any) -> None:
        if world.seed == 13:
            raise ValueError("unlucky")

    worlds.on_tick = on_tick
    good, broken, also_good = sessions.create(seed=1), sessions.create(seed=13), sessions.create(seed=2)
    with pytest.raises(EngineFailed, match="unlucky"):
        sessions.advance_all(
            [AdvanceRequest(good), AdvanceRequest(broken), AdvanceRequest("0123456789ab"), AdvanceRequest(also_good)]
        )
    assert [sessions.advance(session, 0).ticks for session in (good, also_good)] == [1, 1]
    with pytest.raises(UnknownSession):
        sessions.advance_all([AdvanceRequest(good), AdvanceRequest("0123456789ab"), AdvanceRequest(broken)])


def test_the_deadline_is_that_of_all_requests(sessions: Sessions, worlds: Any) -> None:
    deadline = Deadline(10)

    def on_tick(world: Any) -> None:
        if world.seed == 1:
            deadline.at_ns = 0  # it has passed

    worlds.on_tick = on_tick
    first, second = sessions.create(seed=1), sessions.create(seed=2)
    with pytest.raises(PeerTimeout, match="an advance did 1 ticks"):
        sessions.advance_all([AdvanceRequest(first, 5), AdvanceRequest(second, 5)], deadline)
    assert sessions.advance(second, 0).ticks < 5


def test_more_requests_than_slots_are_no_reason_for_busy(limited: Callable[..., Any], worlds: Any) -> None:
    with limited(slots=1, slot_timeout_s=0.0) as sessions:
        ids = [sessions.create() for _ in range(8)]
        for session in ids:
            sessions.latest(session)
        assert [done.ticks for done in sessions.advance_all([AdvanceRequest(session) for session in ids])] == [1] * 8
