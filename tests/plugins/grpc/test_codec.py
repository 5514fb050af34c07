"""Dataclasses and protobuf say the same, for every message of every method, derived and not written by hand."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[grpc]'")

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from lucky_transport.codec import flatbuffers
from lucky_transport.messages import (
    EntityId,
    GetEntityRequest,
    JointGainOverride,
    ListEntitiesRequest,
    MotionGraphInputValue,
    ResetAgentRequest,
    SetResetOptionsRequest,
    SetSeedsRequest,
    SimulationContract,
    SimulationMode,
    TaskContract,
    Vec3,
)
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport_grpc import _pb
from lucky_transport_grpc.codec import decode, encode
from tests.support.message_strategies import messages

PAIRS: list[tuple[type, Any]] = [
    (kind, getattr(_pb.methods()[row.name], side))
    for row in METHODS
    for side, kind in (("request", row.request), ("response", row.response))
]
KINDS = {"f32": "FLOAT", "f64": "DOUBLE", "i32": "INT32", "u32": "UINT32", "u64": "UINT64", "bool": "BOOL"}
KINDS |= {"str": "STRING", "bytes": "BYTES", "message": "MESSAGE", "struct": "MESSAGE"}
#: What protobuf's names of an enum's members start with; Python's need no prefix.
PREFIXES = {"CameraStreamKind": "CAMERA_STREAM_", "PolicyCommandType": "POLICY_CMD_"}
PREFIXES |= {"MjJointType": "MJ_JNT_", "SimulationMode": "SIMULATION_MODE_"}


def test_the_table_and_the_protocol_have_the_same_methods() -> None:
    """Those of our BatchService that only gRPC needs are no typed methods: elsewhere shared memory does their work."""
    only_grpc = {f"/lucky_transport.v1.BatchService/{name}" for name in ("GetSpec", "Exchange", "Attach")}
    assert {row.name for row in METHODS} == set(_pb.methods()) - only_grpc


def test_methods_stream_in_the_protocol_where_they_stream_in_the_table() -> None:
    for row in METHODS:
        wire = _pb.methods()[row.name]
        assert (wire.client_streaming, wire.server_streaming) == (False, row.stream is not None), row.name


def met(kind: type, descriptor: Any, found: dict[type, Any]) -> dict[type, Any]:
    """Add the descriptor of `kind` and of every class inside it to `found`."""
    if kind not in found:
        found[kind] = descriptor
        for field in fields_of(kind):
            if field.message is not None:
                value: Any = value_of(descriptor.fields_by_name[field.name])
                met(field.message, value.message_type, found)
    return found


def value_of(field: Any) -> Any:
    """Return the field that tells the type of the values: of a map that of its entries."""
    nested = field.message_type
    return nested.fields_by_name["value"] if nested is not None and nested.GetOptions().map_entry else field


DESCRIPTORS: dict[type, Any] = {}
for each_kind, each_pb in PAIRS:
    met(each_kind, each_pb.DESCRIPTOR, DESCRIPTORS)


def test_dataclasses_and_their_messages_have_the_same_fields() -> None:
    for kind, descriptor in DESCRIPTORS.items():
        assert [told(field) for field in fields_of(kind)] == [told_of_pb(field) for field in descriptor.fields], kind


def told(field: Field) -> tuple[str, str, str, bool, dict[str, int]]:
    """Return name, type, shape, whether None is told apart from the default, and the members of an enum."""
    members = {each.name: each.value for each in field.enum or ()}
    can_be_none = field.shape == "one" and (field.optional or field.message is not None)
    return field.name, "ENUM" if members else KINDS[field.kind], field.shape, can_be_none, members


def told_of_pb(field: Any) -> tuple[str, str, str, bool, dict[str, int]]:
    """Return the same of a protobuf field."""
    value = value_of(field)
    shape = "map" if value is not field else "list" if is_list(field) else "one"
    kind = next(name for name in ("ENUM", *KINDS.values()) if getattr(field, f"TYPE_{name}") == value.type)
    members = {each.name: each.number for each in value.enum_type.values} if kind == "ENUM" else {}
    prefix = PREFIXES.get(value.enum_type.name, "") if members else ""
    has_presence = field.has_presence and not (kind == "STRING" and field.containing_oneof is not None)
    return field.name, kind, shape, has_presence, {name.removeprefix(prefix): n for name, n in members.items()}


def test_fields_of_which_one_counts_are_a_oneof_in_the_order_of_their_numbers() -> None:
    for kind, descriptor in DESCRIPTORS.items():
        rivals = [field for field in descriptor.fields if is_real(field)]
        assert len({field.containing_oneof.name for field in rivals}) <= 1, f"{kind}: one such mark at most"
        assert one_of_fields(kind) == tuple(field.name for field in rivals), kind


def is_real(field: Any) -> bool:
    """True for a field in a oneof that somebody wrote; a proto3 `optional` makes one of its own."""
    return field.containing_oneof is not None and not as_written(field).proto3_optional


def as_written(field: Any) -> FieldDescriptorProto:
    """Return the field's declaration; what a descriptor tells beyond it differs between versions of protobuf."""
    declared = DescriptorProto()
    field.containing_type.CopyToProto(declared)
    return next(each for each in declared.field if each.name == field.name)


def is_list(field: Any) -> bool:
    return as_written(field).label == FieldDescriptorProto.LABEL_REPEATED


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


def test_an_absent_message_stays_absent_and_an_empty_one_stays_there() -> None:
    pb = _pb.message_class("hazel.rpc.ResetAgentRequest")
    for contract in (None, SimulationContract()):
        request = ResetAgentRequest("a", contract)
        assert decode(encode(request, ResetAgentRequest, pb), ResetAgentRequest) == request


def request_of(short: str) -> tuple[type, Any]:
    """Return the request of a method, as dataclass and as protobuf message."""
    row = method(short)
    return row.request, _pb.methods()[row.name].request


@pytest.mark.parametrize(("given", "travels"), [((7, "front"), "id"), ((0, "front"), "id"), ((None, "front"), "name")])
def test_an_id_counts_more_than_a_name(given: tuple[int | None, str], travels: str) -> None:
    kind, pb = request_of("SceneService/GetEntity")
    handle = None if given[0] is None else EntityId(given[0])
    message = encode(kind(handle, given[1]), kind, pb)
    assert message.WhichOneof("identifier") == travels
    assert decode(message, kind) == (kind(handle) if travels == "id" else kind(None, given[1]))


def test_neither_id_nor_name_is_an_empty_message() -> None:
    kind, pb = request_of("SceneService/GetEntity")
    assert encode(kind(), kind, pb).ByteSize() == 0
    assert decode(pb(), kind) == kind()


@pytest.mark.parametrize(
    ("value", "travels"),
    [
        ({"bool_val": False}, "bool_val"),
        ({"int_val": 0}, "int_val"),
        ({"float_val": 0.0, "trigger": True}, "float_val"),
        ({"vec3_val": Vec3()}, "vec3_val"),
        ({"trigger": False}, "trigger"),
        ({}, None),
    ],
)
def test_the_type_of_an_input_travels_even_with_a_zero_in_it(value: dict[str, Any], travels: str | None) -> None:
    kind, pb = MotionGraphInputValue, _pb.message_class("hazel.rpc.MotionGraphInputValue")
    message = encode(kind(**value), kind, pb)
    assert message.WhichOneof("value") == travels
    assert decode(message, kind) == kind(**dict(list(value.items())[:1]))


def test_an_optional_number_is_told_apart_from_zero() -> None:
    kind, pb = JointGainOverride, _pb.message_class("hazel.rpc.JointGainOverride")
    again = decode(encode(kind("hip", kp=0.0, kd=2.5), kind, pb), kind)
    assert (again.kp, again.kd, again.effort_limit) == (0.0, 2.5, None)


def test_an_enum_comes_back_as_its_member_and_an_unknown_one_as_its_number() -> None:
    kind, pb = request_of("SceneService/SetSimulationMode")
    assert decode(encode(kind(SimulationMode.FAST), kind, pb), kind).mode is SimulationMode.FAST
    assert decode(encode(kind(77), kind, pb), kind).mode == 77


def test_lists_of_numbers_may_be_arrays() -> None:
    pb: Any = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    seeds: Any = np.array([1, 2**64 - 1], np.uint64)
    message: Any = encode(SetSeedsRequest(seeds), SetSeedsRequest, pb)
    assert list(message.seeds) == [1, 2**64 - 1]


@pytest.mark.parametrize(
    "message",
    [
        SetSeedsRequest([-1]),
        SetSeedsRequest(cast("Any", ["seven"])),
        SetSeedsRequest(cast("Any", None)),
        SetSeedsRequest(mask=cast("Any", 7)),
        SetResetOptionsRequest(SimulationContract(terrain_difficulty=1e39)),
        SetResetOptionsRequest(SimulationContract(friction_range=[0.5, 1e39])),
        SetResetOptionsRequest(SimulationContract(terrain_type=cast("Any", None))),
        SetResetOptionsRequest(options_json="\ud800"),
        ListEntitiesRequest(cast("Any", "no")),
        GetEntityRequest(EntityId(1), "\ud800"),
        MotionGraphInputValue(int_val=1, trigger=cast("Any", "no")),
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
        encode(TaskContract(), SetSeedsRequest, pb)
