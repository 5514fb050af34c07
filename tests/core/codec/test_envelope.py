"""The envelope: its bytes never change, and what is no envelope is refused."""

import dataclasses
import struct
from collections.abc import Callable
from contextlib import suppress
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
from lucky_transport.errors import RemoteProtocolError
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
    payload, call, deadline = b"\xa5payload\x5a" + payload, 0x1122_3344_5566_7788, 0x99AA_BBCC_DDEE_FF00
    wide = (struct.pack("<Q", call), struct.pack("<Q", deadline), payload)
    for record, contents in (
        (encode_envelope(Envelope(1, call, Kind.REQUEST, deadline, 0, details, metadata, payload)), wide),
        (encode_compact(Kind.REQUEST, call, payload, 1, deadline), wide),
        (encode_compact(Kind.STREAM_ITEM, 1, payload, image=(0, 0, 0, 0)), (payload,)),
    ):
        in_ring = struct.pack("<I", len(record)) + record
        assert all(in_ring.index(content) % 8 == 0 for content in contents)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        *(
            (encode_envelope(Envelope(7, 42, kind)), f"kind {kind} for method 7, call 42; known are 0 to 9; update")  # pyright: ignore[reportArgumentType]
            for kind in (10, 11, 2**32 - 1)
        ),
        (encode_compact(200, 7, b""), "envelope of kind 200"),
        (encode_compact(200, 7, b"", image=(0, 0, 0, 0)), "envelope of kind 200"),
    ],
)
def test_an_unknown_kind_is_refused(record: bytes, words: str) -> None:
    assert decode_compact(record) is record
    with pytest.raises(RemoteProtocolError, match=words):
        decode_envelope(record)


@given(
    record=st.binary(max_size=120)
    | st.builds(
        lambda at, bit: FULL_BYTES[:at] + bytes([FULL_BYTES[at] ^ 1 << bit]) + FULL_BYTES[at + 1 :],
        st.integers(0, len(FULL_BYTES) - 1),
        st.integers(0, 7),
    )
)
def test_other_bytes_and_an_envelope_with_a_flipped_bit_are_refused_or_another_envelope(record: bytes) -> None:
    with suppress(RemoteProtocolError):
        assert decode_envelope(record).kind in Kind


#: (method, deadline, dropped, image)
IMPOSSIBLE: list[Any] = [(0, 0, 1), (1, 0, 0, (1, 1, 1, 1)), (0, 1, 0, (1, 1, 1, 1))]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: encode_envelope(Envelope(status=2**32)), r"Envelope\.status: 4294967296 is outside uint32"),
        (lambda: encode_compact(Kind.REQUEST, 1, b"", 2**32), "method 4294967296"),
        (lambda: encode_compact(Kind.RESPONSE, -1, b"", image=(0, 0, 0, 0)), "call -1"),
        *(
            (
                lambda fields=fields: encode_compact(Kind.STREAM_ITEM, 1, b"", *fields),
                "a compact envelope has no dropped",
            )
            for fields in IMPOSSIBLE
        ),
    ],
)
def test_what_no_record_can_hold_is_refused_by_name(use: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        use()


# compact and image envelopes

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
IMAGES = st.tuples(U64, U32, U32, U32)
#: A compact and an image envelope.
RECORDS = (
    encode_compact(Kind.RESPONSE, 5, b"payload of 12", 7, 9),
    encode_compact(Kind.STREAM_ITEM, 7, b"payload of 12", dropped=1, image=(5, 4, 3, 2)),
)


@given(
    call=U64, kind=st.sampled_from(Kind), small=U32, wide=U64, payload=st.binary(max_size=99), image=st.none() | IMAGES
)
def test_a_compact_and_an_image_envelope_are_envelopes(
    call: int, kind: Kind, small: int, wide: int, payload: bytes, image: ImageFields | None
) -> None:
    fields: Any
    if image is None:
        fields, length = (kind, call, payload, small, wide, 0, None), COMPACT_BYTES
        expected = Envelope(small, call, kind, wide, payload=payload)
    else:
        fields, length = (kind, call, payload, 0, 0, small, image), IMAGE_BYTES
        expected = Envelope(0, call, kind, payload=payload, dropped=small, images=[ImagePlace(*image)])
    record = encode_compact(*fields)
    assert decode_envelope(record) == expected
    assert decode_compact(record) == fields
    assert decode_envelope(fields) == expected
    assert len(record) == length + len(payload)


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
