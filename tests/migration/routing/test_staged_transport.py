"""A staged transport keeps the contract of transports, steps on one side, and is closed without a trace.

The contract's control is the engine without a wire, its candidate shared memory, both of one engine.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.call import deadline_error
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    LocalProtocolError,
    NotReachable,
    PeerDied,
    PeerTimeout,
    Unimplemented,
)
from lucky_transport.messages import GetAgentSchemaRequest, ResetAgentRequest, StreamTelemetryRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.services_contract import ServicesContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities, Frame, Transport
from lucky_transport_migration.routing import staged_transport
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.routed_call import CHANGES
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.migration.conftest import FakePolicy
from tests.planted.changes import fails
from tests.planted.plant import PlantedTransport
from tests.support.waiting import in_a_child, until

STEP = "/hazel.rpc.AgentService/Step"


@cache
def _router(primary: str, shadow: str) -> ProcessRouter:
    return ProcessRouter(FakePolicy(Decision(primary, shadow, "test")))


class _Staged(TransportSuite):
    declares = Capabilities(zero_copy=True, streams=True)
    primary, shadow = "grpc", "shm"

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        name = unique_name()
        endpoints = [f"inproc://{name}", f"shm://{name}"]
        with api.serve(engine, endpoints, num_envs=num_envs, options=options) as serving:
            control, candidate = map(str, serving.endpoints)
            yield Endpoint("staged", "", (("control", control), ("candidate", candidate)))

    def change_services(self, endpoint: Endpoint, **changes: Any) -> None:
        super().change_services(Endpoint.parse(endpoint.option("candidate")), **changes)

    def connect(self, endpoint: Endpoint) -> Transport:
        control = RoutedConnection("grpc", partial(api.open_transport, endpoint.option("control")))
        candidate = RoutedConnection("shm", partial(api.open_transport, endpoint.option("candidate")))
        return StagedTransport(control, candidate, _router(self.primary, self.shadow))


class TestCandidateAnswersWithAShadow(_Staged, TransportContract):
    primary, shadow = "shm", "grpc"


@pytest.mark.exhaustive
class TestControlAnswersWithAShadow(_Staged, ServicesContract, StreamsContract):
    has_deadlines = False  # the engine runs in the client's own thread


_GRPC, _SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
_COMPLETE = Decision("shm", "", "complete")
_SCHEMA = method("AgentService/GetAgentSchema")
_TELEMETRY = method("TelemetryService/StreamTelemetry")
_ASKED = GetAgentSchemaRequest("agent_1")
New = Callable[..., Any]


def test_nothing_can_be_served_at_a_staged_endpoint() -> None:
    with pytest.raises(Unimplemented, match="serve the engine at both"):
        api.serve("toy", "staged:")


def test_a_forked_child_is_told_to_connect_again(stage: New) -> None:
    policy, staged = stage(_SHADOW)
    staged.call(_SCHEMA, _ASKED)
    policy.wait_for(_SCHEMA.name)

    def call() -> None:
        with staged, pytest.raises(ClosedError, match=r"connect again after fork\(\)"):
            staged.call(_SCHEMA, _ASKED)

    assert in_a_child(call)
    assert staged.call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"


def test_closing_ends_threads_and_is_idempotent(open_staged: New, serve: New) -> None:
    endpoint = serve("toy")
    before = set(threading.enumerate())
    policy = FakePolicy(_SHADOW)
    staged = open_staged(policy, endpoint, endpoint)
    staged.call(_SCHEMA, _ASKED)
    with staged.stream(_TELEMETRY, StreamTelemetryRequest(target_fps=500)) as stream:
        next(stream)
    pool = {thread for thread in threading.enumerate() if thread.name == "shadow calls"}  # the router's
    staged.close()
    staged.close()
    # A timer that logs a long wait ends a moment after it is cancelled.
    until(lambda: set(threading.enumerate()) <= before | pool)
    with pytest.raises(ClosedError):
        staged.call(_SCHEMA, _ASKED)
    until(lambda: len(policy.notes) == 2)


def test_a_program_opens_it_by_the_file_of_stages(serve: New, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, policy = serve("toy"), FakePolicy(_GRPC)
    (tmp_path / "lucky_transport.toml").write_text(f'[stages]\ncontrol = "{endpoint}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(staged_transport, "process_router", lambda: ProcessRouter(policy))
    for url in ("staged:", f"staged:?control={endpoint}"):
        with api.connect(url) as client:
            schema = client.agent.get_agent_schema(agent_name="agent_1").schema
            assert schema is not None
            assert schema.agent_name == "agent_1"
    policy.default = _COMPLETE
    with pytest.raises(ConfigError, match=r"\[stages\] has no candidate; write there candidate = 'shm://demo'"):
        api.connect("staged:")


_SHM = Decision("shm", "grpc", "shm")
_RESET = method("AgentService/ResetAgent")
_NOBODY = "inproc://nobody"


def _observations(transport: Transport) -> list[bytes]:
    env = VectorEnv(transport)
    seen = [env.reset(seed=3)[0].tobytes()]
    actions = np.full_like(transport.actions, 0.25)
    return seen + [env.step(actions)[0].tobytes() for _ in range(10)]


@pytest.mark.parametrize("decision", [_SHADOW, _SHM, _COMPLETE])
def test_a_trajectory_is_the_same_at_every_stage(open_staged: New, serve: New, decision: Decision) -> None:
    control, candidate = serve("toy", seed=1), serve("toy", seed=1)
    with api.open_transport(serve("toy", seed=1)) as plain:
        expected = _observations(plain)
    assert _observations(open_staged(FakePolicy(decision), control, candidate)) == expected


def test_who_steps_also_resets_and_seeds_whatever_their_own_rows_say(open_staged: New, serve: New) -> None:
    endpoint = serve("toy")
    at_grpc = Decision("grpc", "shm", "grpc")
    policy = FakePolicy(at_grpc, {STEP: _SHM, _RESET.name: at_grpc})
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


@pytest.mark.parametrize("at_once", [True, False])
def test_a_side_that_dies_while_it_steps_is_noted_and_the_drivers_to_know(stage: New, at_once: bool) -> None:
    policy, staged = stage(_SHM, fails(2, PeerDied("planted")))

    def step() -> Frame:
        if at_once:
            return staged.step(staged.actions)
        staged.send(staged.actions)
        return staged.recv()

    step()
    with pytest.raises(PeerDied):
        step()
    assert [(note.primary.transport, note.primary.code) for note in policy.of(STEP)] == [
        ("shm", "OK"),
        ("shm", "UNAVAILABLE"),
    ]


def test_a_candidate_that_cannot_be_reached_leaves_the_steps_to_the_control(stage: New) -> None:
    policy, staged = stage(_SHM, candidate=_NOBODY)
    assert staged.step(staged.actions).seq == 1
    failed, stepped = policy.of(STEP)
    assert (failed.primary.transport, failed.shadow.transport, failed.shadow.code) == ("grpc", "shm", "UNAVAILABLE")
    assert (stepped.primary.transport, stepped.shadow) == ("grpc", None)


def test_at_complete_a_candidate_that_cannot_be_reached_is_an_error(stage: New) -> None:
    with pytest.raises(NotReachable):
        stage(_COMPLETE, candidate=_NOBODY)


def test_a_step_that_missed_its_deadline_can_be_received_later(stage: New) -> None:
    class Late(PlantedTransport):
        def recv(self, deadline: Deadline | None = None) -> Frame:
            if deadline is not None and deadline.timeout_s < 1:
                raise deadline_error("the step", deadline.timeout_s, self.name)
            return super().recv(deadline)

    policy, staged = stage(_SHM, Late)
    with pytest.raises(PeerTimeout):
        staged.step(staged.actions, deadline=Deadline(0.05))
    with pytest.raises(LocalProtocolError):
        staged.send(staged.actions)
    assert staged.recv(Deadline(5)).seq == 1
    assert [note.primary.code for note in policy.of(STEP)] == ["DEADLINE_EXCEEDED", "OK"]


def test_wrong_actions_leave_the_next_step_as_it_was(stage: New) -> None:
    _, staged = stage(_SHADOW)
    for wrong in (staged.step, staged.send):
        with pytest.raises(ValueError, match="shape"):
            wrong(np.zeros((7, 7), np.float32))
    assert staged.step(np.full_like(staged.actions, 100.0)).seq == 1
    assert staged.out_of_bounds == staged.actions.size
