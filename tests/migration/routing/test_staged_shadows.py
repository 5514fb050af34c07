"""Shadows of calls over a staged transport: compared where that is fair, and unable to harm a caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.messages import GetAgentSchemaRequest, LidarSensorRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from lucky_transport.transport import Transport
from lucky_transport_migration.routing import shadows
from lucky_transport_migration.routing.connection import TypedShadows
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


def test_a_shadow_is_not_compared_when_the_world_has_changed(stage: New) -> None:
    policy, staged = stage(_GRPC, others={_SLOW.name: _SHADOW}, answer_delay_s=0.2)
    reader = threading.Thread(target=lambda: staged.call(_SLOW, LidarSensorRequest()))
    reader.start()
    time.sleep(0.05)
    staged.step(staged.actions)
    reader.join(PATIENCE_S)
    (note,) = policy.wait_for(_SLOW.name)
    assert (note.shadow, note.why) == (None, "the world changed before both had answered")


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
