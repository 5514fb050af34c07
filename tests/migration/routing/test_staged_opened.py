"""A staged transport from its opening to its end: by the file of stages, across a fork, under a broken policy."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.errors import ClosedError, ConfigError, Unimplemented
from lucky_transport.messages import GetAgentSchemaRequest, StreamTelemetryRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.routing import staged_transport
from lucky_transport_migration.routing.router import ProcessRouter
from tests.support.waiting import until

_GRPC, _SHADOW = Decision("grpc", "", "grpc"), Decision("grpc", "shm", "shadow")
_COMPLETE = Decision("shm", "", "complete")

_SCHEMA = method("AgentService/GetAgentSchema")
_TELEMETRY = method("TelemetryService/StreamTelemetry")
_ASKED = GetAgentSchemaRequest("agent_1")

New = Callable[..., Any]


def test_nothing_can_be_served_at_a_staged_endpoint() -> None:
    with pytest.raises(Unimplemented, match="serve the engine at both"):
        api.serve("toy", "staged:")


def test_a_forked_child_is_told_to_connect_again(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    staged = open_staged(policy, endpoint, endpoint)
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


def test_a_program_opens_it_by_the_file_of_stages(serve: New, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = serve("toy")
    (tmp_path / "lucky_transport.toml").write_text(f'[stages]\ncontrol = "{endpoint}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(staged_transport, "process_router", lambda: ProcessRouter(_Noteless()))
    for url in ("staged:", f"staged:?control={endpoint}"):
        with api.connect(url) as client:
            schema = client.agent.get_agent_schema(agent_name="agent_1").schema
            assert schema is not None
            assert schema.agent_name == "agent_1"
    monkeypatch.setattr(_Noteless, "decision", _COMPLETE)
    with pytest.raises(ConfigError, match=r"\[stages\] has no candidate; write there candidate = 'shm://demo'"):
        api.connect("staged:")


class _Noteless:
    decision = _GRPC

    def decide(self, method: str) -> Decision:
        return self.decision

    def digest(self, method: str, decision: Decision) -> None:
        pass

    def note(self, comparison: Comparison) -> None:
        assert comparison.method

    def close(self) -> None:
        pass
