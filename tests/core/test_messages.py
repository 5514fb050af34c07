"""One table of methods, one definition of each message."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import pytest

from lucky_transport.errors import UnknownName
from lucky_transport.messages.agent import GetAgentSchemaResponse, SimulationContract
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import BY_ID, BY_NAME, METHODS, Effect, Method, Runs, method

#: Ids are stable for ever: a changed row here breaks every deployed peer.
IDS = {
    1: "/hazel.rpc.AgentService/GetAgentSchema",
    2: "/hazel.rpc.AgentService/ResetAgent",
    4: "/hazel.rpc.AgentService/SetActionGroup",
    6: "/hazel.rpc.AgentService/GetCapabilityManifest",
    7: "/hazel.rpc.AgentService/ValidateTaskContract",
    8: "/hazel.rpc.AgentService/NegotiateTask",
    40: "/hazel.rpc.MujocoService/GetJointState",
    41: "/hazel.rpc.MujocoService/GetMujocoInfo",
    200: "/lucky_transport.v1.BatchService/SetSeeds",
    201: "/lucky_transport.v1.BatchService/SetResetOptions",
}


def test_known_ids_never_change() -> None:
    assert {number: BY_ID[number].name for number in IDS if number in BY_ID} == IDS


def test_ids_and_names_are_unique() -> None:
    assert len({row.id for row in METHODS}) == len({row.name for row in METHODS}) == len(METHODS)
    assert {row.name: row for row in METHODS} == BY_NAME


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.name)
def test_every_method_has_messages_that_codecs_know_and_defaults_for_all_fields(row: Method) -> None:
    for message in (row.request, row.response):
        assert is_dataclass(message)
        assert {field.name for field in fields_of(message)} == {field.name for field in fields(message)}
        assert message() == message()
        assert not hasattr(message(), "__dict__"), "messages have slots"


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.name)
def test_what_changes_the_world_runs_between_steps(row: Method) -> None:
    assert row.effect is not Effect.WORLD or row.runs is Runs.ENGINE


def test_a_methods_names_follow_from_its_full_name() -> None:
    row = BY_NAME["/hazel.rpc.AgentService/GetAgentSchema"]
    assert (row.service, row.python_name) == ("hazel.rpc.AgentService", "get_agent_schema")


def test_a_method_is_found_by_full_and_by_short_name() -> None:
    assert method("/hazel.rpc.MujocoService/GetMujocoInfo") is method("MujocoService/GetMujocoInfo")


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no method 'Nope/Nope'; known: /hazel\.rpc\.AgentService/GetAgentSchema"):
        method("Nope/Nope")


def test_the_simulation_contract_has_the_nineteen_legacy_fields_in_order() -> None:
    names = [field.name for field in fields_of(SimulationContract)]
    assert len(names) == 19
    assert names[0] == "pose_position_noise"
    assert names[-1] == "vel_command_standing_probability"


def test_fields_are_read_from_annotations() -> None:
    by_name = {field.name: field for field in fields_of(SimulationContract)}
    assert by_name["friction_range"] == Field("friction_range", "f32", "list")
    assert by_name["terrain_type"] == Field("terrain_type", "str", "one")
    (schema,) = fields_of(GetAgentSchemaResponse)
    assert (schema.kind, schema.shape) == ("message", "one")
    assert schema.message is not None
    assert schema.message.__name__ == "AgentSchema"


def test_a_type_no_codec_knows_is_refused_where_it_stands() -> None:
    @dataclass
    class Odd:
        when: complex = 0j

    with pytest.raises(TypeError, match=r"Odd\.when: no codec knows the type"):
        fields_of(Odd)
