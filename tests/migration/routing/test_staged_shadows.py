"""Shadows of calls: compared where that is fair, asked again where both may be late or gone, harmless to a caller."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.messages import GetAgentSchemaRequest, LidarSensorRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision, Ending, Received, RoutedCall
from lucky_transport.transport import Transport
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.routing import shadows
from lucky_transport_migration.routing.connection import TypedShadows
from lucky_transport_migration.routing.router import ProcessRouter
from tests.support.interrupted_moments import interrupted_start
from tests.support.waiting import PATIENCE_S, until

_GRPC, _SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
_CANARY = Decision("shm", "grpc", "canary 10%")

_SCHEMA = method("AgentService/GetAgentSchema")
_SLOW = method("LidarService/GetLidarBeamAngles")
_ASKED = GetAgentSchemaRequest("agent_1")

New = Callable[..., Any]


def test_a_shadow_that_raises_what_no_transport_may_raise_is_noted_as_a_crash(
    open_staged: New, new_policy: New, serve: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = serve("toy")

    def explode(*_: Any) -> Any:
        raise RuntimeError("out of order")

    def connect() -> Transport:
        candidate = api.open_transport(endpoint)
        monkeypatch.setattr(candidate, "call", explode)
        return candidate

    for decision in (_SHADOW, _CANARY):
        policy = new_policy(decision, {"/hazel.rpc.AgentService/Step": _GRPC})
        for candidate, code in ((connect, "INTERNAL"), (explode, "UNAVAILABLE")):
            assert open_staged(policy, endpoint, candidate).call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"
            note = policy.wait_for(_SCHEMA.name)[-1]
            assert note.primary.transport == "grpc"
            assert (note.shadow.transport, note.shadow.code) == ("shm", code)
            assert "RuntimeError: out of order" in note.shadow.details
            policy.notes.clear()


def test_a_shadow_that_hangs_delays_neither_calls_nor_close(
    open_staged: New, new_policy: New, serve: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadows, "_GRACE_S", 0.0)
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    release = threading.Event()

    def hang() -> Transport:
        release.wait(PATIENCE_S)
        return api.open_transport(endpoint)

    staged = open_staged(policy, endpoint, hang)
    for _ in range(200):
        staged.call(_SCHEMA, _ASKED)
    dropped = policy.wait_for(_SCHEMA.name, 200 - 64)  # four hang, 60 wait for them
    assert {note.why for note in dropped} == {"too many shadows are under way"}
    staged.close()
    staged.close()
    until(lambda: staged._target.shadows._is_closed)
    release.set()
    notes = policy.wait_for(_SCHEMA.name, 200)
    assert {note.why for note in notes} == {
        "too many shadows are under way",
        "the channel was closed before the shadow had answered",
    }


def test_a_shadow_that_had_to_wait_its_turn_is_not_late(stage: New, serve: New) -> None:
    policy, staged = stage(_SHADOW, candidate=serve("toy", answer_delay_s=0.2), answer_delay_s=0.001)
    for _ in range(8):  # four at a time: the last four begin after the first ones' deadline
        staged.call(_SLOW, LidarSensorRequest(), Deadline(0.3))
    notes = policy.wait_for(_SLOW.name, 8)
    assert [note.shadow.code for note in notes] == ["OK"] * 8


def test_equal_answers_count_no_more_than_different_ones_when_a_step_spans_the_read(stage: New) -> None:
    """The step is under way when the read begins, and ends after both have answered."""
    policy, staged = stage(_GRPC, others={_SCHEMA.name: _SHADOW})
    staged.send(staged.actions)
    staged.call(_SCHEMA, _ASKED)
    (note,) = policy.wait_for(_SCHEMA.name)
    assert (note.shadow, note.why) == (None, "the world changed before both had answered")
    staged.recv()
    staged.call(_SCHEMA, _ASKED)
    assert policy.wait_for(_SCHEMA.name, 2)[-1].shadow is not None


def test_a_shadow_that_breaks_in_our_own_code_is_noted_and_its_thread_goes_on(
    stage: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, staged = stage(_SHADOW)

    def broken(*_: Any) -> Any:
        raise KeyError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(TypedShadows, "ask", broken)
        for _ in range(6):  # more than there are threads
            staged.call(_SCHEMA, _ASKED)
        notes = policy.wait_for(_SCHEMA.name, 6)
    assert {note.shadow.details for note in notes} == {"KeyError: 'a fault of ours'"}
    staged.call(_SCHEMA, _ASKED)
    assert policy.wait_for(_SCHEMA.name, 7)[-1].shadow.code == "OK"


_READ = method("AgentService/GetAgentSchema").name
_LATE = "DEADLINE_EXCEEDED"
_HAS_S = 0.02

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
def target(engine: Engine, policy: Any) -> Any:
    return ProcessRouter(policy).target("engine", engine)


def begun(target: Any, decision: Decision, timeout_s: float | None = None, arity: str = "unary_unary") -> Any:
    """Return a read that is under way."""
    call = target.call(_READ, timeout_s, decision=decision)
    call.begins(arity)
    call.sends(GetAgentSchemaRequest())
    return call


@pytest.fixture
def read(engine: Engine, target: Any, policy: Any) -> Read:
    def make(decision: Decision = _SHADOW, code: str = "OK") -> Comparison:
        policy.notes.clear()
        call = begun(target, decision, _HAS_S)
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
    engine: Engine, target: Any, policy: Any
) -> None:
    engine.takes["shm"] = [3600.0]
    call = begun(target, _SHADOW, arity="unary_stream")
    until(lambda: not target.shadows._under_way)  # pyright: ignore[reportPrivateUsage]
    call.receives(b"answer")
    call.ends(Ending())
    (note,) = policy.wait_for(_READ)
    assert note.shadow is not None
    assert (note.primary.code, note.shadow.code, note.ended_early) == ("OK", "OK", True)


def test_a_read_that_a_handler_interrupts_where_its_shadow_is_asked_leaves_none_under_way(
    target: Any, read: Read
) -> None:
    call = begun(target, _SHADOW)
    call.receives(b"answer")
    with interrupted_start(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        call.ends(Ending())
    assert not target.shadows._under_way  # pyright: ignore[reportPrivateUsage]
    assert read().shadow is not None


@pytest.mark.parametrize("decision", [_GRPC, _SHADOW], ids=["alone", "with a shadow"])
def test_a_call_that_cannot_say_how_it_ended_is_noted_as_not_ended(
    target: Any, policy: Any, caplog: pytest.LogCaptureFixture, decision: Decision
) -> None:
    def broken(within_s: float) -> Ending:
        raise LookupError("no such attribute")

    call = begun(target, decision)
    call.ends_as(broken)
    target.end_later(call)
    target.router.close()
    (note,) = policy.wait_for(_READ)
    assert (note.unfinished, note.shadow, note.why) == (True, None, "it had not ended when the program did")
    assert f"{_READ}: how the call ended cannot be read" in caplog.text


def test_a_read_that_falls_back_counts_for_both_transports(engine: Engine, policy: Any) -> None:
    counts: list[tuple[str, str]] = []
    target = ProcessRouter(policy).target("engine", engine, lambda *one: counts.append(one))
    call = begun(target, _CANARY)
    assert call.falls_back(Ending("UNAVAILABLE"))
    assert counts == [("shm", _READ), ("grpc", _READ)]
