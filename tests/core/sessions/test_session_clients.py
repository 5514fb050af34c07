"""Clients of sessions: many calls under way together, engines without sessions, answers that make no sense."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    Busy,
    PeerDied,
    RemoteProtocolError,
    SessionEnded,
    SpecError,
    Unimplemented,
)
from lucky_transport.messages import AdvanceSessionResponse, SessionStatus
from lucky_transport.process import unique_name
from lucky_transport.sessions.api import AdvanceRequest, AdvanceResult
from lucky_transport.sessions.batch_advance import MAX_IN_FLIGHT, BatchAdvance
from lucky_transport.sessions.client import SessionClient, worlds_of


@pytest.mark.parametrize("engine", ["toy", "toy:idle", "mujoco:quadruped", "gymnasium:CartPole-v1", "one's own"])
def test_an_engine_without_sessions_says_so_whatever_its_variant(engine: str) -> None:
    with pytest.raises(Unimplemented, match=rf"^engine '?\"?{engine}'?\"? has no sessions; step it as a batch$"):
        worlds_of(engine)


def test_a_variant_of_an_engine_with_sessions_has_them() -> None:
    assert worlds_of("cartpole:any").__class__ is worlds_of("cartpole").__class__


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_a_session_of_a_running_batch_engine_is_unimplemented(transport: str) -> None:
    with (
        api.serve("toy", f"{transport}://{unique_name()}") as serving,
        api.open_transport(serving.endpoints[0]) as client,
        pytest.raises(Unimplemented, match="engine 'toy' has no sessions"),
    ):
        SessionClient(client)


class _Newer(ToyEngine):
    """Answers as an engine might that knows other phases, and advances without showing its world."""

    @property
    def services(self) -> Mapping[str, Handler]:
        service = "/lucky_transport.v1.SessionService/"
        return {
            f"{service}GetSession": lambda request: SessionStatus(phase="melting"),
            f"{service}AdvanceSession": lambda request: AdvanceSessionResponse(),
        }


@pytest.fixture
def newer() -> Iterator[SessionClient]:
    """A client of an engine whose answers it does not understand."""
    with (
        api.serve(_Newer(1), f"inproc://{unique_name()}") as serving,
        api.open_transport(serving.endpoints[0]) as client,
    ):
        yield SessionClient(client, worlds_of("cartpole"))


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda sessions: sessions.state("one"), "a session is in phase 'melting'; is the engine newer than this"),
        (lambda sessions: sessions.advance("one"), "the engine's answer shows no world; the peer is broken"),
    ],
    ids=["phase", "world"],
)
def test_an_answer_that_cannot_be_understood_is_the_peers_fault(
    newer: SessionClient, ask: Callable[[SessionClient], Any], text: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        ask(newer)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["no number", "a set", "an object"])
def test_options_that_are_no_json_are_refused_before_anything_is_sent(newer: SessionClient, value: Any) -> None:
    with pytest.raises(SpecError, match="the session's options cannot go to the engine as JSON: "):
        newer.create(options={"wind": value})


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


def test_more_requests_than_slots_are_no_reason_for_busy(limited: Callable[..., Any], worlds: Any) -> None:
    with limited(slots=1, slot_timeout_s=0.0) as sessions:
        ids = [sessions.create() for _ in range(8)]
        for session in ids:
            sessions.latest(session)
        assert [done.ticks for done in sessions.advance_all([AdvanceRequest(session) for session in ids])] == [1] * 8
