"""Plain envelopes written into a ring and taken out of it the short way are the same bytes as the long way's."""

from __future__ import annotations

import os
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Kind
from lucky_transport.codec.pictured import encode_pictured
from lucky_transport.codec.plain import encode_plain
from lucky_transport.codec.popped import taken_apart
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.shm.atomics import native_error
from lucky_transport.shm.ends import ReadingEnd, WritingEnd, open_reader, open_writer
from lucky_transport.shm.layout import RING_HEAD_BYTES

SIZE = 4096
NATIVE = pytest.param(
    True, marks=pytest.mark.skipif(bool(native_error()), reason=f"no native module: {native_error()}")
)
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)

PLACE = st.tuples(u32, u32, u32)


def ends(native: bool) -> tuple[WritingEnd, ReadingEnd]:
    memory = mmap(-1, 2 * SIZE)
    return open_writer(memory, 0, SIZE, native=native), open_reader(memory, 0, SIZE, native=native)


@pytest.mark.parametrize("native", [NATIVE, False])
@given(method=u32, call=u64, kind=st.integers(0, 9), deadline=u64, payload=st.binary(max_size=900))
def test_both_ways_agree(native: bool, method: int, call: int, kind: int, deadline: int, payload: bytes) -> None:
    writer, reader = ends(native)
    record = encode_plain(method, call, kind, deadline, payload)
    assert writer.push_plain(method, call, kind, deadline, payload)
    assert reader.try_pop() == record
    assert writer.try_push(record)
    assert reader.pop_plain() == (method, call, deadline, kind, payload)
    assert reader.pop_plain() is None


@pytest.mark.parametrize("native", [NATIVE, False])
@given(where=st.integers(0, 67), value=st.integers(0, 255))
def test_a_record_that_is_no_plain_envelope_comes_as_it_is(native: bool, where: int, value: int) -> None:
    writer, reader = ends(native)
    record = bytearray(encode_plain(1, 2, 3, 4, b"payload"))
    record[where] = value
    assert writer.try_push(record)
    assert reader.pop_plain() == taken_apart(bytes(record))


@pytest.mark.parametrize("native", [NATIVE, False])
@given(call=u64, kind=st.integers(0, 9), dropped=u32, payload=st.binary(max_size=900), length=u64, place=PLACE)
def test_both_ways_agree_on_an_envelope_with_a_picture(
    native: bool, call: int, kind: int, dropped: int, payload: bytes, length: int, place: tuple[int, int, int]
) -> None:
    writer, reader = ends(native)
    fields = (call, kind, dropped, payload, length, *place)
    record = encode_pictured(*fields)
    assert writer.push_pictured(*fields)
    assert reader.try_pop() == record
    assert writer.try_push(record)
    assert reader.pop_plain() == fields
    assert reader.pop_plain() is None


@pytest.mark.parametrize("native", [NATIVE, False])
@given(where=st.integers(0, 107), value=st.integers(0, 255))
def test_a_record_that_is_no_such_envelope_comes_as_it_is(native: bool, where: int, value: int) -> None:
    writer, reader = ends(native)
    record = bytearray(encode_pictured(1, 2, 3, b"payload", 4, 5, 6, 7))
    record[where] = value
    assert writer.try_push(record)
    assert reader.pop_plain() == taken_apart(bytes(record))


RECORDS = st.lists(
    st.builds(
        encode_plain, st.just(0), st.integers(1, 2), st.sampled_from([1, 2, 2, 2]), st.just(0), st.binary(max_size=9)
    )
    | st.builds(encode_pictured, st.integers(1, 2), st.just(2), st.just(0), st.binary(max_size=9), u64, u32, u32, u32)
    | st.binary(min_size=1, max_size=80),
    max_size=16,
)


@pytest.mark.parametrize("native", [NATIVE, False])
@given(records=RECORDS, limit=st.integers(1, 6))
def test_runs_hold_the_same_records_in_the_same_order(native: bool, records: list[bytes], limit: int) -> None:
    writer, reader = ends(native)
    assert all(writer.try_push(record) for record in records)
    taken: list[object] = []
    while (popped := reader.pop_run(limit)) is not None:
        if isinstance(popped, tuple) and len(popped) == 2:
            call, payloads = popped
            assert 1 <= len(payloads) <= limit
            taken += [(0, call, 0, int(Kind.STREAM_ITEM), payload) for payload in payloads]
        else:
            taken.append(popped)
    assert taken == [taken_apart(record) for record in records]
    assert writer.free == SIZE


@pytest.mark.skipif(bool(native_error()), reason=f"no native module: {native_error()}")
def test_what_no_writer_may_produce_is_refused_after_the_run_before_it() -> None:
    memory = mmap(-1, 2 * SIZE)
    writer, reader = open_writer(memory, 0, SIZE), open_reader(memory, 0, SIZE)
    for payload in (b"one", b"two", b"three"):
        assert writer.push_plain(0, 7, int(Kind.STREAM_ITEM), 0, payload)
    third = RING_HEAD_BYTES + 2 * 80
    memory[third : third + 4] = (SIZE).to_bytes(4, "little")
    assert reader.pop_run(9) == (7, [b"one", b"two"])
    with pytest.raises(RemoteProtocolError):
        reader.pop_run(9)


@pytest.mark.parametrize("native", [NATIVE, False])
def test_records_shorter_than_a_plain_envelope_come_as_they_are(native: bool) -> None:
    writer, reader = ends(native)
    record = encode_plain(1, 2, 3, 4, b"")
    for length in (1, 31, 32, 67):
        assert writer.try_push(record[:length])
        assert reader.pop_plain() == record[:length]


@pytest.mark.parametrize("native", [NATIVE, False])
def test_a_full_ring_takes_no_more_and_loses_nothing(native: bool) -> None:
    writer, reader = ends(native)
    sent = 0
    while writer.push_plain(1, sent, 1, 0, bytes(100)):
        sent += 1
    assert sent == SIZE // 176
    taken = [reader.pop_plain() for _ in range(sent)]
    assert [record[1] for record in taken if isinstance(record, tuple)] == list(range(sent))
    assert writer.push_plain(1, sent, 1, 0, bytes(100))


@pytest.mark.parametrize("native", [NATIVE, False])
def test_what_can_never_fit_is_refused(native: bool) -> None:
    writer, reader = ends(native)
    with pytest.raises(SpecError, match="a record of 1088 bytes, expected 1 to 1020"):
        writer.push_plain(1, 2, 3, 4, bytes(1020))
    for numbers in ((2**32, 1, 1, 1), (1, 2**64, 1, 1), (1, 1, 1, 2**64), (-1, 1, 1, 1)):
        with pytest.raises((OverflowError, ValueError)):
            writer.push_plain(*numbers, b"")
    with pytest.raises(SpecError, match="a record of 1028 bytes, expected 1 to 1020"):
        writer.push_pictured(1, 2, 3, bytes(920), 4, 5, 6, 7)
    for numbers in (
        (2**64, 1, 1, 1, 1, 1, 1),
        (1, -1, 1, 1, 1, 1, 1),
        (1, 1, 1, 1, 2**32, 1, 1),
        (1, 1, 1, 2**64, 1, 1, 1),
    ):
        with pytest.raises((OverflowError, ValueError)):
            writer.push_pictured(*numbers[:3], b"", *numbers[3:])
    assert reader.pop_plain() is None


@pytest.mark.skipif(bool(native_error()), reason=f"no native module: {native_error()}")
def test_a_writer_says_once_that_it_found_the_reader_parked() -> None:
    memory = mmap(-1, 2 * SIZE)
    park = 2 * SIZE - 64
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    writer = open_writer(memory, 0, SIZE, park=park, bell=bell)
    reader = open_reader(memory, 0, SIZE, park=park, bell=bell)
    assert writer.push_plain(1, 2, 3, 4, b"")
    assert not writer.woke()
    assert reader.pop_plain()
    assert not reader.arm()
    assert writer.push_plain(1, 2, 3, 4, b"")
    assert os.eventfd_read(bell) == 1
    assert [writer.woke(), writer.woke()] == [True, False]
    os.close(bell)
