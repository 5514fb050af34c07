"""What is looked at beside a shadow's answer: whether a late candidate is late again, whether both are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision, Ending, Received, RoutedCall
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import NOT_ENDED
from lucky_transport_migration.routing.router import ProcessRouter, TargetRouter
from tests.support.interrupted_moments import interrupted_start
from tests.support.waiting import until

_READ = method("AgentService/GetAgentSchema").name
_SHADOW, _CANARY = Decision("grpc", "shm", "shadow"), Decision("shm", "grpc", "canary 10%")
_GRPC = Decision("grpc", "", "grpc")
_LATE = "DEADLINE_EXCEEDED"
_HAS_S = 0.02

New = Callable[..., Any]
#: Makes a read whose primary has ended with a code, and returns what is noted of it.
Read = Callable[..., Comparison]


class Engine:
    """Answers reads over both transports. takes: how long the next answers of each take, on a clock of its own."""

    def __init__(self) -> None:
        self.now_ns = 10**9
        self.takes: dict[str, list[float]] = {"grpc": [], "shm": []}
        self.gone = False
        self.asked: list[str] = []

    def ask(self, call: RoutedCall, transport: str, timeout_s: float, received: Received) -> Ending:
        self.asked.append(transport)
        if self.gone:
            return Ending("UNAVAILABLE", is_local=True)
        takes = self.takes[transport].pop(0) if self.takes[transport] else 0.001
        self.now_ns += int(min(takes, timeout_s) * 1e9)
        if takes > timeout_s:
            return Ending(_LATE, is_local=True)
        received.add(b"answer")
        return Ending()

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: engine.now_ns)
    return engine


@pytest.fixture
def policy(new_policy: New) -> Any:
    return new_policy(_SHADOW)


@pytest.fixture
def target(engine: Engine, policy: Any) -> TargetRouter:
    return ProcessRouter(policy).target("engine", engine)


@pytest.fixture
def read(engine: Engine, target: TargetRouter, policy: Any) -> Read:
    def make(decision: Decision = _SHADOW, code: str = "OK") -> Comparison:
        policy.notes.clear()
        call = target.call(_READ, _HAS_S, decision=decision)
        call.begins("unary_unary")
        call.sends(GetAgentSchemaRequest())
        if code == "OK":
            call.receives(b"answer")
        if code == _LATE:
            engine.now_ns += int(_HAS_S * 1e9)
        call.ends(Ending(code, is_local=code != "OK"))
        return policy.wait_for(_READ)[0]

    return make


@pytest.mark.parametrize(
    ("candidate", "control"),
    [([0.025, 0.005], []), ([0.025, 0.025], [0.03]), ([0.025, 0.5, 0.5, 0.01], [0.001, 0.001])],
    ids=["in time when asked again", "the control is late too", "in time in the end"],
)
def test_a_candidate_that_is_late_on_a_busy_machine_has_not_failed(
    engine: Engine, read: Read, candidate: list[float], control: list[float]
) -> None:
    engine.takes = {"shm": candidate, "grpc": control}
    note = read()
    assert note.shadow is not None
    assert (note.shadow.code, note.shadow.items) == ("OK", [b"answer"])
    assert note.shadow.took_us == pytest.approx(25_000, rel=0.01)


@pytest.mark.parametrize("takes", [[99.0], [0.025] * 4], ids=["lost", "late each time"])
def test_a_candidate_that_is_lost_or_late_each_time_has_failed(engine: Engine, read: Read, takes: list[float]) -> None:
    engine.takes["shm"] = takes
    note = read()
    assert note.shadow is not None
    assert note.shadow.code == _LATE
    assert engine.now_ns < 6e9, "it is waited for as its caller's patience says, and no longer"


def test_a_canary_that_was_late_for_its_caller_is_asked_again_too(engine: Engine, read: Read) -> None:
    note = read(_CANARY, _LATE)
    assert (note.shadow, note.why) == (None, "the candidate was late, and is not each time: the machine was busy")
    engine.takes["shm"] = [0.03] * 3
    note = read(_CANARY, _LATE)
    assert note.shadow is not None
    assert (note.primary.code, note.shadow.code) == (_LATE, "OK")


def test_where_both_cannot_reach_the_engine_that_is_compared_and_neither_is_asked_again(
    engine: Engine, read: Read
) -> None:
    engine.gone = True
    note = read(code="UNAVAILABLE")
    assert note.shadow is not None
    assert (note.primary.code, note.shadow.code, note.why) == ("UNAVAILABLE", "UNAVAILABLE", "")
    assert engine.asked == ["shm"]


def test_a_stream_without_a_deadline_whose_primary_goes_on_has_no_late_shadow(
    engine: Engine, target: TargetRouter, policy: Any
) -> None:
    engine.takes["shm"] = [3600.0]
    call = target.call(_READ, decision=_SHADOW)
    call.begins("unary_stream")
    call.sends(GetAgentSchemaRequest())
    until(lambda: not target.shadows._under_way)  # pyright: ignore[reportPrivateUsage]
    call.receives(b"answer")
    call.ends(Ending())
    (note,) = policy.wait_for(_READ)
    assert note.shadow is not None
    assert (note.primary.code, note.shadow.code, note.ended_early) == ("OK", "OK", True)


def test_a_read_that_a_handler_interrupts_where_its_shadow_is_asked_leaves_none_under_way(
    target: TargetRouter, read: Read
) -> None:
    call = target.call(_READ, decision=_SHADOW)
    call.begins("unary_unary")
    call.sends(GetAgentSchemaRequest())
    call.receives(b"answer")
    with interrupted_start(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        call.ends(Ending())
    assert not target.shadows._under_way  # pyright: ignore[reportPrivateUsage]
    assert read().shadow is not None


@pytest.mark.parametrize("decision", [_GRPC, _SHADOW], ids=["alone", "with a shadow"])
def test_a_call_that_cannot_say_how_it_ended_is_noted_as_not_ended(
    target: TargetRouter, policy: Any, caplog: pytest.LogCaptureFixture, decision: Decision
) -> None:
    def broken(within_s: float) -> Ending:
        raise LookupError("no such attribute")

    call = target.call(_READ, decision=decision)
    call.begins("unary_unary")
    call.sends(GetAgentSchemaRequest())
    call.ends_as(broken)
    target.end_later(call)
    target.router.close()
    (note,) = policy.wait_for(_READ)
    assert (note.unfinished, note.shadow, note.why) == (True, None, NOT_ENDED)
    assert f"{_READ}: how the call ended cannot be read" in caplog.text


def test_a_read_that_falls_back_counts_for_both_transports(engine: Engine, policy: Any) -> None:
    counts: list[tuple[str, str]] = []
    target = ProcessRouter(policy).target("engine", engine, lambda *one: counts.append(one))
    call = target.call(_READ, decision=_CANARY)
    call.begins("unary_unary")
    call.sends(GetAgentSchemaRequest())
    assert call.falls_back(Ending("UNAVAILABLE"))
    assert counts == [("shm", _READ), ("grpc", _READ)]
