"""A ring whose memory comes as it is written to: records pass as in any other, and no memory is an error."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lucky_transport.errors import NoSpace
from lucky_transport.shm.arena import can_be_refused
from lucky_transport.shm.files.mapping import Mapping, map_file
from lucky_transport.shm.listener.handshake import FIRST_BYTES, make_pair, total_bytes
from lucky_transport.shm.ring import LENGTH_BYTES, STEP, largest_record, ring_bytes, stride_of
from lucky_transport.shm.ring_pipe import open_reader, open_writer

SIZE = 4 * STEP


def memory_of(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


@pytest.fixture
def fd() -> Iterator[int]:
    """A file in memory of which one page has memory."""
    fd = os.memfd_create("ring")
    os.posix_fallocate(fd, 0, 4096)
    yield fd
    os.close(fd)


def test_a_new_pair_has_memory_for_its_first_records_alone() -> None:
    pair, fd = make_pair(512 * 1024)
    try:
        assert 2 * FIRST_BYTES <= memory_of(fd) < total_bytes(512 * 1024) / 8
        pair.mapping.close()
    finally:
        os.close(fd)


@pytest.mark.parametrize("length", [1, 100, 4096, largest_record(SIZE)])
def test_records_come_whole_and_in_order_while_the_memory_grows(fd: int, length: int) -> None:
    os.ftruncate(fd, ring_bytes(SIZE))
    mapping = map_file(fd, ring_bytes(SIZE), "the ring")
    writer, reader = open_writer(mapping, 0, SIZE, backed=3000), open_reader(mapping, 0, SIZE)
    written, most = 0, 0
    while written < 3 * SIZE:
        record = bytes([written % 251]) * length
        assert writer.try_push(record)
        written += length + LENGTH_BYTES
        assert most <= memory_of(fd) <= 4096 + ring_bytes(min(SIZE, written + STEP + 8 * written // length))
        most = memory_of(fd)
        assert reader.try_pop() == record
    assert most >= SIZE


def beyond_its_file(fd: int) -> Mapping:
    """Return memory of a ring whose file ends within it: no page behind that can be had."""
    os.ftruncate(fd, ring_bytes(SIZE))
    mapping = map_file(fd, ring_bytes(SIZE), "the ring")
    os.ftruncate(fd, 2 * STEP)
    return mapping


@pytest.mark.skipif(not can_be_refused(), reason="Linux before 5.14 gives memory at the first touch alone")
def test_a_record_that_finds_no_memory_is_refused_and_those_before_it_are_read(fd: int) -> None:
    mapping = beyond_its_file(fd)
    writer, reader = open_writer(mapping, 0, SIZE, backed=3000), open_reader(mapping, 0, SIZE)
    record = bytes(1000)
    pushed = STEP // stride_of(len(record))  # the next step would end behind the file
    assert all(writer.try_push(record) for _ in range(pushed))
    with pytest.raises(NoSpace, match=f"no memory for {STEP} more bytes of a ring of {SIZE}; close other clients"):
        writer.try_push(record)
    assert [reader.try_pop() for _ in range(pushed + 1)] == [record] * pushed + [None]
    os.ftruncate(fd, ring_bytes(SIZE))
    assert writer.try_push(record)
    assert reader.try_pop() == record
