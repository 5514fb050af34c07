"""Interceptors of grpc.aio, of both sides, over shared memory."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport_grpc.runtime import grpc


async def keys(request: bytes, context: Any) -> bytes:
    return " ".join(key for key, _ in context.invocation_metadata() if key != "user-agent").encode()


async def keys_stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    yield await keys(request, context)


async def keys_of_many(requests: AsyncIterator[bytes], context: Any) -> bytes:
    count = len([request async for request in requests])
    return b"%d %s" % (count, await keys(b"", context))


async def keys_both(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    yield await keys_of_many(requests, context)


KEYS = {
    "unary_unary Keys": keys,
    "unary_stream Keys1": keys_stream,
    "stream_unary Keys2": keys_of_many,
    "stream_stream Keys3": keys_both,
}


def _with(details: Any, key: str) -> Any:
    metadata = grpc.aio.Metadata(*(details.metadata or ()), (key, ""))
    return details._replace(metadata=metadata)


class UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, key: str) -> None:
        self._key = key

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(_with(client_call_details, self._key), request)


class UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(_with(client_call_details, "us"), request)


class StreamUnary(grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(_with(client_call_details, "su"), request_iterator)


class StreamStream(grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(_with(client_call_details, "ss"), request_iterator)


async def test_intercepted_streams_can_be_read_and_written(ends: Any) -> None:
    server = await ends.serve(KEYS)
    client = ends.dial(server, interceptors=[StreamUnary(), StreamStream()])
    call = client.stream_unary("Keys2")()
    await call.write(b"")
    await call.done_writing()
    assert await call == b"1 su"
    call = client.stream_stream("Keys3")()
    await call.write(b"")
    await call.done_writing()
    assert await call.read() == b"1 ss"
    assert await call.code() is grpc.StatusCode.OK


async def test_intercepted_calls_fail_and_are_cancelled_as_others_are(ends: Any, error_of: Any) -> None:
    async def wait(request: bytes, context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    server = await ends.serve({"unary_unary Wait": wait})
    client = ends.dial(server, interceptors=[UnaryUnary("one")])
    assert await error_of(client.unary_unary("Nothing")(b"")) == ("UNIMPLEMENTED", "Method not found!")
    assert (await error_of(client.unary_unary("Wait")(b"", timeout=0.02)))[0] == "DEADLINE_EXCEEDED"
    call = client.unary_unary("Wait")(b"")
    await asyncio.sleep(0.02)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_an_interceptor_of_several_kinds_counts_as_the_first(ends: Any) -> None:
    class Both(UnaryUnary, UnaryStream):
        pass

    client = ends.dial(await ends.serve(KEYS), interceptors=[Both("both")])
    assert await client.unary_unary("Keys")(b"") == b"both"
    assert [item async for item in client.unary_stream("Keys1")(b"")] == [b""]


async def test_what_is_no_interceptor_is_refused(ends: Any, address: Any) -> None:
    strangers: Any = [object()]
    with pytest.raises(ValueError, match="must be UnaryUnaryClientInterceptor or"):
        lucky_transport_stubs.aio_channel(address(), interceptors=strangers)
    with pytest.raises(ValueError, match="must be ServerInterceptor"):
        lucky_transport_stubs.aio_server(interceptors=strangers)


# -- of servers -------------------------------------------------------------------------------------------------------

_seen: contextvars.ContextVar[str] = contextvars.ContextVar("_seen", default="")


class Noting(grpc.aio.ServerInterceptor):
    def __init__(self, mark: str) -> None:
        self._mark = mark

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        _seen.set(_seen.get() + self._mark)
        return await continuation(handler_call_details)


async def seen(request: bytes, context: Any) -> bytes:
    return _seen.get().encode()


async def test_server_interceptors_are_asked_in_their_order_and_share_a_context_with_the_handler(ends: Any) -> None:
    client = await ends.pair({"unary_unary Seen": seen}, interceptors=[Noting("a"), Noting("b")])
    assert await client.unary_unary("Seen")(b"") == b"ab"
    assert await client.unary_unary("Seen")(b"") == b"ab"


async def test_a_server_interceptor_may_refuse_answer_and_send_elsewhere(ends: Any, error_of: Any) -> None:
    class Deciding(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            name = handler_call_details.method.rpartition("/")[2]
            if name == "Refuse":
                return None
            if name == "Raise":
                raise ValueError("not today")
            if name == "Abort":
                return grpc.unary_unary_rpc_method_handler(self._abort)
            if dict(handler_call_details.invocation_metadata).get("elsewhere"):
                return await continuation(_Details("/t.Test/Seen", handler_call_details.invocation_metadata))
            return await continuation(handler_call_details)

        async def _abort(self, request: bytes, context: Any) -> bytes:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "you may not")
            return b""

    client = await ends.pair({"unary_unary Seen": seen}, interceptors=[Noting("a"), Deciding()])
    assert await error_of(client.unary_unary("Refuse")(b"")) == ("UNIMPLEMENTED", "Method not found!")
    assert await error_of(client.unary_unary("Abort")(b"")) == ("PERMISSION_DENIED", "you may not")
    code, details = await error_of(client.unary_unary("Raise")(b""))
    assert (code, details) == ("UNKNOWN", "Unexpected <class 'ValueError'>: not today")
    assert await client.unary_unary("Elsewhere")(b"", metadata=(("elsewhere", "yes"),)) == b"a"


class _Details(grpc.HandlerCallDetails):
    def __init__(self, method: str, invocation_metadata: Any) -> None:
        self.method = method
        self.invocation_metadata = invocation_metadata
