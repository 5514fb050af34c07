"""What leaves through a pipe: in one record where it fits, in order, and what a finalizer adds in the middle of it."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.codec.envelope import IMAGE_BYTES, Envelope, Kind, decode_envelope, encode_envelope
from lucky_transport.rpc.images import ImageRef
from lucky_transport.rpc.outgoing import Outgoing
from lucky_transport.rpc.send_queue import SendQueue
from tests.support.memory_pipe import MemoryPipe, memory_pipes


@pytest.fixture
def ends() -> tuple[MemoryPipe, MemoryPipe]:
    return memory_pipes(2000)


def test_a_record_as_long_as_the_longest_leaves_in_one_piece(ends: tuple[MemoryPipe, MemoryPipe]) -> None:
    here, there = ends
    record = b"x" * here.largest_record
    assert Outgoing(record).push(here) == 0
    assert list(there._in.records) == [record]  # pyright: ignore[reportPrivateUsage]


def test_the_longest_record_waits_where_there_is_no_free_space(
    ends: tuple[MemoryPipe, MemoryPipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter([False, True])
    monkeypatch.setattr(ends[0], "try_push", lambda *arguments: next(tries))
    outgoing = Outgoing(b"x" * ends[0].largest_record)
    assert outgoing.push(ends[0]) == ends[0].largest_record
    assert outgoing.push(ends[0]) == 0


def test_an_image_envelope_that_is_too_long_for_a_record_is_left_to_fragments(
    ends: tuple[MemoryPipe, MemoryPipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[int] = []
    monkeypatch.setattr(ends[0], "push", lambda *fields: pushed.append(len(fields[2])) or True)
    queue, longest = SendQueue(ends[0]), ends[0].largest_record - IMAGE_BYTES
    image = ImageRef(1, 1, 0, 1)
    assert [queue.push(Kind.STREAM_ITEM, 1, bytes(size), 0, 0, 0, image) for size in (longest, longest + 1)] == [
        True,
        False,
    ]
    assert pushed == [longest]


def test_what_a_finalizer_sends_in_the_middle_of_another_record_leaves_after_it(
    ends: tuple[MemoryPipe, MemoryPipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (encode_envelope(Envelope(0, call, Kind.CANCEL)) for call in (1, 2))
    here, there = ends
    queue, push = SendQueue(here), here.try_push
    waiting = [second]

    def interrupted(*arguments: Any) -> bool:
        while waiting:
            queue.post_from_finalizer(waiting.pop())
        return push(*arguments)

    monkeypatch.setattr(here, "try_push", interrupted)
    queue.post(first, 1)
    records = there._in.records  # pyright: ignore[reportPrivateUsage]
    assert [decode_envelope(record).correlation_id for record in records] == [1, 2]
