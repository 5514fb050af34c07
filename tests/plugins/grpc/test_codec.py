"""Dataclasses and protobuf say the same, for every message of every method, derived and not written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.messages import agent, batch, task
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.testing.messages import messages
from lucky_transport_grpc import _pb
from lucky_transport_grpc.codec import decode, encode

PAIRS: list[tuple[type, Any]] = [
    (kind, getattr(_pb.methods()[row.name], side))
    for row in METHODS
    for side, kind in (("request", row.request), ("response", row.response))
]
KINDS = {"f32": "TYPE_FLOAT", "i32": "TYPE_INT32", "u32": "TYPE_UINT32", "u64": "TYPE_UINT64", "bool": "TYPE_BOOL"}
KINDS |= {"str": "TYPE_STRING", "bytes": "TYPE_BYTES", "message": "TYPE_MESSAGE"}


def test_every_method_of_the_table_exists_in_the_protocol() -> None:
    assert not [row.name for row in METHODS if row.name not in _pb.methods()]


@pytest.mark.parametrize(("kind", "pb"), PAIRS, ids=lambda pair: pair.__name__)
def test_a_dataclass_and_its_message_have_the_same_fields(kind: type, pb: Any) -> None:
    pending: list[tuple[type, Any]] = [(kind, pb.DESCRIPTOR)]
    seen: set[type] = set()
    while pending:
        cls, descriptor = pending.pop()
        if cls in seen:
            continue
        seen.add(cls)
        assert [field.name for field in fields_of(cls)] == [field.name for field in descriptor.fields], cls
        for field in fields_of(cls):
            found: Any = descriptor.fields_by_name[field.name]
            nested: Any = found.message_type or found.containing_type
            is_map = found.message_type is not None and nested.GetOptions().map_entry
            assert (field.shape == "map") == is_map, field
            value: Any = nested.fields_by_name["value"] if is_map else found
            assert getattr(value, KINDS[field.kind]) == value.type, field
            if field.message is not None:
                pending.append((field.message, value.message_type))


@settings(max_examples=150)
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
    for contract in (None, agent.SimulationContract()):
        request = agent.ResetAgentRequest("a", contract)
        assert decode(encode(request, agent.ResetAgentRequest, pb), agent.ResetAgentRequest) == request


def test_lists_of_numbers_may_be_arrays() -> None:
    pb: Any = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    seeds: Any = np.array([1, 2**64 - 1], np.uint64)
    message: Any = encode(batch.SetSeedsRequest(seeds), batch.SetSeedsRequest, pb)
    assert list(message.seeds) == [1, 2**64 - 1]


def test_a_value_a_field_cannot_hold_is_refused_by_the_messages_name() -> None:
    pb = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    with pytest.raises(ValueError, match="SetSeedsRequest: "):
        encode(batch.SetSeedsRequest([-1]), batch.SetSeedsRequest, pb)
    wrong: Any = ["seven"]
    with pytest.raises(TypeError, match="SetSeedsRequest: "):
        encode(batch.SetSeedsRequest(wrong), batch.SetSeedsRequest, pb)


def test_another_message_than_the_methods_own_is_refused() -> None:
    pb = _pb.message_class("lucky_transport.v1.SetSeedsRequest")
    with pytest.raises(TypeError, match="got TaskContract, expected SetSeedsRequest"):
        encode(task.TaskContract(), batch.SetSeedsRequest, pb)
