"""The bytes of a response become its message, or an error that says why not."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.messages.methods import METHODS, method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.codec import encode, response_in
from tests.support.message_strategies import messages

JOINTS = method("MujocoService/GetJointState")


@given(data=st.data(), row=st.sampled_from(METHODS))
def test_a_response_that_was_sent_is_read_whole(data: st.DataObject, row: Any) -> None:
    kind = _pb.methods()[row.name].response
    sent = encode(data.draw(messages(row.response)), row.response, kind)
    read = encode(response_in(row, sent.SerializeToString()), row.response, kind)
    assert read.SerializeToString(deterministic=True) == sent.SerializeToString(deterministic=True)


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
