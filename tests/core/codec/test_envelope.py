"""The envelope: its bytes never change, and what is no envelope is refused."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import (
    COMPACT_BYTES,
    IMAGE_BYTES,
    Envelope,
    ImageFields,
    ImagePlace,
    Kind,
    Metadatum,
    decode_compact,
    decode_envelope,
    encode_compact,
    encode_envelope,
)
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


SLOTS = """method correlation_id kind deadline_ns status details metadata payload path streams items window offset total
dropped images code"""
KINDS = "REQUEST RESPONSE STREAM_ITEM CREDIT HALF_CLOSE END CANCEL ERROR FRAGMENT HEADERS"


def test_the_slots_and_kinds_of_an_envelope_are_fixed() -> None:
    assert [field.name for field in dataclasses.fields(Envelope)] == SLOTS.split()
    assert [(kind.value, kind.name) for kind in Kind] == list(enumerate(KINDS.split()))


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


# compact and image envelopes

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
IMAGES = st.tuples(U64, U32, U32, U32)
#: A compact and an image envelope.
RECORDS = (
    encode_compact(Kind.RESPONSE, 5, b"payload of 12", 7, 9),
    encode_compact(Kind.STREAM_ITEM, 7, b"payload of 12", dropped=1, image=(5, 4, 3, 2)),
)


@given(method=U32, call=U64, kind=st.sampled_from(Kind), deadline=U64, payload=st.binary(max_size=99))
def test_a_compact_envelope_is_an_envelope(method: int, call: int, kind: Kind, deadline: int, payload: bytes) -> None:
    fields = (kind, call, payload, method, deadline, 0, None)
    record = encode_compact(*fields)
    expected = Envelope(method, call, kind, deadline, payload=payload)
    assert decode_envelope(record) == expected
    assert decode_compact(record) == fields
    assert decode_envelope(fields) == expected
    assert len(record) == COMPACT_BYTES + len(payload)


@given(call=U64, kind=st.sampled_from(Kind), dropped=U32, payload=st.binary(max_size=40), image=IMAGES)
def test_an_image_envelope_is_an_envelope(
    call: int, kind: Kind, dropped: int, payload: bytes, image: ImageFields
) -> None:
    fields = (kind, call, payload, 0, 0, dropped, image)
    record = encode_compact(*fields)
    expected = Envelope(0, call, kind, payload=payload, dropped=dropped, images=[ImagePlace(*image)])
    assert decode_envelope(record) == expected
    assert decode_compact(record) == fields
    assert decode_envelope(fields) == expected
    assert len(record) == IMAGE_BYTES + len(payload)


@given(payload=st.binary(min_size=1, max_size=20))
def test_behind_its_length_word_it_is_aligned_for_reading_in_place(payload: bytes) -> None:
    payload = b"\xa5payload\x5a" + payload
    record = encode_compact(Kind.REQUEST, 0x1122_3344_5566_7788, payload, 1, 0x99AA_BBCC_DDEE_FF00)
    in_ring = struct.pack("<I", len(record)) + record
    for content in (struct.pack("<Q", 0x1122_3344_5566_7788), struct.pack("<Q", 0x99AA_BBCC_DDEE_FF00), payload):
        assert in_ring.index(content) % 8 == 0
    record = encode_compact(Kind.STREAM_ITEM, 1, payload, image=(0, 0, 0, 0))
    assert (4 + record.index(payload)) % 8 == 0


@given(data=st.binary(max_size=200))
def test_other_bytes_are_left_to_the_compiled_codec(data: bytes) -> None:
    for record in (data, encode_envelope(Envelope(1, 2, payload=data))):
        assert decode_compact(record) is record


@given(record=st.sampled_from(RECORDS), at=st.integers(0, 119), value=st.integers(0, 255))
def test_a_changed_byte_is_read_as_the_compiled_codec_reads_it_or_left_to_it(
    record: bytes, at: int, value: int
) -> None:
    damaged = bytearray(record)
    damaged[at % len(record)] = value
    found = decode_compact(bytes(damaged))
    if isinstance(found, tuple):
        assert decode_envelope(found) == decode_envelope(bytes(damaged))


def test_a_cut_compact_envelope_is_refused() -> None:
    record = RECORDS[0]
    for length in range(len(record)):
        assert decode_compact(record[:length]) == record[:length]
        with pytest.raises(RemoteProtocolError):
            decode_envelope(record[:length])


def test_an_unknown_kind_is_refused_by_the_compiled_codec() -> None:
    for image in (None, (0, 0, 0, 0)):
        record = encode_compact(200, 7, b"", image=image)
        assert decode_compact(record) is record
        with pytest.raises(RemoteProtocolError, match="envelope of kind 200"):
            decode_envelope(record)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="method 4294967296"):
        encode_compact(Kind.REQUEST, 1, b"", 2**32)
    with pytest.raises(ValueError, match="call -1"):
        encode_compact(Kind.RESPONSE, -1, b"", image=(0, 0, 0, 0))


def test_fields_that_the_layout_lacks_are_refused() -> None:
    impossible: list[tuple[Any, ...]] = [(0, 0, 1), (1, 0, 0, (1, 1, 1, 1)), (0, 1, 0, (1, 1, 1, 1))]
    for fields in impossible:
        with pytest.raises(ValueError, match="a compact envelope has no dropped"):
            encode_compact(Kind.STREAM_ITEM, 1, b"", *fields)
