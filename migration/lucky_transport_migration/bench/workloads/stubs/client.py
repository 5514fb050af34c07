"""What the client of a pair measures."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lucky_transport.process import python_command
from lucky_transport_migration.bench.processes import ServerProcess
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import Cell
from lucky_transport_migration.bench.workloads.stubs.callers import measure_callers
from lucky_transport_migration.bench.workloads.stubs.calls import (
    measure_awaited,
    measure_bytes,
    measure_stream,
    measure_unary,
)
from lucky_transport_migration.bench.workloads.stubs.echo_stub import EchoStub
from lucky_transport_migration.bench.workloads.stubs.pair import Job
from lucky_transport_migration.bench.workloads.stubs.variants import ANY_LENGTH, free_address, way_of

__all__ = ["measure", "serving"]

_SERVER = "lucky_transport_migration.bench.workloads.stubs.server_program"


def measure(job: Job) -> dict[Cell, Measured]:
    """Return the measurements of the case's cells; the server has ended when this returns.

    Raises NotReachable when it does not start, RemoteProtocolError when an answer or an item is not the one due.
    """
    aio = job.case.what == "asyncio"
    with serving(job.case.path, int(job.options["item_bytes"]), aio=aio) as server:
        if aio:
            return asyncio.run(_measure_aio(job, server))
        with way_of(job.case.path).channel(server.ready, options=ANY_LENGTH) as channel:
            stub = EchoStub(channel)
            return {cell: _measure_cell(stub, cell, job, server.pid) for cell in job.case.cells}


@contextmanager
def serving(path: str, item_bytes: int, *, aio: bool = False) -> Generator[ServerProcess]:
    """Yield a running server of `path`, whose `ready` is its target. Raises NotReachable when it does not start."""
    with tempfile.TemporaryDirectory(prefix="lucky_bench_") as directory:
        flavour, address = "asyncio" if aio else "sync", free_address(path, Path(directory))
        command = python_command(_SERVER, path, flavour, address, str(item_bytes))
        with ServerProcess(f"over {path}", command) as server:
            yield server


def _measure_cell(stub: Any, cell: Cell, job: Job, pid: int) -> Measured:
    chars, effort = int(job.options["text_chars"]), job.effort
    if cell.kind == "stream":
        return measure_stream(stub.Watch, int(job.options["item_bytes"]), effort, pid)
    if cell.kind == "callers":
        return measure_callers(stub.Ask, chars, int(job.options["callers"]), effort, pid)
    if cell.kind == "bytes":
        return measure_bytes(stub.Send, cell.size or 0, effort, pid)
    call = stub.AskInline if cell.what == "inline" else stub.Ask
    return measure_unary(call, chars, cell.rate_hz, effort, pid)


async def _measure_aio(job: Job, server: ServerProcess) -> dict[Cell, Measured]:
    async with way_of(job.case.path).aio_channel(server.ready) as channel:
        stub = EchoStub(channel)
        chars = int(job.options["text_chars"])
        return {cell: await measure_awaited(stub.Ask, chars, job.effort, server.pid) for cell in job.case.cells}
