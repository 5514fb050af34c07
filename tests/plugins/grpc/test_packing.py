"""Packed bytes become arrays only when they fit the spec."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.spec.batch_spec import DTYPES
from lucky_transport_grpc.packing import pack, unpack


@given(dtype=st.sampled_from(DTYPES), rows=st.integers(1, 5), columns=st.integers(1, 5), seed=st.integers(0, 99))
def test_an_array_survives_packing_bit_for_bit(dtype: str, rows: int, columns: int, seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 2, (rows, columns)).astype(dtype)
    back = unpack("x", pack(np.asfortranarray(array)), dtype, (rows, columns), SpecError)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert not back.flags.writeable


def test_a_view_shares_the_memory_it_was_read_from() -> None:
    data = pack(np.arange(6, dtype=np.float32))
    array = unpack("x", data, "float32", (2, 3), SpecError)
    assert array.__array_interface__["data"][0] == np.frombuffer(data, np.uint8).__array_interface__["data"][0]


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
