"""Calls and streams over a staged transport: who answers, what is noted, who stands in for a candidate that cannot."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_transport_migration.routing as routing
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, Unimplemented
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    LidarSensorRequest,
    SetEntityTransformRequest,
    SetSimulationModeRequest,
    StreamTelemetryRequest,
)
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.transport import Transport
from tests.planted.changes import connecting, fails
from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

_GRPC, _SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
_CANARY, _SHM = Decision("shm", "grpc", "canary 10%"), Decision("shm", "grpc", "shm")
_COMPLETE = Decision("shm", "", "complete")
_SCHEMA = method("AgentService/GetAgentSchema")
_MODE = method("SceneService/SetSimulationMode")  # changes the world, and toys have no answer to it
_FAILING = method("LidarService/GetLidarBeamCount")
_ASKED = GetAgentSchemaRequest("agent_1")
_NOBODY = "inproc://nobody"
_STEPS = {"/hazel.rpc.AgentService/Step": _GRPC}  # they are made over gRPC whatever becomes of calls
New = Callable[..., Any]


def _side_answers(comparison: Any) -> tuple[str, str]:
    shadow = comparison.shadow
    return comparison.primary.transport, "" if shadow is None else shadow.transport


@pytest.mark.parametrize("decision", [_GRPC, _SHADOW, _CANARY, _SHM, _COMPLETE])
def test_a_read_is_answered_by_the_authority_and_noted_with_what_the_shadow_answered(
    stage: New, decision: Decision
) -> None:
    policy, staged = stage(decision)
    response = staged.call(_SCHEMA, _ASKED)
    (note,) = policy.wait_for(_SCHEMA.name)
    assert response is note.primary.items[0]
    assert _side_answers(note) == (decision.primary, decision.shadow)
    assert (note.primary.code, note.decision, note.why) == ("OK", decision, "")
    assert note.shadow is None or (list(note.shadow.items) == [response] and note.request == _ASKED)
    assert note.primary.took_us > 0


def test_an_error_of_the_engine_is_an_answer_like_others(stage: New) -> None:
    policy, staged = stage(_SHM, faulty=True)
    with pytest.raises(EngineFailed) as raised:
        staged.call(_FAILING, LidarSensorRequest(7))
    (note,) = policy.wait_for(_FAILING.name)
    for outcome in (note.primary, note.shadow):
        assert (outcome.code, outcome.details) == ("INTERNAL", str(raised.value))


def test_a_candidate_nobody_can_reach_is_stood_in_for(stage: New) -> None:
    policy, staged = stage(_CANARY, others=_STEPS, candidate=_NOBODY)
    assert [staged.call(_SCHEMA, _ASKED).schema.agent_name for _ in range(2)] == ["agent_1"] * 2
    with pytest.raises(Unimplemented):
        staged.call(_MODE, SetSimulationModeRequest())
    for note in [*policy.wait_for(_SCHEMA.name, 2), *policy.wait_for(_MODE.name)]:
        assert note.decision == Decision("grpc", "shm", "canary 10%")
        code = "UNIMPLEMENTED" if note.method == _MODE.name else "OK"
        assert (note.primary.transport, note.primary.code) == ("grpc", code)
        assert (note.shadow.transport, note.shadow.code) == ("shm", "UNAVAILABLE")


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


def test_a_lost_candidate_is_connected_again(stage: New, serve: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_transport_migration.routing.connection._RETRY_S", 0.0)
    endpoint = serve("toy")
    first = connecting(endpoint, fails(_SCHEMA, PeerDied("planted")))
    connections = itertools.chain([first], itertools.repeat(connecting(endpoint)))
    policy, staged = stage(_CANARY, others=_STEPS, candidate=lambda: next(connections)())
    deadline = Deadline(10)
    staged.call(_SCHEMA, _ASKED)
    while policy.notes[-1].primary.transport != "shm":
        assert not deadline.expired
        staged.call(_SCHEMA, _ASKED)
        policy.wait_for(_SCHEMA.name, len(policy.notes))
        time.sleep(0.01)


def test_a_complete_method_has_no_way_back(stage: New) -> None:
    _, staged = stage(_COMPLETE, others=_STEPS, candidate=_NOBODY)
    with pytest.raises(NotReachable):
        staged.call(_SCHEMA, _ASKED)


def test_a_program_whose_methods_are_complete_needs_no_grpc(open_staged: New, new_policy: New, serve: New) -> None:
    staged = open_staged(new_policy(_COMPLETE), _NOBODY, serve("toy"))
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


_PAGE = Path(routing.__file__).parent / "README.md"
_WALK = walk_of(_PAGE, "One call with a shadow")


def test_the_walk_is_short_and_its_files_have_what_it_names() -> None:
    check_walk(_PAGE, _WALK)


def test_a_call_with_a_shadow_goes_the_way_that_the_page_shows(open_staged: New, new_policy: New, serve: New) -> None:
    recorder, endpoint, policy = Recorder(), serve("toy"), new_policy(_SHADOW)

    def call() -> None:
        staged.call(_SCHEMA, _ASKED)
        policy.wait_for(_SCHEMA.name)

    with watched_threads(recorder):
        staged = open_staged(policy, endpoint, endpoint)
        assert recorder.missing(_WALK, call) is None
