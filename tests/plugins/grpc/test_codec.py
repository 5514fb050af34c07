"""Dataclasses become protobuf messages and back, and packed bytes arrays; what does not fit is refused."""

import contextlib
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport_grpc.codec import unpack

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import messages as m
from lucky_transport.codec import flatbuffers
from lucky_transport.engine import Buffers
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS, method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.agent_exchange import AgentRows
from lucky_transport_grpc.codec import decode, encode, response_in
from tests.support.message_strategies import messages
from tests.support.scripted_engine import ScriptedEngine

PAIRS: list[tuple[type, Any]] = [
    (kind, getattr(_pb.methods()[row.name], side))
    for row in METHODS
    for side, kind in (("request", row.request), ("response", row.response))
]


def test_the_table_and_the_protocol_have_the_same_methods() -> None:
    """Those of our BatchService that only gRPC needs are no typed methods: elsewhere shared memory does their work."""
    only_grpc = {f"/lucky_transport.v1.BatchService/{name}" for name in ("GetSpec", "Exchange", "Attach")}
    assert {row.name for row in METHODS} == set(_pb.methods()) - only_grpc


def test_messages_have_the_same_fields_on_both_sides() -> None:
    for kind, pb in PAIRS:
        assert [field.name for field in fields_of(kind)] == [field.name for field in pb.DESCRIPTOR.fields], kind


@given(data=st.data())
def test_a_message_survives_the_way_over_the_wire(data: st.DataObject) -> None:
    kind, pb = data.draw(st.sampled_from(PAIRS))
    message = data.draw(messages(kind))
    back = decode(pb.FromString(encode(message, kind, pb).SerializeToString()), kind)
    assert repr(_sorted(back)) == repr(message)


def _sorted(message: Any) -> Any:
    """Protobuf keeps no order of map entries."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.shape == "map":
            setattr(message, field.name, {key: value[key] for key in sorted(value)})
        if field.message is not None and value is not None:
            inner = {"one": lambda v: [v], "list": list, "map": lambda v: list(v.values())}[field.shape](value)
            for each in inner:
                _sorted(each)
    return message


JOINTS = method("MujocoService/GetJointState")


def request_of(short: str) -> tuple[type, Any]:
    """Return the request of a method, as dataclass and as protobuf message."""
    row = method(short)
    return row.request, _pb.methods()[row.name].request


@pytest.mark.parametrize(
    ("given", "travels"), [((7, "front"), "id"), ((0, "front"), "id"), ((None, "front"), "name"), ((None, ""), None)]
)
def test_an_id_counts_more_than_a_name(given: tuple[int | None, str], travels: str | None) -> None:
    kind, pb = request_of("SceneService/GetEntity")
    handle = None if given[0] is None else m.EntityId(given[0])
    message = encode(kind(handle, given[1]), kind, pb)
    assert message.WhichOneof("identifier") == travels
    assert decode(message, kind) == (kind(handle) if travels == "id" else kind(None, given[1]))


@pytest.mark.parametrize(
    ("value", "travels"),
    [
        ({"bool_val": False}, "bool_val"),
        ({"int_val": 0}, "int_val"),
        ({"float_val": 0.0, "trigger": True}, "float_val"),
        ({"vec3_val": m.Vec3()}, "vec3_val"),
        ({"trigger": False}, "trigger"),
        ({}, None),
    ],
)
def test_the_type_of_an_input_travels_even_with_a_zero_in_it(value: dict[str, Any], travels: str | None) -> None:
    kind, pb = m.MotionGraphInputValue, _pb.message_class("hazel.rpc.MotionGraphInputValue")
    message = encode(kind(**value), kind, pb)
    assert message.WhichOneof("value") == travels
    assert decode(message, kind) == kind(**dict(list(value.items())[:1]))


def test_an_enum_comes_back_as_its_member_and_an_unknown_one_as_its_number() -> None:
    kind, pb = request_of("SceneService/SetSimulationMode")
    assert decode(encode(kind(m.SimulationMode.FAST), kind, pb), kind).mode is m.SimulationMode.FAST
    assert decode(encode(kind(77), kind, pb), kind).mode == 77


def test_what_comes_back_are_plain_lists_and_dicts() -> None:
    kind, pb = request_of("BatchService/SetSeeds")
    assert type(decode(encode(kind([1, 2]), kind, pb), kind).seeds) is list
    kind, pb = method("AgentService/Step").response, _pb.methods()["/hazel.rpc.AgentService/Step"].response
    assert type(decode(encode(kind(reward_signals={"alive": 1.0}), kind, pb), kind).reward_signals) is dict


def test_lists_of_numbers_may_be_arrays() -> None:
    pb: Any = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    seeds: Any = np.array([1, 2**64 - 1], np.uint64)
    message: Any = encode(m.SetSeedsRequest(seeds), m.SetSeedsRequest, pb)
    assert list(message.seeds) == [1, 2**64 - 1]


@pytest.mark.parametrize(
    "message",
    [
        m.SetSeedsRequest([-1]),
        m.SetSeedsRequest(cast("Any", ["seven"])),
        m.SetSeedsRequest(cast("Any", None)),
        m.SetSeedsRequest(mask=cast("Any", 7)),
        m.SetResetOptionsRequest(m.SimulationContract(terrain_difficulty=1e39)),
        m.SetResetOptionsRequest(m.SimulationContract(friction_range=[0.5, 1e39])),
        m.SetResetOptionsRequest(m.SimulationContract(terrain_type=cast("Any", None))),
        m.SetResetOptionsRequest(options_json="\ud800"),
        m.SetResetOptionsRequest(options_json=cast("Any", b"{}")),
        m.ListEntitiesRequest(cast("Any", "no")),
        m.GetEntityRequest(m.EntityId(1), "\ud800"),
        m.MotionGraphInputValue(int_val=1, trigger=cast("Any", "no")),
    ],
)
def test_a_value_a_field_cannot_hold_is_refused_in_the_words_of_flatbuffers(message: Any) -> None:
    kind = type(message)
    package = "lucky_transport.v1" if kind.__module__.endswith(".lucky_batch") else "hazel.rpc"
    with pytest.raises((TypeError, ValueError), match=rf"{kind.__name__}\.[a-z_.]+(\[\d\])?: ") as here:
        encode(message, kind, _pb.message_class(f"{package}.{kind.__name__}"))
    with pytest.raises((TypeError, ValueError)) as there:
        flatbuffers.encode(message)
    assert (type(here.value), str(here.value)) == (type(there.value), str(there.value))


def test_another_message_than_the_methods_own_is_refused() -> None:
    pb = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    with pytest.raises(TypeError, match="got TaskContract, expected SetSeedsRequest"):
        encode(m.TaskContract(), m.SetSeedsRequest, pb)


# --- bytes of a response ---


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^3 bytes are no response of /hazel.rpc.MujocoService/GetJointState: "):
        response_in(JOINTS, b"\xff\xff\xff")


@pytest.mark.parametrize(
    "payload",
    [b"\xf8\x3f\x01", b"\x1a\x03\xf8\x3f\x01"],
    ids=["in the message", "in a message within it"],
)
def test_fields_that_this_version_does_not_know_are_not_dropped_in_silence(payload: bytes) -> None:
    with pytest.raises(ValueError, match="has fields that this version does not know"):
        response_in(JOINTS, payload)


@given(st.sampled_from(METHODS), st.binary(max_size=50))
def test_any_bytes_are_a_message_or_refused_in_one_way(row: Any, payload: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert type(response_in(row, payload)) is row.response


# --- packed bytes ---


@given(data=st.binary(max_size=40))
def test_any_other_size_is_refused_with_both_sizes(data: bytes) -> None:
    if len(data) == 24:
        return
    with pytest.raises(RemoteProtocolError, match=rf"rewards: {len(data)} bytes, expected 24"):
        unpack("rewards", data, "float32", (6,), RemoteProtocolError)


def test_any_nonzero_byte_is_true() -> None:
    back = unpack("x", b"\x00\x02\xff", "bool", (3,), SpecError)
    assert back.tobytes() == b"\x00\x01\x01"
    assert not back.flags.writeable


# --- a Step response of an engine of others ---


SPEC = ScriptedEngine(3, obs_size=2).spec
RESPONSE: Any = _pb.message_class("hazel.rpc.StepResponse")


def _response(**changes: Any) -> Any:
    plain = {
        "success": True,
        "observation": {"observations": [0.5, -0.5]},
        "reward_signals": {"alive": 1.0, "centred": -0.25},
        "termination_flags": {"out_of_range": True, "time_out": False},
        "terminated": True,
    }
    return RESPONSE(**plain | changes)


@pytest.fixture
def rows() -> AgentRows:
    return AgentRows(SPEC, Buffers.allocate(SPEC))


def test_terms_the_engine_sends_beside_those_of_the_spec_are_left_out(rows: AgentRows) -> None:
    rows.take_step(0, _response(reward_signals={"alive": 1.0, "centred": 0.0, "energy": 9.0}))
    assert rows.frame().rewards[0] == 1.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"reward_signals": {"alive": 1.0}},
            r"agent_1: the Step carries no term 'centred'; it has rewards \['alive'\]",
        ),
        ({"termination_flags": {}}, "agent_1: the Step carries no term 'out_of_range'"),
        ({"observation": {"observations": [1.0]}}, "agent_1: 1 observation values, expected 2 as in its schema"),
        ({"observation": {}}, "agent_1: 0 observation values"),
    ],
)
def test_what_a_response_lacks_is_named(rows: AgentRows, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        rows.take_step(1, _response(**changes))
