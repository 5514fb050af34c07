"""Calls of grpc.aio over shared memory, beside what `differential` compares with gRPC's own."""

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import grpc
import pytest

from tests.support.waiting import until_in_loop

from ..differential.aio_ends import attempt
from .conftest import ECHO, Held, OurAioEnds, code_of


async def keys(request: bytes, context: Any) -> bytes:
    return " ".join(key for key, _ in context.invocation_metadata() if key != "user-agent").encode()


@pytest.mark.parametrize("metadata", [(("A B", "x"),), (("key", "a\nb"),)])
async def test_invalid_metadata_fail_the_call_in_each_arity(aio: OurAioEnds, metadata: Any) -> None:
    client = await aio.pair(ECHO)
    for call in (
        client.unary_unary("Echo")(b"", metadata=metadata),
        client.stream_unary("Echo")([b""], metadata=metadata),
        client.unary_stream("Echo")(b"", metadata=metadata).read(),
        client.stream_stream("Echo")([b""], metadata=metadata).read(),
    ):
        error = (await attempt(call))["raised"]
        assert (error["code"], error["details"]) == ("INTERNAL", "Invalid metadata")


async def test_the_text_of_a_call_that_failed_names_its_status_and_why(aio: OurAioEnds) -> None:
    call = (await aio.pair(ECHO)).unary_unary("Missing")(b"")
    await call.code()
    assert "status = StatusCode.UNIMPLEMENTED" in repr(call)
    assert f'debug_error_string = "{await call.debug_error_string()}"' in repr(call)


@pytest.mark.parametrize("message", ["text", 3, bytearray(b"x")])
async def test_what_is_no_bytes_is_refused_where_it_is_given(aio: OurAioEnds, message: Any) -> None:
    client = await aio.pair(ECHO)
    with pytest.raises(TypeError, match="expected bytes"):
        await client.unary_unary("Echo")(message)
    call = client.stream_unary("Echo")()
    with pytest.raises(TypeError, match="expected bytes"):
        await call.write(message)
    call.cancel()


async def test_an_interceptor_of_several_kinds_counts_as_the_first(aio: OurAioEnds) -> None:
    class Both(grpc.aio.UnaryUnaryClientInterceptor, grpc.aio.UnaryStreamClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            changed = client_call_details._replace(metadata=grpc.aio.Metadata(("both", "")))
            return await continuation(changed, request)

        intercept_unary_stream = intercept_unary_unary

    server = await aio.serve({"unary_unary Keys": keys})
    client = aio.dial(server, interceptors=[Both()])
    assert await client.unary_unary("Keys")(b"") == b"both"
    assert [item async for item in client.unary_stream("Keys")(b"")] == [b""]


async def test_a_call_cancelled_before_it_began_never_reaches_the_server(aio: OurAioEnds) -> None:
    held = Held()
    client = await aio.pair({**held.methods, **ECHO})
    call = client.unary_unary("Hold")(b"")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert held.begun == 0


async def test_a_stream_that_is_dropped_is_cancelled(aio: OurAioEnds) -> None:
    held = Held()
    call = (await aio.pair(held.methods)).unary_stream("HoldStream")(b"")
    assert await call.read() == b"first"
    await until_in_loop(lambda: held.begun)
    del call
    gc.collect()
    await until_in_loop(lambda: held.ended)


async def test_a_handler_that_cancels_ends_its_call_as_cancelled(aio: OurAioEnds) -> None:
    async def cancel(request: bytes, context: Any) -> bytes:
        raise asyncio.CancelledError

    client = await aio.pair({"unary_unary Cancel": cancel})
    assert await code_of(client.unary_unary("Cancel")(b"")) == "CANCELLED"


async def test_the_handlers_own_clock_cancels_it_though_the_caller_says_nothing(aio: OurAioEnds) -> None:
    held = Held()
    call = (await aio.pair(held.methods)).unary_unary("Hold")(b"", timeout=1.0)
    await until_in_loop(lambda: held.begun)
    call._cython_call._timer.cancel()  # pyright: ignore - a caller whose clock stands still
    await until_in_loop(lambda: held.ended)
    assert not call.done()


async def test_a_handler_that_ignores_its_cancellation_hurts_nobody(aio: OurAioEnds) -> None:
    async def stubborn(request: bytes, context: Any) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"too late"
        return b""

    client = await aio.pair({"unary_unary Stubborn": stubborn, **ECHO})
    assert await code_of(client.unary_unary("Stubborn")(b"", timeout=0.02)) == "DEADLINE_EXCEEDED"
    assert await client.unary_unary("Echo")(b"x") == b"x"


async def test_a_generator_whose_call_is_cancelled_ends_in_the_context_it_began_in(aio: OurAioEnds) -> None:
    scope: ContextVar[int] = ContextVar("scope")
    ended: list[str] = []

    async def fill(request: bytes, context: Any) -> AsyncIterator[bytes]:
        token = scope.set(1)
        try:
            while True:  # more than is on the way at a time: the call is cancelled while a response waits to be sent
                yield bytes(1 << 16)
        finally:
            try:
                scope.reset(token)
                ended.append("here")
            except ValueError:
                ended.append("elsewhere")

    call = (await aio.pair({"unary_stream Fill": fill})).unary_stream("Fill")(b"")
    async for _ in call:
        break
    call.cancel()
    await until_in_loop(lambda: ended)
    assert ended == ["here"]


async def test_a_server_that_takes_nothing_holds_up_the_writer_and_nobody_else(aio: OurAioEnds) -> None:
    async def deaf(requests: AsyncIterator[bytes], context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    client = await aio.pair({"stream_unary Deaf": deaf, **ECHO})
    call = client.stream_unary("Deaf")()

    async def write_for_ever() -> None:
        while True:
            await call.write(bytes(1000))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(write_for_ever(), 0.2)
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert call.cancelled()


async def test_no_call_of_a_clean_run_is_logged_as_a_problem(aio: OurAioEnds, caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    client = await aio.pair({**ECHO, **held.methods})
    await client.unary_unary("Echo")(b"")
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    call.cancel()
    await until_in_loop(lambda: held.ended)
    await aio.aclose()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_without_a_pool_blocking_handlers_run_in_the_loops(aio: OurAioEnds) -> None:
    def name(request: bytes, context: Any) -> bytes:
        return threading.current_thread().name.encode()

    client = await aio.pair({"unary_unary Name": name})
    assert await client.unary_unary("Name")(b"") != threading.main_thread().name.encode()


async def test_a_blocking_generator_ends_when_its_caller_has_gone(aio: OurAioEnds) -> None:
    ended: list[bool] = []

    def endless(request: bytes, context: Any) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            ended.append(context.is_active())

    client = await aio.pair({"unary_stream Endless": endless})
    call = client.unary_stream("Endless")(b"")
    await call.read()
    call.cancel()
    await until_in_loop(lambda: ended == [False])


async def test_a_callback_that_is_added_as_the_handler_ends_is_refused_or_runs(
    aio: OurAioEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the pool may have asked whether the call is active just before it ended."""
    contexts: list[Any] = []
    ran: list[str] = []

    def keep(request: bytes, context: Any) -> bytes:
        contexts.append(context)
        assert context.add_callback(lambda: ran.append("before the end"))
        return request

    client = await aio.pair({"unary_unary Keep": keep})
    assert await client.unary_unary("Keep")(b"x") == b"x"
    await until_in_loop(lambda: ran == ["before the end"])
    monkeypatch.setattr(contexts[0], "is_active", lambda: True)
    assert not contexts[0].add_callback(lambda: ran.append("after the end"))
    assert ran == ["before the end"]


async def test_an_abort_with_a_status_keeps_the_details_set_before(aio: OurAioEnds) -> None:
    class Status(grpc.Status):
        code, details, trailing_metadata = grpc.StatusCode.ABORTED, "", ()

    async def abort(request: bytes, context: Any) -> None:
        context.set_details("set before")
        await context.abort_with_status(Status())

    client = await aio.pair({"unary_unary Abort": abort})
    error = (await attempt(client.unary_unary("Abort")(b"")))["raised"]
    assert (error["code"], error["details"]) == ("ABORTED", "set before")


async def test_the_context_of_a_blocking_handler_has_more_than_grpcs(aio: OurAioEnds) -> None:
    told = threading.Event()

    def cancel(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.DATA_LOSS)
        context.set_details("lost")
        assert (context.code(), context.details()) == (grpc.StatusCode.DATA_LOSS, "lost")
        assert context.is_active()
        assert context.add_callback(told.set)
        assert context.cancel()
        return b""

    client = await aio.pair({"unary_unary Cancel": cancel})
    assert await code_of(client.unary_unary("Cancel")(b"")) == "CANCELLED"
    await until_in_loop(told.is_set)
