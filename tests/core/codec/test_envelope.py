"""The envelope: its bytes never change, and what is no envelope is refused."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Envelope, Kind, Metadatum, decode_envelope, encode_envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import GetAgentSchemaRequest
from tests.support.message_strategies import messages

FULL = Envelope(
    method=0x0101,
    correlation_id=0x0202_0202_0202_0202,
    kind=Kind.ERROR,
    deadline_ns=0x0303_0303_0303_0303,
    status=0x0404,
    details="why",
    metadata=[Metadatum("key", b"1"), Metadatum("key", b"2")],
    payload=b"payload!",
)

#: FULL as it was written when the format was fixed; engines in the field go on writing it like this.
FULL_BYTES = bytes.fromhex(
    "1c000000 00000000 14002c00 04000800 18001000 1c002000 24002800 14000000"
    "01010000 02020202 02020202 03030303 03030303 07000000 04040000 0c000000"
    "10000000 5c000000 03000000 77687900 02000000 10000000 28000000 08000c00"
    "04000800 08000000 08000000 0c000000 03000000 6b657900 01000000 31000000"
    "24000000 08000000 10000000 03000000 6b657900 00000000 01000000 32000000"
    "08000000 7061796c 6f616421"
)


@given(envelope=messages(Envelope), kind=st.sampled_from(Kind))
def test_an_envelope_survives_the_round_trip(envelope: Envelope, kind: Kind) -> None:
    envelope.kind = kind
    again = decode_envelope(encode_envelope(envelope))
    assert again == envelope
    assert again.kind is kind


def test_bytes_written_when_the_format_was_fixed_are_still_read() -> None:
    assert decode_envelope(FULL_BYTES) == FULL


def test_the_slots_and_kinds_of_an_envelope_are_fixed() -> None:
    assert [field.name for field in dataclasses.fields(Envelope)] == [
        "method",
        "correlation_id",
        "kind",
        "deadline_ns",
        "status",
        "details",
        "metadata",
        "payload",
        "path",
        "streams",
        "items",
        "window",
        "offset",
        "total",
        "dropped",
        "images",
        "code",
    ]
    assert {kind.name: kind.value for kind in Kind} == {
        "REQUEST": 0,
        "RESPONSE": 1,
        "STREAM_ITEM": 2,
        "CREDIT": 3,
        "HALF_CLOSE": 4,
        "END": 5,
        "CANCEL": 6,
        "ERROR": 7,
        "FRAGMENT": 8,
        "HEADERS": 9,
    }


@given(payload=st.binary(max_size=40), details=st.text(max_size=9), metadata=st.lists(messages(Metadatum), max_size=3))
def test_a_record_with_its_length_word_is_aligned_for_reading_in_place(
    payload: bytes, details: str, metadata: list[Metadatum]
) -> None:
    payload = b"\xa5payload\x5a" + payload
    envelope = Envelope(1, 0x1122_3344_5566_7788, Kind.REQUEST, 0x99AA_BBCC_DDEE_FF00, 0, details, metadata, payload)
    record = encode_envelope(envelope)
    in_ring = struct.pack("<I", len(record)) + record
    assert in_ring.index(struct.pack("<Q", envelope.correlation_id)) % 8 == 0
    assert in_ring.index(struct.pack("<Q", envelope.deadline_ns)) % 8 == 0
    assert in_ring.index(payload) % 8 == 0


def test_a_message_travels_as_a_buffer_of_its_own() -> None:
    request = GetAgentSchemaRequest("agent_0")
    again = decode_envelope(encode_envelope(Envelope(method=1, payload=encode(request))))
    assert decode(GetAgentSchemaRequest, again.payload) == request


@pytest.mark.parametrize("kind", [10, 11, 2**32 - 1])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    record = encode_envelope(Envelope(method=7, correlation_id=42, kind=kind))  # pyright: ignore[reportArgumentType]
    with pytest.raises(RemoteProtocolError, match=rf"kind {kind} for method 7, call 42; known are 0 to 9; update"):
        decode_envelope(record)


@given(record=st.binary(max_size=120))
def test_random_bytes_are_refused_or_an_envelope(record: bytes) -> None:
    try:
        assert decode_envelope(record).kind in Kind
    except RemoteProtocolError:
        return


@given(at=st.integers(0, len(FULL_BYTES) - 1), bit=st.integers(0, 7))
def test_an_envelope_with_a_flipped_bit_is_refused_or_another_envelope(at: int, bit: int) -> None:
    damaged = bytearray(FULL_BYTES)
    damaged[at] ^= 1 << bit
    try:
        assert decode_envelope(bytes(damaged)).kind in Kind
    except RemoteProtocolError:
        return


def test_a_number_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"Envelope\.status: 4294967296 is outside uint32"):
        encode_envelope(Envelope(status=2**32))
