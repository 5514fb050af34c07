"""Calls and streams over a staged transport: who answers, what is noted, and what becomes of their shadows."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_migration.routing as routing
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, EngineFailed, NotReachable, PeerDied, Unimplemented
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    LidarSensorRequest,
    SetEntityTransformRequest,
    SetSimulationModeRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision, Ending, Received, RoutedCall
from lucky_transport.transport import Transport
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.routing import shadows
from lucky_transport_migration.routing.connection import TypedShadows
from lucky_transport_migration.routing.router import ProcessRouter
from tests.migration.conftest import FakePolicy
from tests.planted.changes import connecting, fails
from tests.support.interrupted_moments import interrupted_start
from tests.support.waiting import PATIENCE_S, until
from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

_GRPC, _SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
_CANARY, _SHM = Decision("shm", "grpc", "canary 10%"), Decision("shm", "grpc", "shm")
_COMPLETE = Decision("shm", "", "complete")
_SCHEMA = method("AgentService/GetAgentSchema")
_MODE = method("SceneService/SetSimulationMode")  # changes the world, and toys have no answer to it
_FAILING, _SLOW = method("LidarService/GetLidarBeamCount"), method("LidarService/GetLidarBeamAngles")
_ASKED = GetAgentSchemaRequest("agent_1")
_NOBODY = "inproc://nobody"
_STEPS = {"/hazel.rpc.AgentService/Step": _GRPC}  # they are made over gRPC whatever becomes of calls
New = Callable[..., Any]


@pytest.mark.parametrize("decision", [_GRPC, _SHADOW, _CANARY, _SHM, _COMPLETE])
def test_a_read_is_answered_by_the_authority_and_noted_with_what_the_shadow_answered(
    stage: New, decision: Decision
) -> None:
    policy, staged = stage(decision)
    response = staged.call(_SCHEMA, _ASKED)
    (note,) = policy.wait_for(_SCHEMA.name)
    assert response is note.primary.items[0]
    assert note.primary.transport == decision.primary
    assert (note.shadow.transport if note.shadow else "") == decision.shadow
    assert (note.primary.code, note.decision, note.why) == ("OK", decision, "")
    assert note.shadow is None or (list(note.shadow.items) == [response] and note.request == _ASKED)
    assert note.primary.took_us > 0


def test_an_error_of_the_engine_is_an_answer_like_others(stage: New) -> None:
    policy, staged = stage(_CANARY, faulty=True)
    with pytest.raises(EngineFailed) as raised:
        staged.call(_FAILING, LidarSensorRequest(7))
    (note,) = policy.wait_for(_FAILING.name)
    for outcome, transport in ((note.primary, "shm"), (note.shadow, "grpc")):
        assert (outcome.transport, outcome.code, outcome.details) == (transport, "INTERNAL", str(raised.value))


def test_what_changes_the_world_and_reached_no_candidate_is_made_over_grpc(stage: New) -> None:
    policy, staged = stage(_CANARY, others=_STEPS, candidate=_NOBODY)
    with pytest.raises(Unimplemented):
        staged.call(_MODE, SetSimulationModeRequest())
    (note,) = policy.wait_for(_MODE.name)
    assert (note.primary.transport, note.primary.code, note.shadow.code) == ("grpc", "UNIMPLEMENTED", "UNAVAILABLE")


def test_a_candidate_that_closed_in_order_is_stood_in_for(stage: New) -> None:
    candidate = f"shm://{unique_name()}"
    with api.serve("toy", candidate, num_envs=2):
        policy, staged = stage(_CANARY, others=_STEPS, candidate=candidate)
        staged.call(_SCHEMA, _ASKED)
        policy.wait_for(_SCHEMA.name)
    assert staged.call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"
    before, after = policy.wait_for(_SCHEMA.name, 2)
    assert (before.primary.transport, after.primary.transport) == ("shm", "grpc")
    assert after.shadow.code == "UNAVAILABLE"


def test_a_candidate_that_dies_while_it_changes_the_world_is_the_callers_to_know(stage: New) -> None:
    policy, staged = stage(_SHM, fails(_MODE, PeerDied("planted")), others=_STEPS)
    with pytest.raises(PeerDied):
        staged.call(_MODE, SetSimulationModeRequest())
    (note,) = policy.wait_for(_MODE.name)
    assert (note.primary.transport, note.primary.code) == ("shm", "UNAVAILABLE")


def test_a_candidate_that_was_stood_in_for_is_not_asked_again_as_a_shadow(stage: New) -> None:
    asked = []

    def connect() -> Transport:
        asked.append(threading.current_thread())
        raise NotReachable("nobody there")

    _, staged = stage(_CANARY, others=_STEPS, candidate=connect)
    for _ in range(50):
        staged.call(_SCHEMA, _ASKED)
    staged.close()
    assert asked == [threading.current_thread()]


def test_a_lost_candidate_is_closed_and_connected_again(stage: New, serve: New, monkeypatch: Any) -> None:
    monkeypatch.setattr("lucky_transport_migration.routing.connection._RETRY_S", 0.0)
    endpoint = serve("toy")
    lost = connecting(endpoint, fails(_SCHEMA, PeerDied("planted")))()
    connections = itertools.chain([lambda: lost], itertools.repeat(connecting(endpoint)))
    policy, staged = stage(_CANARY, others=_STEPS, candidate=lambda: next(connections)())
    deadline = Deadline(10)
    staged.call(_SCHEMA, _ASKED)
    while policy.notes[-1].primary.transport != "shm":
        assert not deadline.expired
        staged.call(_SCHEMA, _ASKED)
        policy.wait_for(_SCHEMA.name, len(policy.notes))
    with pytest.raises(ClosedError):
        lost.call(_MODE, SetSimulationModeRequest())


def test_a_complete_method_has_no_way_back(stage: New) -> None:
    _, staged = stage(_COMPLETE, others=_STEPS, candidate=_NOBODY)
    with pytest.raises(NotReachable):
        staged.call(_SCHEMA, _ASKED)


def test_a_program_whose_methods_are_complete_needs_no_grpc(open_staged: New, serve: New) -> None:
    staged = open_staged(FakePolicy(_COMPLETE), _NOBODY, serve("toy"))
    assert staged.call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"
    assert staged.step(staged.actions).seq == 1


def test_a_wrong_request_reaches_nobody(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    with pytest.raises(TypeError, match="expected GetAgentSchemaRequest"):
        staged.call(_SCHEMA, SetEntityTransformRequest())
    assert policy.notes == []


_TELEMETRY = method("TelemetryService/StreamTelemetry")


def test_a_stream_is_compared_as_far_as_its_reader_went(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    stream = staged.stream(_TELEMETRY, StreamTelemetryRequest(target_fps=200))
    taken = [next(stream) for _ in range(5)]
    stream.cancel()
    (note,) = policy.wait_for(_TELEMETRY.name)
    assert note.ended_early
    assert list(note.primary.items) == taken
    assert len(note.shadow.items) >= 5  # it may have been ahead of the reader
    assert note.shadow.code == "OK"


def test_of_an_endless_stream_the_first_items_are_compared(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    with staged.stream(_TELEMETRY, StreamTelemetryRequest(target_fps=2000)) as stream:
        for _ in range(100):
            next(stream)
        (note,) = policy.wait_for(_TELEMETRY.name)
        assert (len(note.primary.items), len(note.shadow.items), note.ended_early) == (64, 64, True)
    assert len(policy.notes) == 1


def test_pictures_shown_in_place_are_not_kept_for_a_comparison(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    with staged.stream(_TELEMETRY, StreamTelemetryRequest(target_fps=500), copy=False) as stream:
        next(stream)
    (note,) = policy.wait_for(_TELEMETRY.name)
    assert (note.decision.shadow, list(note.primary.items)) == ("", [])


# shadows: compared where that is fair, asked again where both may be late or gone, harmless to a caller


def test_a_shadow_that_raises_what_no_transport_may_raise_is_noted_as_a_crash(
    open_staged: New, serve: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = serve("toy")

    def explode(*_: Any) -> Any:
        raise RuntimeError("out of order")

    def connect() -> Transport:
        candidate = api.open_transport(endpoint)
        monkeypatch.setattr(candidate, "call", explode)
        return candidate

    for decision in (_SHADOW, _CANARY):
        policy = FakePolicy(decision, _STEPS)
        for candidate, code in ((connect, "INTERNAL"), (explode, "UNAVAILABLE")):
            assert open_staged(policy, endpoint, candidate).call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"
            note = policy.wait_for(_SCHEMA.name)[-1]
            assert note.primary.transport == "grpc"
            assert (note.shadow.transport, note.shadow.code) == ("shm", code)
            assert "RuntimeError: out of order" in note.shadow.details
            policy.notes.clear()


def test_a_shadow_that_hangs_delays_neither_calls_nor_close(
    open_staged: New, serve: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadows, "_GRACE_S", 0.0)
    endpoint = serve("toy")
    policy = FakePolicy(_SHADOW)
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
    monkeypatch.setattr("time.perf_counter_ns", lambda: engine.now_ns)
    return engine


@pytest.fixture
def policy() -> Any:
    return FakePolicy(_SHADOW)


@pytest.fixture
def target(engine: Engine, policy: Any) -> Any:
    return ProcessRouter(policy).target("engine", engine)


def begun(target: Any, decision: Decision, timeout_s: float | None = None, arity: str = "unary_unary") -> Any:
    """Return a read that is under way."""
    call = target.call(_SCHEMA.name, timeout_s, decision=decision)
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
        return policy.wait_for(_SCHEMA.name)[0]

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
    (note,) = policy.wait_for(_SCHEMA.name)
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
    (note,) = policy.wait_for(_SCHEMA.name)
    assert (note.unfinished, note.shadow, note.why) == (True, None, "it had not ended when the program did")
    assert f"{_SCHEMA.name}: how the call ended cannot be read" in caplog.text


def test_a_read_that_falls_back_counts_for_both_transports(engine: Engine, policy: Any) -> None:
    counts: list[tuple[str, str]] = []
    target = ProcessRouter(policy).target("engine", engine, lambda *one: counts.append(one))
    call = begun(target, _CANARY)
    assert call.falls_back(Ending("UNAVAILABLE"))
    assert counts == [("shm", _SCHEMA.name), ("grpc", _SCHEMA.name)]


# the page

_PAGE = Path(routing.__file__).parent / "README.md"
_WALK = walk_of(_PAGE, "One call with a shadow")


def test_the_walk_is_short_and_its_files_have_what_it_names() -> None:
    check_walk(_PAGE, _WALK)


def test_a_call_with_a_shadow_goes_the_way_that_the_page_shows(open_staged: New, serve: New) -> None:
    recorder, endpoint, policy = Recorder(), serve("toy"), FakePolicy(_SHADOW)

    def call() -> None:
        staged.call(_SCHEMA, _ASKED)
        policy.wait_for(_SCHEMA.name)

    with watched_threads(recorder):
        staged = open_staged(policy, endpoint, endpoint)
        assert recorder.missing(_WALK, call) is None
