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
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import repeat
from subprocess import PIPE, Popen
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.process import python_command, unique_name
from lucky_transport_migration.bench.flow import StreamMeasurement, in_order, timed_flow
from lucky_transport_migration.bench.measuring import (
    Effort,
    Look,
    Measurement,
    awaited_loop,
    measure_bytes,
    measure_calls,
)
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.stubs.echo_stub import EchoStub
from lucky_transport_migration.bench.stubs.programs import Job, Outcome, ReadyServer, serving
from lucky_transport_migration.bench.stubs.server import ANY_LENGTH, item_number, made
from lucky_transport_migration.bench.suite import Cell

_SERVER = "lucky_transport_migration.bench.stubs.server"
_MOST_ITEMS = 4_000_000_000
_ASKED = "the number that it was asked with, which is all of it"
_TICK_S = 0.001
_NO_PORT = "127.0.0.1:1"
#: So many calls are under way at a time, where several are.
TOGETHER = 20


def measure(job: Job) -> dict[Cell, Measured]:
    """Return the measurements of the case's cells; the server has ended when this returns.

    Raises NotReachable when it does not start, RemoteProtocolError when an answer or an item is not the one due.
    """
    path, flavour = job.case.path, job.case.what if job.case.what in ("asyncio", "uvloop") else "sync"
    if path == "pipes":
        chars = int(job.options["text_chars"])
        return {cell: measure_pipes(chars, cell.rate_hz, job.effort) for cell in job.case.cells}
    with served(path, int(job.options["item_bytes"]), flavour) as server:
        if flavour != "sync":
            return import_module(flavour).run(_measure_aio(job, server))
        with made(path, "channel", server.target, options=ANY_LENGTH) as channel:
            stub = EchoStub(channel)
            return {cell: _measure_cell(stub, cell, job, server) for cell in job.case.cells}


@contextmanager
def served(path: str, item_bytes: int, flavour: str = "sync") -> Generator[ReadyServer]:
    """Yield a running server of `path`. Raises NotReachable when it does not start."""
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        addresses = {"shm": f"shm://{unique_name()}", "grpc-unix": f"unix:{directory}/server.sock"}
        address = addresses.get(path, "127.0.0.1:0")
        with serving(f"over {path}", python_command(_SERVER, path, flavour, address, str(item_bytes))) as server:
            yield server


def _measure_cell(stub: Any, cell: Cell, job: Job, server: ReadyServer) -> Measured:
    chars, effort, pid = int(job.options["text_chars"]), job.effort, server.pid
    if cell.kind == "stream":
        return measure_stream(stub.Watch, int(job.options["item_bytes"]), effort, pid)
    if cell.kind == "callers":
        return measure_callers(stub.Ask, chars, int(job.options["callers"]), effort, pid)
    if cell.kind == "bytes":
        send = stub.Send
        return measure_bytes(lambda value: send(BytesValue(value=value)), "value", cell.size or 0, effort, pid)
    calls: dict[str, Any] = {
        "futures": partial(ask_together, stub.Ask.future),
        "channel": partial(ask_once, cell.path, server.target),
        "absent": partial(ask_nobody, cell.path, _NO_PORT if cell.path == "grpc-tcp" else f"{server.target}_absent"),
    }
    call = calls.get(cell.kind, stub.AskInline if cell.what == "inline" else stub.Ask)
    return measure_unary(call, chars, cell.rate_hz, effort, pid)


def ask_together(start: Any, request: StringValue) -> StringValue:
    """Start `TOGETHER` calls and return their answer; raises RemoteProtocolError unless all have the same."""
    futures = [start(request) for _ in range(TOGETHER)]
    return _common([future.result() for future in futures])


async def ask_gathered(call: Any, request: StringValue) -> StringValue:
    """Return the answer to `TOGETHER` calls of asyncio; raises RemoteProtocolError unless all have the same."""
    return _common(await asyncio.gather(*(call(request) for _ in range(TOGETHER))))


def _common(answers: list[StringValue]) -> StringValue:
    if any(answer != answers[0] for answer in answers):
        raise RemoteProtocolError(f"calls {answers} were answered together")
    return answers[0]


def ask_once(path: str, target: str, request: StringValue) -> StringValue:
    """Return the answer to a call on a channel of its own."""
    with made(path, "channel", target) as channel:
        return EchoStub(channel).Ask(request)


def ask_nobody(path: str, target: str, request: StringValue) -> StringValue:
    """Return the request once a call has failed because there is no server."""
    with made(path, "channel", target) as channel:
        error = EchoStub(channel).Ask.future(request).exception()
    if error is None or error.code() is not grpc.StatusCode.UNAVAILABLE:
        raise RemoteProtocolError(f"{target}, where no server should be, ended a call with {error!r}")
    return request


async def _measure_aio(job: Job, server: ReadyServer) -> dict[Cell, Measured]:
    async with made(job.case.path, "aio_channel", server.target) as channel:
        ask, chars = EchoStub(channel).Ask, int(job.options["text_chars"])
        calls = {"": ask, "together": partial(ask_gathered, ask)}
        return {cell: await measure_awaited(calls[cell.what], chars, job.effort, server.pid) for cell in job.case.cells}


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
    return measure_calls(lambda number: call(question(number, chars)), Look(_ASKED, number_of), effort, pid, rate_hz)


async def measure_awaited(call: Any, chars: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable of asyncio as `measure_unary` does, each call awaited before the next."""
    numbers = itertools.count(1)
    return await awaited_loop(lambda: call(question(next(numbers), chars)), effort, pid, Look(_ASKED, number_of))


def measure_pipes(chars: int, rate_hz: int | None, effort: Effort) -> Measurement:
    """Time the messages of such calls through a pipe to `cat`, and through another one back."""
    with Popen(["cat"], bufsize=0, stdin=PIPE, stdout=PIPE) as cat:
        assert cat.stdin
        assert cat.stdout
        write, read = cat.stdin.write, cat.stdout.read

        def send(request: StringValue) -> StringValue:
            write(request.value.encode())
            return StringValue(value=read(chars).decode())

        return measure_unary(send, chars, rate_hz, effort, cat.pid)


def measure_stream(call: Any, item_bytes: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of a unary-stream callable's items.

    Raises RemoteProtocolError when an item is not the one that was due.
    """
    stream = call(UInt64Value(value=_MOST_ITEMS))
    try:
        return timed_flow(stream, in_order(item_number, lambda item: item.value, item_bytes), effort, pid)
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

    def finished() -> Iterator[None]:
        seen = 0
        while not stop.wait(_TICK_S):
            now = sum(counts)
            yield from repeat(None, now - seen)
            seen = now

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(run, index) for index in range(count)]
        try:
            return timed_flow(finished(), Look(_ASKED, lambda _: None), effort, pid)
        finally:
            stop.set()
            for one in running:
                one.result()


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
