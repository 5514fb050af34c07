"""An envelope that ends with a long payload is pushed and popped in two pieces."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import (
    APART_BYTES,
    Envelope,
    ImagePlace,
    Kind,
    Metadatum,
    decode_envelope,
    encode_envelope,
    encode_record,
    joined,
)
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.native import RingReader, RingWriter
from lucky_transport.shm.ring_pipe import open_reader, open_writer

SIZE = 1 << 17

METADATA = st.lists(st.builds(Metadatum, st.text(max_size=5), st.binary(max_size=20)), max_size=3)
LONG = st.integers(0, 70).map(lambda more: bytes(range(256)) * 16 + b"x" * more)


def ends() -> tuple[RingWriter, RingReader]:
    memory = mmap(-1, 2 * SIZE)
    return open_writer(memory, 0, SIZE), open_reader(memory, 0, SIZE)


def popped(record: Any) -> Any:
    writer, reader = ends()
    assert writer.try_push(record)
    return reader.pop_batch(1)


@given(metadata=METADATA, payload=LONG, details=st.text(max_size=9), streams=st.integers(0, 3))
def test_pieces_are_the_envelope_and_come_out_as_pieces(
    metadata: list[Metadatum], payload: bytes, details: str, streams: int
) -> None:
    envelope = Envelope(7, 5, Kind.REQUEST, 9, details=details, metadata=metadata, payload=payload, streams=streams)
    record = encode_record(envelope)
    assert isinstance(record, list)
    assert record[1] is payload
    assert envelope.payload is payload
    assert encode_envelope(envelope).rstrip(b"\0") == joined(record).rstrip(b"\0")
    assert decode_envelope(joined(record)) == envelope
    for sent in (record, joined(record), encode_envelope(envelope)):
        pieces = popped(sent)
        assert isinstance(pieces, list)
        assert pieces[1] == payload
        assert decode_envelope(pieces) == envelope


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(metadata=[Metadatum("k", b"v")], payload=b"x" * (APART_BYTES - 1)),
        Envelope(path="/a/b", payload=b"x" * APART_BYTES),
        Envelope(images=[ImagePlace(1, 2, 3, 4), ImagePlace(1, 2, 3, 5)], payload=b"x" * APART_BYTES),
    ],
)
def test_a_short_payload_and_one_that_is_not_the_last_stay_in_one_piece(envelope: Envelope) -> None:
    record = encode_record(envelope)
    assert record == encode_envelope(envelope)
    assert popped(record) == record
    assert decode_envelope(popped(record)) == envelope


@example(changes=[(152, 38)], cut=0)  # the vtable of the metadata reaches into the payload
@example(changes=[(96, 88)], cut=0)  # the payload is the list of metadata, too
@given(changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4), cut=st.integers(0, 5000))
def test_a_hostile_record_is_refused_or_read_as_one_piece_is(changes: list[tuple[int, int]], cut: int) -> None:
    envelope = Envelope(7, 5, Kind.REQUEST, metadata=[Metadatum("key", b"value")], payload=b"p" * APART_BYTES)
    record = bytearray(encode_envelope(envelope))
    for where, value in changes:
        record[where] = value
    record = record[: max(1, len(record) - cut)]

    def read(found: Any) -> Envelope | None:
        try:
            return decode_envelope(found)
        except RemoteProtocolError:
            return None

    assert read(popped(bytes(record))) == read(bytes(record))


def test_a_record_of_another_number_of_pieces_is_refused() -> None:
    writer, _ = ends()
    for pieces in ([], [b"a"], [b"a", b"b", b"c"]):
        with pytest.raises(TypeError, match="two pieces"):
            writer.try_push(pieces)
    with pytest.raises(TypeError):
        writer.try_push([b"a", "b"])  # pyright: ignore[reportArgumentType]
