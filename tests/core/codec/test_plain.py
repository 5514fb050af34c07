"""The short way of an envelope says exactly what the long one says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Envelope, Kind, decode_envelope
from lucky_transport.codec.plain import PLAIN_BYTES, decode_plain, encode_plain
from lucky_transport.errors import RemoteProtocolError

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
FIELDS = {"method": U32, "call": U64, "kind": st.sampled_from(Kind), "deadline": U64, "payload": st.binary(max_size=99)}


@given(**FIELDS)
def test_a_plain_envelope_is_an_envelope(method: int, call: int, kind: Kind, deadline: int, payload: bytes) -> None:
    record = encode_plain(method, call, kind, deadline, payload)
    assert decode_envelope(record) == Envelope(method, call, Kind(kind), deadline, payload=payload)
    assert decode_plain(record) == (method, call, deadline, kind, payload)
    assert len(record) == PLAIN_BYTES + len(payload)


@given(payload=st.binary(min_size=1, max_size=20))
def test_behind_its_length_word_it_is_aligned_for_reading_in_place(payload: bytes) -> None:
    payload = b"\xa5payload\x5a" + payload
    record = encode_plain(1, 0x1122_3344_5566_7788, Kind.REQUEST, 0x99AA_BBCC_DDEE_FF00, payload)
    in_ring = struct.pack("<I", len(record)) + record
    for content in (struct.pack("<Q", 0x1122_3344_5566_7788), struct.pack("<Q", 0x99AA_BBCC_DDEE_FF00), payload):
        assert in_ring.index(content) % 8 == 0


@given(record=st.binary(max_size=120))
def test_random_bytes_are_left_to_the_long_way(record: bytes) -> None:
    assert decode_plain(record) is None


@given(at=st.integers(0, PLAIN_BYTES + 4), bit=st.integers(0, 7))
def test_with_a_flipped_bit_both_ways_read_the_same_or_the_long_one_decides(at: int, bit: int) -> None:
    damaged = bytearray(encode_plain(7, 5, Kind.RESPONSE, 9, b"hello"))
    damaged[at] ^= 1 << bit
    plain = decode_plain(bytes(damaged))
    if plain is not None:
        method, call, deadline, kind, payload = plain
        assert decode_envelope(bytes(damaged)) == Envelope(method, call, Kind(kind), deadline, payload=payload)


def test_a_cut_plain_envelope_is_refused() -> None:
    record = encode_plain(7, 5, Kind.RESPONSE, 9, b"hello")
    for length in range(len(record)):
        assert decode_plain(record[:length]) is None
        with pytest.raises(RemoteProtocolError):
            decode_envelope(record[:length])


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="method 4294967296"):
        encode_plain(2**32, 1, Kind.REQUEST, 0, b"")
