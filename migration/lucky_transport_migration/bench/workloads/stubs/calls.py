"""Timing the calls of a stub, one after the other, with their answers checked meanwhile."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.flow import StreamMeasurement, timed_flow
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, awaited_loop, measure_loop
from lucky_transport_migration.bench.workloads.stubs.servicers import NUMBER_BYTES, item_number

__all__ = ["ASKED", "measure_awaited", "measure_bytes", "measure_stream", "measure_unary", "number_of", "question"]

_NOTHING = np.zeros(0)  # the loops hand their "actions" to the step; a call brings its own request
_MOST_ITEMS = 4_000_000_000
ASKED = "the number that it was asked with, which is all of it"


def question(number: int, chars: int) -> StringValue:
    """Return request `number`, `chars` characters long."""
    return StringValue(value=f"{number:0{chars}d}")


def number_of(answer: StringValue) -> int:
    """Return the number of the request that an answer belongs to."""
    return int(answer.value)


def measure_unary(call: Any, chars: int, rate_hz: int | None, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable that answers with its request, so that no answer can be taken for another.

    Raises RemoteProtocolError when an answer is not the one that was due.
    """
    numbers = itertools.count(1)

    def ask(_: Any) -> StringValue:
        return call(question(next(numbers), chars))

    return measure_loop(ask, _NOTHING, effort, pid, Look(ASKED, number_of), rate_hz)


def measure_bytes(call: Any, size: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable that answers with the `size` bytes that it is given.

    Raises RemoteProtocolError when an answer is not the one that was due.
    """
    numbers, padding = itertools.count(1), bytes(size - NUMBER_BYTES)

    def send(_: Any) -> BytesValue:
        return call(BytesValue(value=next(numbers).to_bytes(NUMBER_BYTES, "little") + padding))

    def check(answer: BytesValue) -> int:
        if len(answer.value) != size:
            raise RemoteProtocolError(f"an answer of {len(answer.value)} bytes to a request of {size}")
        return item_number(answer)

    return measure_loop(send, _NOTHING, effort, pid, Look("its number and its length", check))


async def measure_awaited(call: Any, chars: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable of asyncio as `measure_unary` does, each call awaited before the next."""
    numbers = itertools.count(1)
    return await awaited_loop(lambda: call(question(next(numbers), chars)), effort, pid, Look(ASKED, number_of))


def measure_stream(call: Any, item_bytes: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of a unary-stream callable's items.

    Raises RemoteProtocolError when an item is not the one that was due.
    """
    expected = itertools.count()

    def check(item: BytesValue) -> None:
        due = next(expected)
        if item_number(item) != due or len(item.value) != item_bytes:
            raise RemoteProtocolError(
                f"item {item_number(item)} of {len(item.value)} bytes where item {due} of {item_bytes} was due"
            )

    stream = call(UInt64Value(value=_MOST_ITEMS))
    try:
        return timed_flow(stream, Look("its number and its length", check), effort, pid)
    finally:
        stream.cancel()
