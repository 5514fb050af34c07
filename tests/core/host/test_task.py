"""What a host answers for its engine: the schema of an agent, the manifest, and contracts that are negotiated."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lucky_transport.engine import Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    NegotiateTaskRequest,
    ObservationContract,
    ObservationTermRequest,
    RewardContract,
    RewardTermRequest,
    TaskContract,
)
from lucky_transport.messages.methods import method

SCHEMA = method("AgentService/GetAgentSchema")


MANIFEST = method("AgentService/GetCapabilityManifest")


VALIDATE = method("AgentService/ValidateTaskContract")


NEGOTIATE = method("AgentService/NegotiateTask")


@pytest.mark.parametrize(("name", "found"), [("", "agent_0"), ("agent_2", "agent_2")])
def test_the_schema_tells_sizes_and_names_of_an_agent(host: Host, name: str, found: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.agent_name, schema.observation_size, schema.action_size) == (found, 8, 2)
    assert schema.action_names == ["a_0", "a_1"]


@pytest.mark.parametrize("name", ["agent_3", "agent_x", "robot", "agent_-1", "agent_٣"])
def test_the_schema_of_an_unknown_agent_has_no_sizes(host: Host, name: str) -> None:
    schema = host.call(SCHEMA, GetAgentSchemaRequest(name)).schema
    assert (schema.observation_size, schema.action_size) == (0, 0)


def test_the_manifest_lists_what_a_contract_may_ask_for(host: Host) -> None:
    manifest = host.call(MANIFEST, MANIFEST.request()).manifest
    assert [term.name for term in manifest.rewards] == ["alive", "centred"]
    assert [term.name for term in manifest.terminations] == ["out_of_range", "time_out"]
    assert manifest.robot_info.name == "toy"


def _contract(reward: str, observation: str = "observation", optional: str = "observation") -> TaskContract:
    return TaskContract(
        task_id="walk",
        observations=ObservationContract(
            required=[ObservationTermRequest(name=observation)], optional=[ObservationTermRequest(name=optional)]
        ),
        rewards=RewardContract(engine_terms=[RewardTermRequest(name=reward)]),
    )


def test_a_contract_that_fits_is_negotiated(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("alive")))
    assert answer.success
    assert answer.session.reward_terms == ["alive"]
    assert [(slot.offset, slot.size) for slot in answer.session.observation_layout] == [(0, 8)]


def test_a_contract_that_does_not_fit_is_refused_with_every_finding_and_the_nearest_name(host: Host) -> None:
    answer = host.call(NEGOTIATE, NegotiateTaskRequest(_contract("aliv", observation="camera")))
    assert not answer.success
    assert "unknown reward term 'aliv'; the engine offers: alive, centred; did you mean 'alive'?" in answer.message
    assert "unknown observation term 'camera'" in answer.message


def test_an_unknown_optional_term_is_a_warning(host: Host) -> None:
    result = host.call(VALIDATE, VALIDATE.request(_contract("alive", optional="touch"))).result
    assert (result.resolved_optionals, result.unresolved_optionals) == ([], ["touch"])
    assert result.is_valid
    assert [warning.term_name for warning in result.warnings] == ["touch"]


def test_an_engine_may_replace_what_the_host_would_answer() -> None:
    class Own(ToyEngine):
        @property
        def services(self) -> Mapping[str, Handler]:
            return {SCHEMA.name: lambda request: "its own"}

    assert Host(Own(1)).call(SCHEMA, GetAgentSchemaRequest()) == "its own"
