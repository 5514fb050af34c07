"""Stepping over a staged transport: one side per connection, the same trajectory, and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import LocalProtocolError, NotReachable, PeerDied, PeerTimeout
from lucky_transport.messages import ResetAgentRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.routing.routed_call import CHANGES
from lucky_transport_migration.stages.effective_stages import STEP
from tests.planted.changes import connecting, fails
from tests.planted.plant import PlantedTransport

_GRPC, _SHADOW = Decision("grpc", "shm", "grpc"), Decision("grpc", "shm", "shadow")
_SHM, _COMPLETE = Decision("shm", "grpc", "shm"), Decision("shm", "", "complete")
_RESET = method("AgentService/ResetAgent")
_NOBODY = "inproc://nobody"

New = Callable[..., Any]


def _observations(transport: Transport) -> list[bytes]:
    env = VectorEnv(transport)
    seen = [env.reset(seed=3)[0].tobytes()]
    actions = np.full_like(transport.actions, 0.25)
    return seen + [env.step(actions)[0].tobytes() for _ in range(10)]


@pytest.mark.parametrize("decision", [_SHADOW, _SHM, _COMPLETE])
def test_a_trajectory_is_the_same_at_every_stage(
    open_staged: New, new_policy: New, serve: New, decision: Decision
) -> None:
    control, candidate = serve("toy", seed=1), serve("toy", seed=1)
    with api.open_transport(serve("toy", seed=1)) as plain:
        expected = _observations(plain)
    assert _observations(open_staged(new_policy(decision), control, candidate)) == expected


def test_who_steps_also_resets_and_seeds_whatever_their_own_rows_say(
    open_staged: New, new_policy: New, serve: New
) -> None:
    endpoint = serve("toy")
    policy = new_policy(_GRPC, {STEP: _SHM, _RESET.name: _GRPC})
    staged = open_staged(policy, _NOBODY, endpoint)
    staged.call(_RESET, ResetAgentRequest("agent_0"))
    (note,) = policy.wait_for(_RESET.name)
    assert note.primary.transport == "shm"


def test_steps_are_counted_with_their_times_and_never_doubled(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    for _ in range(130):
        staged.step(staged.actions)
    staged.send(staged.actions)
    assert staged.recv().seq == 131
    notes = policy.of(STEP)
    assert len(notes) == 3  # one in 64
    assert {(note.primary.transport, note.primary.code, note.shadow) for note in notes} == {("grpc", "OK", None)}
    assert all(note.primary.took_us > 0 and note.why == CHANGES for note in notes)


def _step(staged: Transport) -> None:
    staged.step(staged.actions)


def _send_and_receive(staged: Transport) -> None:
    staged.send(staged.actions)
    staged.recv()


@pytest.mark.parametrize("step", [_step, _send_and_receive])
def test_a_side_that_dies_while_it_steps_is_noted_and_the_drivers_to_know(
    open_staged: New, new_policy: New, serve: New, step: Callable[[Transport], None]
) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHM)
    staged = open_staged(policy, endpoint, connecting(endpoint, fails(2, PeerDied("planted"))))
    step(staged)
    with pytest.raises(PeerDied):
        step(staged)
    assert [(note.primary.transport, note.primary.code) for note in policy.of(STEP)] == [
        ("shm", "OK"),
        ("shm", "UNAVAILABLE"),
    ]


def test_a_candidate_that_cannot_be_reached_leaves_the_steps_to_the_control(
    open_staged: New, new_policy: New, serve: New
) -> None:
    policy = new_policy(_SHM)
    staged = open_staged(policy, serve("toy"), _NOBODY)
    assert staged.step(staged.actions).seq == 1
    failed, stepped = policy.of(STEP)
    assert (failed.primary.transport, failed.shadow.transport, failed.shadow.code) == ("grpc", "shm", "UNAVAILABLE")
    assert (stepped.primary.transport, stepped.shadow) == ("grpc", None)


def test_at_complete_a_candidate_that_cannot_be_reached_is_an_error(
    open_staged: New, new_policy: New, serve: New
) -> None:
    with pytest.raises(NotReachable):
        open_staged(new_policy(_COMPLETE), serve("toy"), _NOBODY)


def test_a_step_that_missed_its_deadline_can_be_received_later(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHM)

    class Late(PlantedTransport):
        def recv(self, deadline: Deadline | None = None) -> Frame:
            if deadline is not None and deadline.timeout_s < 1:
                raise deadline_error("the step", deadline.timeout_s, self.name)
            return super().recv(deadline)

    staged = open_staged(policy, endpoint, connecting(endpoint, Late))
    with pytest.raises(PeerTimeout):
        staged.step(staged.actions, deadline=Deadline(0.05))
    with pytest.raises(LocalProtocolError):
        staged.send(staged.actions)
    assert staged.recv(Deadline(5)).seq == 1
    assert [note.primary.code for note in policy.of(STEP)] == ["DEADLINE_EXCEEDED", "OK"]


def test_wrong_actions_leave_the_next_step_as_it_was(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    staged = open_staged(new_policy(_SHADOW), endpoint, endpoint)
    for wrong in (staged.step, staged.send):
        with pytest.raises(ValueError, match="shape"):
            wrong(np.zeros((7, 7), np.float32))
    assert staged.step(np.full_like(staged.actions, 100.0)).seq == 1
    assert staged.out_of_bounds == staged.actions.size
