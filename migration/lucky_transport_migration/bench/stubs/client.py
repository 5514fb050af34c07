"""The client program of a pair: `python -m lucky_transport_migration.bench.stubs.client`.

It reads a pickled Job from stdin, starts the server, measures, and writes the pickled Outcome to stdout. Answers are
checked while they are timed.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.process import python_command, unique_name
from lucky_transport_migration.bench.flow import StreamMeasurement, timed_flow
from lucky_transport_migration.bench.measuring import (
    CpuTimer,
    Effort,
    Look,
    Measurement,
    awaited_loop,
    measure_loop,
)
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.stubs.echo_stub import EchoStub
from lucky_transport_migration.bench.stubs.programs import Job, Outcome, ReadyServer, serving
from lucky_transport_migration.bench.stubs.server import ANY_LENGTH, NUMBER_BYTES, item_number, made
from lucky_transport_migration.bench.suite import Cell

_SERVER = "lucky_transport_migration.bench.stubs.server"
_NOTHING = np.zeros(0)  # the loops hand their "actions" to the step; a call brings its own request
_MOST_ITEMS = 4_000_000_000
_ASKED = "the number that it was asked with, which is all of it"
_TICK_S = 0.001


def measure(job: Job) -> dict[Cell, Measured]:
    """Return the measurements of the case's cells; the server has ended when this returns.

    Raises NotReachable when it does not start, RemoteProtocolError when an answer or an item is not the one due.
    """
    path, aio = job.case.path, job.case.what == "asyncio"
    with served(path, int(job.options["item_bytes"]), aio=aio) as server:
        if aio:
            return asyncio.run(_measure_aio(job, server))
        with made(path, "channel", server.ready, options=ANY_LENGTH) as channel:
            stub = EchoStub(channel)
            return {cell: _measure_cell(stub, cell, job, server.pid) for cell in job.case.cells}


@contextmanager
def served(path: str, item_bytes: int, *, aio: bool = False) -> Generator[ReadyServer]:
    """Yield a running server of `path`, whose `ready` is its target. Raises NotReachable when it does not start."""
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        addresses = {"shm": f"shm://{unique_name()}", "grpc-unix": f"unix:{directory}/server.sock"}
        address, flavour = addresses.get(path, "127.0.0.1:0"), "asyncio" if aio else "sync"
        with serving(f"over {path}", python_command(_SERVER, path, flavour, address, str(item_bytes))) as server:
            yield server


def _measure_cell(stub: Any, cell: Cell, job: Job, pid: int) -> Measured:
    chars, effort = int(job.options["text_chars"]), job.effort
    if cell.kind == "stream":
        return measure_stream(stub.Watch, int(job.options["item_bytes"]), effort, pid)
    if cell.kind == "callers":
        return measure_callers(stub.Ask, chars, int(job.options["callers"]), effort, pid)
    if cell.kind == "bytes":
        return measure_bytes(stub.Send, cell.size or 0, effort, pid)
    return measure_unary(stub.AskInline if cell.what == "inline" else stub.Ask, chars, cell.rate_hz, effort, pid)


async def _measure_aio(job: Job, server: ReadyServer) -> dict[Cell, Measured]:
    async with made(job.case.path, "aio_channel", server.ready) as channel:
        ask, chars = EchoStub(channel).Ask, int(job.options["text_chars"])
        return {cell: await measure_awaited(ask, chars, job.effort, server.pid) for cell in job.case.cells}


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
    look = Look(_ASKED, number_of)
    return measure_loop(lambda _: call(question(next(numbers), chars)), _NOTHING, effort, pid, look, rate_hz)


async def measure_awaited(call: Any, chars: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable of asyncio as `measure_unary` does, each call awaited before the next."""
    numbers = itertools.count(1)
    return await awaited_loop(lambda: call(question(next(numbers), chars)), effort, pid, Look(_ASKED, number_of))


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


def measure_callers(call: Any, chars: int, count: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of the calls of `count` threads on one channel; the first tenth of the time is warm-up.

    Raises RemoteProtocolError when an answer belongs to another call.
    """
    stop, counts = threading.Event(), [0] * count

    def run(index: int) -> None:
        number = index
        try:
            while not stop.is_set():
                answer = number_of(call(question(number, chars)))
                if answer != number:
                    raise RemoteProtocolError(f"call {number} was answered as call {answer}")
                counts[index] += 1
                number += count
        finally:
            stop.set()  # when one has failed the others need not go on

    def wait(seconds: float, more: int) -> None:
        end, least = time.perf_counter() + seconds, sum(counts) + more
        while not stop.is_set() and (time.perf_counter() < end or sum(counts) < least):
            time.sleep(min(_TICK_S, seconds))

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(run, index) for index in range(count)]
        try:
            wait(effort.budget_s / 10, count)
            watch, started, before = CpuTimer(pid), time.perf_counter_ns(), sum(counts)
            wait(effort.budget_s, effort.least)
            took, n = time.perf_counter_ns() - started, sum(counts) - before
            client, engine = watch.stop()
        finally:
            stop.set()
    for one in running:
        one.result()
    return StreamMeasurement(n, took, client, engine, watch.same_core(), looked_at=_ASKED)


def main() -> None:
    """Do one job."""
    job: Job = pickle.load(sys.stdin.buffer)
    try:
        outcome: Outcome = measure(job)
    except TransportError as error:
        outcome = error
    pickle.dump(outcome, sys.stdout.buffer)


if __name__ == "__main__":
    main()
