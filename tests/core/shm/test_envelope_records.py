"""`push` writes what `encode_compact` makes, `pop_batch` finds its fields; a long payload is a piece of its own."""

from socket import socketpair
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lucky_transport import native
from lucky_transport.codec.envelope import (
    APART_BYTES,
    Envelope,
    ImageFields,
    ImagePlace,
    Kind,
    Metadatum,
    Popped,
    decode_compact,
    decode_envelope,
    encode_compact,
    encode_envelope,
    encode_record,
    joined,
)
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.shm.segment.layout import RING_HEAD_BYTES
from tests.support.ring_rules import ring_ends

SIZE = 4096
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


def ends(size: int = SIZE, **options: Any) -> tuple[native.RingWriter, native.RingReader]:
    return ring_ends(size, **options)[1:]


IMAGE = st.none() | st.tuples(u64, u32, u32, u32)


def hostile(
    kind: int, payload: bytes, image: ImageFields | None, changes: list[tuple[int, int]], length: int | None
) -> bytes:
    """Return a record of any kind with some bytes changed, cut to that length."""
    record = bytearray(encode_compact(kind, 2, payload, image=image))
    for where, value in changes:
        record[where % len(record)] = value
    return bytes(record[:length])


@given(kind=st.integers(0, 9), call=u64, payload=st.binary(max_size=900), method=u32, number=u64, image=IMAGE)
def test_push_and_pop_batch_agree_with_the_codec(
    kind: int, call: int, payload: bytes, method: int, number: int, image: ImageFields | None
) -> None:
    writer, reader = ends()
    fields = (kind, call, payload) + ((method, number, 0, None) if image is None else (0, 0, method, image))
    record = encode_compact(*fields)
    assert writer.push(*fields)
    assert reader.try_pop() == record
    assert writer.try_push(record)
    assert reader.pop_batch(1) == fields
    assert reader.pop_batch(1) is None


HOSTILE = st.builds(
    hostile,
    st.integers(0, 12),
    st.binary(max_size=60),
    IMAGE,
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3),
    st.none() | st.integers(1, 200),
)


@given(record=HOSTILE)
def test_a_reader_finds_in_hostile_records_what_the_codec_finds(record: bytes) -> None:
    writer, reader = ends()
    assert writer.try_push(record)
    found = reader.pop_batch(1)
    assert found == decode_compact(record)
    if isinstance(found, tuple):
        assert decode_envelope(cast(Popped, found)) == decode_envelope(record)


NUMBER = st.integers(-1, 2**65) | st.sampled_from([0, 1, 9, 2**32 - 1, 2**32, 2**64 - 1, 2**64])


@example(fields=(2, 1, b"", 0, 0, 1, None))
@example(fields=(2, 1, b"", 1, 0, 0, (1, 1, 1, 1)))
@example(fields=(2, 1, b"", 0, 1, 0, (1, 1, 1, 1)))
@example(fields=(1, 1, b"", 0, 0, 0, (1, 2**32, 1, 1)))
@given(
    fields=st.tuples(
        NUMBER,
        NUMBER,
        st.binary(max_size=40),
        NUMBER | st.just(0),
        NUMBER | st.just(0),
        NUMBER | st.just(0),
        st.none() | st.tuples(NUMBER, NUMBER, NUMBER, NUMBER),
    )
)
def test_a_writer_writes_hostile_fields_as_the_codec_does_or_refuses_them(fields: Any) -> None:
    try:
        record = encode_compact(*fields)
    except ValueError:
        record = None
    writer, reader = ends()
    if record is None:
        with pytest.raises((OverflowError, ValueError)):
            writer.push(*fields)
    else:
        assert writer.push(*fields)
    assert reader.try_pop() == record


RECORDS = st.lists(
    st.builds(encode_compact, st.sampled_from([1, 2, 2, 2]), st.integers(1, 2), st.binary(max_size=9))
    | st.builds(
        encode_compact, st.just(2), st.integers(1, 2), st.binary(max_size=9), image=st.tuples(u64, u32, u32, u32)
    )
    | st.binary(min_size=1, max_size=80),
    max_size=16,
)


@given(records=RECORDS, limit=st.integers(1, 6))
def test_runs_hold_the_same_records_in_the_same_order(records: list[bytes], limit: int) -> None:
    writer, reader = ends()
    assert all(writer.try_push(record) for record in records)
    taken: list[object] = []
    while (popped := reader.pop_batch(limit)) is not None:
        if isinstance(popped, tuple) and len(popped) == 2:
            call, payloads = popped
            assert 1 <= len(payloads) <= limit
            taken += [(int(Kind.STREAM_ITEM), call, payload, 0, 0, 0, None) for payload in payloads]
        else:
            taken.append(popped)
    assert taken == [decode_compact(record) for record in records]
    assert writer.free == SIZE


def test_what_no_writer_may_produce_is_refused_after_the_run_before_it() -> None:
    memory, writer, reader = ring_ends(SIZE)
    for payload in (b"one", b"two", b"three"):
        assert writer.push(int(Kind.STREAM_ITEM), 7, payload)
    third = RING_HEAD_BYTES + 2 * 80
    memory[third : third + 4] = (SIZE).to_bytes(4, "little")
    assert reader.pop_batch(9) == (7, [b"one", b"two"])
    with pytest.raises(RemoteProtocolError):
        reader.pop_batch(9)


def test_what_can_never_fit_is_refused() -> None:
    writer, reader = ends()
    with pytest.raises(SpecError, match="a record of 1088 bytes, expected 1 to 1020"):
        writer.push(3, 2, bytes(1020), 1, 4)
    with pytest.raises(SpecError, match="a record of 1028 bytes, expected 1 to 1020"):
        writer.push(2, 1, bytes(920), 0, 0, 3, (4, 5, 6, 7))
    assert reader.pop_batch(1) is None


def test_a_writer_says_once_that_it_found_the_reader_parked() -> None:
    here, there = socketpair()
    with here, there:
        writer, reader = ends(park=RING_HEAD_BYTES + SIZE, socket=here.fileno())
        assert writer.push(3, 2, b"", 1, 4)
        assert not writer.woke_reader()
        assert reader.pop_batch(1)
        assert not reader.arm()
        assert writer.push(3, 2, b"", 1, 4)
        assert there.recv(2) == bytes(1)
        assert [writer.woke_reader(), writer.woke_reader()] == [True, False]


METADATA = st.lists(st.builds(Metadatum, st.text(max_size=5), st.binary(max_size=20)), max_size=3)
LONG = st.integers(0, 70).map(lambda more: bytes(range(256)) * 16 + b"x" * more)


def popped(record: Any) -> Any:
    writer, reader = ends(1 << 17)
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
