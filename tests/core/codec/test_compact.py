"""Compact and image envelopes say exactly what the compiled codec says."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.compact import (
    COMPACT_BYTES,
    IMAGE_BYTES,
    ImageFields,
    decode_compact,
    encode_compact,
    envelope_of,
    fields_of,
)
from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, decode_envelope, encode_envelope
from lucky_transport.errors import RemoteProtocolError

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
    assert decode_compact(record) == fields_of(record) == fields
    assert envelope_of(fields) == expected
    assert len(record) == COMPACT_BYTES + len(payload)


@given(call=U64, kind=st.sampled_from(Kind), dropped=U32, payload=st.binary(max_size=40), image=IMAGES)
def test_an_image_envelope_is_an_envelope(
    call: int, kind: Kind, dropped: int, payload: bytes, image: ImageFields
) -> None:
    fields = (kind, call, payload, 0, 0, dropped, image)
    record = encode_compact(*fields)
    expected = Envelope(0, call, kind, payload=payload, dropped=dropped, images=[ImagePlace(*image)])
    assert decode_envelope(record) == expected
    assert decode_compact(record) == fields_of(record) == fields
    assert envelope_of(fields) == expected
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
    assert decode_compact(data) is None
    assert decode_compact(encode_envelope(Envelope(1, 2, payload=data))) is None


@given(record=st.sampled_from(RECORDS), at=st.integers(0, 119), value=st.integers(0, 255))
def test_a_changed_byte_is_read_as_the_compiled_codec_reads_it_or_left_to_it(
    record: bytes, at: int, value: int
) -> None:
    damaged = bytearray(record)
    damaged[at % len(record)] = value
    found = decode_compact(bytes(damaged))
    if found is not None:
        assert envelope_of(found) == decode_envelope(bytes(damaged))


def test_a_cut_compact_envelope_is_refused() -> None:
    record = RECORDS[0]
    for length in range(len(record)):
        assert decode_compact(record[:length]) is None
        with pytest.raises(RemoteProtocolError):
            decode_envelope(record[:length])


def test_an_unknown_kind_is_refused_by_the_compiled_codec() -> None:
    for image in (None, (0, 0, 0, 0)):
        record = encode_compact(200, 7, b"", image=image)
        assert decode_compact(record) is None
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
