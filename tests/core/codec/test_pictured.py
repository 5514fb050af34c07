"""The short way for envelopes with one picture gives what the generic codec gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Envelope, ImagePlace, Kind, decode_envelope, encode_envelope
from lucky_transport.codec.pictured import decode_pictured, encode_pictured
from lucky_transport.codec.popped import envelope_of, taken_apart
from lucky_transport.errors import RemoteProtocolError

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
PLACES = st.builds(ImagePlace, U64, U32, U32, U32)


@given(call=U64, kind=st.sampled_from(Kind), dropped=U32, payload=st.binary(max_size=40), place=PLACES)
def test_it_is_read_by_the_generic_codec_and_by_itself(
    call: int, kind: Kind, dropped: int, payload: bytes, place: ImagePlace
) -> None:
    fields = (call, kind, dropped, payload, place.length, place.file, place.slot, place.number)
    record = encode_pictured(*fields)
    expected = Envelope(0, call, kind, payload=payload, dropped=dropped, images=[place])
    assert decode_envelope(record) == expected
    assert decode_pictured(record) == taken_apart(record) == fields
    assert envelope_of(fields) == expected


def test_the_payload_lies_where_it_can_be_read_in_place() -> None:
    record = encode_pictured(1, Kind.STREAM_ITEM, 0, b"payload", 0, 0, 0, 0)
    assert (4 + record.index(b"payload")) % 8 == 0  # the record's length word stands before it


@given(data=st.binary(max_size=200))
def test_other_bytes_are_left_to_the_generic_codec(data: bytes) -> None:
    assert decode_pictured(data) is None
    assert decode_pictured(encode_envelope(Envelope(1, 2, payload=data))) is None


@given(place=st.integers(0, 119), value=st.integers(0, 255))
def test_a_changed_byte_is_read_as_the_generic_codec_reads_it_or_left_to_it(place: int, value: int) -> None:
    data = bytearray(encode_pictured(7, Kind.STREAM_ITEM, 1, b"payload of 12", 5, 4, 3, 2))
    data[place] = value
    found = decode_pictured(bytes(data))
    if found is not None:
        assert envelope_of(found) == decode_envelope(bytes(data))


def test_a_kind_nobody_knows_is_refused_by_the_generic_codec() -> None:
    record = encode_pictured(7, 200, 0, b"", 0, 0, 0, 0)
    assert decode_pictured(record) is None
    with pytest.raises(RemoteProtocolError, match="envelope of kind 200"):
        decode_envelope(record)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="call -1"):
        encode_pictured(-1, Kind.RESPONSE, 0, b"", 0, 0, 0, 0)
