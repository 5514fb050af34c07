"""Typed service clients: a row in the table of methods is a callable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ClosedError, Unimplemented
from lucky_transport.messages.methods import METHODS, Method
from lucky_transport.services import Client


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a toy engine with two envs."""
    with api.serve("toy", "inproc://services", num_envs=2), api.connect("inproc://services") as client:
        yield client


def test_every_method_is_an_attribute_of_its_service(client: Client) -> None:
    offered = {
        f"{service}.{name}" for service in ("agent", "mujoco", "batch") for name in dir(getattr(client, service))
    }
    assert offered == {
        f"{row.service.rpartition('.')[2].removesuffix('Service').lower()}.{row.python_name}" for row in METHODS
    }


def test_a_call_takes_the_requests_fields_and_returns_the_response(client: Client) -> None:
    assert client.agent.get_agent_schema(agent_name="agent_1").schema.agent_name == "agent_1"
    assert client.batch.set_seeds(seeds=[1, 2]).success


def test_a_timeout_becomes_the_deadline_of_that_call(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Deadline | None] = []

    def call(method: Method, request: Any, deadline: Deadline | None = None) -> None:
        seen.append(deadline)

    monkeypatch.setattr(client.transport, "call", call)
    client.agent.get_agent_schema(timeout_s=3.0)
    client.agent.get_agent_schema()
    assert seen[0] is not None
    assert seen[0].timeout_s == 3.0
    assert seen[1] is None


def test_an_unknown_service_method_or_field_is_refused_by_name(client: Client) -> None:
    with pytest.raises(AttributeError, match="no service 'agents'; there are: agent, batch, mujoco"):
        _ = client.agents
    with pytest.raises(AttributeError, match="batch has no method 'set_seed'; it has: set_reset_options, set_seeds"):
        _ = client.batch.set_seed
    with pytest.raises(TypeError, match="agent_nmae"):
        client.agent.get_agent_schema(agent_nmae="agent_0")


def test_what_the_engine_lacks_is_unimplemented(client: Client) -> None:
    with pytest.raises(Unimplemented):
        client.mujoco.get_joint_state()


def test_a_client_shows_what_it_has(client: Client) -> None:
    assert dir(client) == ["agent", "batch", "close", "mujoco", "spec", "transport"]
    assert client.spec.num_envs == 2


def test_a_closed_client_refuses_to_call(client: Client) -> None:
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="connect again"):
        client.agent.get_agent_schema()
