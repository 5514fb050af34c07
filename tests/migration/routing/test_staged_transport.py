"""A staged transport keeps the contract of transports; it is opened by the file of stages, and closed without a trace.

The contract's control is the engine without a wire, its candidate shared memory, both of one engine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Engine
from lucky_transport.errors import ClosedError, ConfigError, Unimplemented
from lucky_transport.messages import GetAgentSchemaRequest, StreamTelemetryRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.services_contract import ServicesContract
from lucky_transport.testing.streams_contract import StreamsContract
from lucky_transport.testing.suite import TransportSuite
from lucky_transport.transport import Capabilities, Transport
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.routing import staged_transport
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import ProcessRouter
from lucky_transport_migration.routing.staged_transport import StagedTransport
from tests.support.fixtures.migration_routing import FakePolicy
from tests.support.waiting import until


@cache
def _router(primary: str, shadow: str) -> ProcessRouter:
    return ProcessRouter(FakePolicy(Decision(primary, shadow, "test")))


class _Staged(TransportSuite):
    declares = Capabilities(zero_copy=True, streams=True)
    primary, shadow = CONTROL, CANDIDATE

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
        control = RoutedConnection(CONTROL, partial(api.open_transport, endpoint.option("control")))
        candidate = RoutedConnection(CANDIDATE, partial(api.open_transport, endpoint.option("candidate")))
        return StagedTransport(control, candidate, _router(self.primary, self.shadow))


class TestCandidateAnswersWithAShadow(_Staged, TransportContract):
    primary, shadow = CANDIDATE, CONTROL


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
    pid = os.fork()
    if pid == 0:
        try:
            staged.call(_SCHEMA, _ASKED)
        except ClosedError as error:
            staged.close()
            os._exit(0 if "connect again after fork()" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert staged.call(_SCHEMA, _ASKED).schema.agent_name == "agent_1"


def test_closing_ends_threads_and_is_idempotent(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    before = set(threading.enumerate())
    policy = new_policy(_SHADOW)
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


def test_a_program_opens_it_by_the_file_of_stages(
    new_policy: New, serve: New, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, policy = serve("toy"), new_policy(_GRPC)
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
