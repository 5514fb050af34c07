"""An asyncio server's life, and its blocking handlers, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until_in_loop


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


async def test_a_stop_with_grace_lets_calls_end_and_refuses_new_ones(ends: Any, error_of: Any) -> None:
    held = ends.held()
    server = await ends.serve({**held.methods, **ECHO})
    client = ends.dial(server)
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    stopping = asyncio.create_task(server.stop(1000))
    await asyncio.sleep(0)
    assert (await error_of(client.unary_unary("Echo")(b"")))[0] == "UNAVAILABLE"
    held.release.set()
    assert await call == b"done"
    await stopping


async def test_a_name_that_is_taken_and_other_addresses_are_refused(ends: Any) -> None:
    server = await ends.serve(ECHO)
    other = lucky_transport_stubs.aio_server()
    for address in (server.target, "127.0.0.1:0", "shm://"):
        with pytest.raises(RuntimeError, match="Failed to bind to address"):
            other.add_insecure_port(address)
    with pytest.raises(RuntimeError, match="Failed to bind to address"):
        other.add_secure_port(server.target, grpc.local_server_credentials())


async def test_a_server_listens_at_several_names(ends: Any, address: Any) -> None:
    server = ends.server(ECHO)
    targets = [address(), address(), address()]
    assert [server.add_insecure_port(target) for target in targets[:2]] == [1, 1]
    await server.start()
    await server.start()
    assert server.add_insecure_port(targets[2]) == 1
    for target in targets:
        assert await ends.dial(target).unary_unary("Echo")(b"x") == b"x"


async def test_a_server_that_was_never_stopped_leaves_nothing_behind(ends: Any, address: Any) -> None:
    server = lucky_transport_stubs.aio_server()
    server.add_insecure_port(address())
    started = lucky_transport_stubs.aio_server()
    started.add_generic_rpc_handlers(())
    started.add_insecure_port(target := address())
    await started.start()
    with pytest.raises(grpc.aio.AioRpcError):
        await ends.dial(target).unary_unary("Echo")(b"")


def test_a_program_that_ends_without_stopping_leaves_nothing_behind(ends: Any, address: Any) -> None:
    program = """
import asyncio, sys, lucky_transport_stubs
kept = []
async def main():
    kept.append(lucky_transport_stubs.aio_server())
    kept[0].add_insecure_port(sys.argv[1])
    await kept[0].start()
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program, address()], check=True, timeout=60)


@pytest.mark.exhaustive
async def test_a_caller_that_dies_ends_its_handlers(ends: Any) -> None:
    ended: list[str] = []
    program = """
import asyncio, os, sys, lucky_transport_stubs
async def main():
    call = lucky_transport_stubs.aio_channel(sys.argv[1]).unary_stream("/t.Test/Wait")(b"")
    await call.read()
    os._exit(1)
asyncio.run(main())
"""

    async def first_and_wait(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    server = await ends.serve({"unary_stream Wait": first_and_wait})
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program, server.target], check=False, timeout=60
    )
    assert process.returncode == 1
    await until_in_loop(lambda: ended)


async def test_a_handler_that_never_awaits_holds_up_no_cancellation_of_others(ends: Any) -> None:
    """A busy stream and many calls at once: the loop serves a little of each."""

    async def flood(request: bytes, context: Any) -> AsyncIterator[bytes]:
        while True:
            yield b"x"

    client = await ends.pair({"unary_stream Flood": flood, **ECHO})
    call = client.unary_stream("Flood")(b"")

    async def drain() -> None:
        async for _ in call:
            pass

    task = asyncio.create_task(drain())
    for number in range(20):
        assert await client.unary_unary("Echo")(b"%d" % number) == b"%d" % number
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_call_of_a_clean_run_is_logged_as_a_problem(ends: Any, caplog: pytest.LogCaptureFixture) -> None:
    held = ends.held()
    client = await ends.pair({**ECHO, **held.methods})
    await client.unary_unary("Echo")(b"")
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    call.cancel()
    await until_in_loop(lambda: held.ended)
    await ends.aclose()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_without_a_pool_blocking_handlers_run_in_the_loops(ends: Any) -> None:
    def name(request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    client = await ends.pair({"unary_unary Name": name})
    assert await client.unary_unary("Name")(b"") != threading.main_thread().name.encode()


async def test_a_blocking_generator_ends_when_its_caller_has_gone(ends: Any) -> None:
    ended: list[bool] = []

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            ended.append(context.is_active())

    client = await ends.pair({"unary_stream Endless": endless})
    call = client.unary_stream("Endless")(b"")
    await call.read()
    call.cancel()
    await until_in_loop(lambda: ended == [False])


async def test_a_callback_that_is_added_as_the_handler_ends_is_refused_or_runs(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the pool may have asked whether the call is active just before it ended."""
    contexts: list[Any] = []
    ran: list[str] = []

    def keep(request: bytes, context: Any) -> bytes:
        contexts.append(context)
        assert context.add_callback(lambda: ran.append("before the end"))
        return request

    client = await ends.pair({"unary_unary Keep": keep})
    assert await client.unary_unary("Keep")(b"x") == b"x"
    await until_in_loop(lambda: ran == ["before the end"])
    monkeypatch.setattr(contexts[0], "is_active", lambda: True)
    assert not contexts[0].add_callback(lambda: ran.append("after the end"))
    assert ran == ["before the end"]


async def test_an_abort_with_a_status_keeps_the_details_set_before(ends: Any, error_of: Any) -> None:
    class Status(grpc.Status):
        code, details, trailing_metadata = grpc.StatusCode.ABORTED, "", ()

    async def abort(request: bytes, context: Any) -> None:
        context.set_details("set before")
        await context.abort_with_status(Status())

    client = await ends.pair({"unary_unary Abort": abort})
    assert await error_of(client.unary_unary("Abort")(b"")) == ("ABORTED", "set before")


async def test_the_context_of_a_blocking_handler_has_more_than_grpcs(ends: Any, error_of: Any) -> None:
    told = threading.Event()

    def cancel(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.DATA_LOSS)
        context.set_details("lost")
        assert (context.code(), context.details()) == (grpc.StatusCode.DATA_LOSS, "lost")
        assert context.is_active()
        assert context.add_callback(told.set)
        assert context.cancel()
        return b""

    client = await ends.pair({"unary_unary Cancel": cancel})
    assert (await error_of(client.unary_unary("Cancel")(b"")))[0] == "CANCELLED"
    await until_in_loop(told.is_set)
