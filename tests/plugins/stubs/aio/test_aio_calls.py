"""Calls of grpc.aio over shared memory, beside what `differential` compares with gRPC's own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until_in_loop


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


async def keys(request: bytes, context: Any) -> bytes:
    return " ".join(key for key, _ in context.invocation_metadata() if key != "user-agent").encode()


@pytest.mark.parametrize("metadata", [(("A B", "x"),), (("key", "a\nb"),)])
async def test_invalid_metadata_fail_the_call_in_each_arity(ends: Any, error_of: Any, metadata: Any) -> None:
    client = await ends.pair(ECHO)
    for call in (
        client.unary_unary("Echo")(b"", metadata=metadata),
        client.stream_unary("Echo")([b""], metadata=metadata),
        client.unary_stream("Echo")(b"", metadata=metadata).read(),
        client.stream_stream("Echo")([b""], metadata=metadata).read(),
    ):
        assert await error_of(call) == ("INTERNAL", "Invalid metadata")


async def test_the_text_of_a_call_that_failed_names_its_status_and_why(ends: Any) -> None:
    call = (await ends.pair(ECHO)).unary_unary("Missing")(b"")
    await call.code()
    assert "status = StatusCode.UNIMPLEMENTED" in repr(call)
    assert f'debug_error_string = "{await call.debug_error_string()}"' in repr(call)


@pytest.mark.parametrize("message", ["text", 3, bytearray(b"x")])
async def test_what_is_no_bytes_is_refused_where_it_is_given(ends: Any, message: Any) -> None:
    client = await ends.pair(ECHO)
    with pytest.raises(TypeError, match="expected bytes"):
        await client.unary_unary("Echo")(message)
    call = client.stream_unary("Echo")()
    with pytest.raises(TypeError, match="expected bytes"):
        await call.write(message)
    call.cancel()


async def test_an_interceptor_of_several_kinds_counts_as_the_first(ends: Any) -> None:
    class Both(grpc.aio.UnaryUnaryClientInterceptor, grpc.aio.UnaryStreamClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            changed = client_call_details._replace(metadata=grpc.aio.Metadata(("both", "")))
            return await continuation(changed, request)

        intercept_unary_stream = intercept_unary_unary

    server = await ends.serve({"unary_unary Keys": keys})
    client = ends.dial(server, interceptors=[Both()])
    assert await client.unary_unary("Keys")(b"") == b"both"
    assert [item async for item in client.unary_stream("Keys")(b"")] == [b""]


async def test_intercepted_calls_fail_and_are_cancelled_as_others_are(ends: Any, error_of: Any) -> None:
    class Passing(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            return await continuation(client_call_details, request)

    held = ends.held()
    client = ends.dial(await ends.serve(held.methods), interceptors=[Passing()])
    assert (await error_of(client.unary_unary("Nothing")(b"")))[0] == "UNIMPLEMENTED"
    assert (await error_of(client.unary_unary("Hold")(b"", timeout=0.02)))[0] == "DEADLINE_EXCEEDED"
    call = client.unary_unary("Hold")(b"")
    await until_in_loop(lambda: held.begun)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_server_that_takes_nothing_holds_up_the_writer_and_nobody_else(ends: Any) -> None:
    async def deaf(requests: AsyncIterator[bytes], context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    client = await ends.pair({"stream_unary Deaf": deaf, **ECHO})
    call = client.stream_unary("Deaf")()

    async def write_for_ever() -> None:
        while True:
            await call.write(bytes(1000))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(write_for_ever(), 0.2)
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert call.cancelled()


async def test_a_request_longer_than_the_ring_does_not_hold_up_the_loop(ends: Any) -> None:
    """The server reads nothing meanwhile: it is the loop that must be free to let it."""

    async def length(request: bytes, context: Any) -> bytes:
        return b"%d" % len(request)

    async def lengths(requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b"%d" % sum([len(request) async for request in requests])

    options = (("grpc.max_receive_message_length", -1),)
    client = await ends.pair({"unary_unary Length": length, "stream_unary Lengths": lengths}, options=options)
    assert await client.unary_unary("Length")(bytes(20_000_000)) == b"20000000"
    assert await client.stream_unary("Lengths")([bytes(5_000_000)] * 4) == b"20000000"


async def test_a_call_cancelled_before_it_began_never_reaches_the_server(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair({**held.methods, **ECHO})
    call = client.unary_unary("Hold")(b"")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert held.begun == 0


async def test_a_stream_that_is_dropped_is_cancelled(ends: Any) -> None:
    held = ends.held()
    call = (await ends.pair(held.methods)).unary_stream("HoldStream")(b"")
    assert await call.read() == b"first"
    await until_in_loop(lambda: held.begun)
    del call
    gc.collect()
    await until_in_loop(lambda: held.ended)


async def test_a_handler_that_cancels_ends_its_call_as_cancelled(ends: Any, error_of: Any) -> None:
    async def cancel(request: bytes, context: Any) -> bytes:
        raise asyncio.CancelledError

    client = await ends.pair({"unary_unary Cancel": cancel})
    assert (await error_of(client.unary_unary("Cancel")(b"")))[0] == "CANCELLED"


async def test_the_handlers_own_clock_cancels_it_though_the_caller_says_nothing(ends: Any) -> None:
    held = ends.held()
    call = (await ends.pair(held.methods)).unary_unary("Hold")(b"", timeout=1.0)
    await until_in_loop(lambda: held.begun)
    call._cython_call._timer.cancel()  # pyright: ignore - a caller whose clock stands still
    await until_in_loop(lambda: held.ended)
    assert not call.done()


async def test_a_handler_that_ignores_its_cancellation_hurts_nobody(ends: Any, error_of: Any) -> None:
    async def stubborn(request: bytes, context: Any) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"too late"
        return b""

    client = await ends.pair({"unary_unary Stubborn": stubborn, **ECHO})
    assert (await error_of(client.unary_unary("Stubborn")(b"", timeout=0.02)))[0] == "DEADLINE_EXCEEDED"
    assert await client.unary_unary("Echo")(b"x") == b"x"


@pytest.mark.parametrize("timeout", [-1, 0])
async def test_a_call_without_time_fails_at_once(ends: Any, error_of: Any, timeout: float) -> None:
    client = await ends.pair(ECHO)
    assert (await error_of(client.unary_unary("Echo")(b"", timeout=timeout)))[0] == "DEADLINE_EXCEEDED"


async def test_a_generator_whose_call_is_cancelled_ends_in_the_context_it_began_in(ends: Any) -> None:
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

    call = (await ends.pair({"unary_stream Fill": fill})).unary_stream("Fill")(b"")
    async for _ in call:
        break
    call.cancel()
    await until_in_loop(lambda: ended)
    assert ended == ["here"]
