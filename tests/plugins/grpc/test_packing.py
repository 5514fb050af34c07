"""Packed bytes become arrays only when they fit the spec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport_grpc.packing import unpack


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
