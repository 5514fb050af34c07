"""What handlers say and are told: statuses, exceptions, messages, the call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc

OK = grpc.StatusCode.OK


async def echo(request: bytes, context: Any) -> bytes:
    return request


ECHO = {"unary_unary Echo": echo}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
        (5, "NOT_FOUND"),
        (999, "UNKNOWN"),
        ("text", "UNKNOWN"),
        (OK, "UNKNOWN"),
    ],
)
async def test_abort_ends_the_call_with_its_status(ends: Any, error_of: Any, code: Any, expected: str) -> None:
    async def abort(request: bytes, context: Any) -> bytes:
        await context.abort(code, "not here", (("key", "value"),))
        raise AssertionError("abort returned")

    async def abort_stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await context.abort(code, "not here", (("key", "value"),))

    client = await ends.pair({"unary_unary Abort": abort, "unary_stream Aborts": abort_stream})
    call = client.unary_unary("Abort")(b"")
    assert await error_of(call) == (expected, "not here")
    assert await call.trailing_metadata() == grpc.aio.Metadata(("key", "value"))
    stream = client.unary_stream("Aborts")(b"")
    assert await stream.read() == b"first"
    assert await error_of(stream.read()) == (expected, "not here")


async def test_abort_takes_what_was_set_before(ends: Any, error_of: Any) -> None:
    async def abort(request: bytes, context: Any) -> bytes:
        context.set_details("set before")
        context.set_trailing_metadata((("key", "before"),))
        await context.abort_with_status(_Status())
        return b""

    client = await ends.pair({"unary_unary Abort": abort})
    call = client.unary_unary("Abort")(b"")
    assert await error_of(call) == ("ABORTED", "set before")
    assert await call.trailing_metadata() == grpc.aio.Metadata(("key", "before"))


class _Status(grpc.Status):
    code = grpc.StatusCode.ABORTED
    details = ""
    trailing_metadata = ()


async def test_an_abort_that_the_handler_swallows_stands(
    ends: Any, error_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def swallow(request: bytes, context: Any) -> bytes:
        with pytest.raises(grpc.aio.AbortError):
            await context.abort(grpc.StatusCode.ABORTED, "first")
        with pytest.raises(grpc.aio.UsageError, match="Abort already called"):
            await context.abort(grpc.StatusCode.ABORTED, "second")
        with pytest.raises(grpc.aio.AbortError):
            await context.write(b"")
        assert context.done()
        return b"never seen"

    client = await ends.pair({"unary_unary Swallow": swallow})
    assert await error_of(client.unary_unary("Swallow")(b"")) == ("ABORTED", "first")
    await ends.aclose()
    assert not [record for record in caplog.records if "Unexpected" in record.message]


async def test_a_status_that_is_set_goes_with_the_end(ends: Any, error_of: Any) -> None:
    async def set_both(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.DATA_LOSS)
        context.set_details("some is lost")
        assert (context.code(), context.details()) == (grpc.StatusCode.DATA_LOSS, "some is lost")
        if request:
            raise ValueError("and more")
        return b"dropped"

    client = await ends.pair({"unary_unary Set": set_both})
    assert await error_of(client.unary_unary("Set")(b"")) == ("DATA_LOSS", "some is lost")
    unexpected = ("DATA_LOSS", "Unexpected <class 'ValueError'>: and more")
    assert await error_of(client.unary_unary("Set")(b"x")) == unexpected


async def test_what_a_handler_raises_is_told_and_logged(
    ends: Any, error_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(request: bytes, context: Any) -> bytes:
        raise ValueError("boom")

    async def fail_stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        raise ValueError("boom")

    async def foreign(request: bytes, context: Any) -> bytes:
        raise grpc.aio.AbortError("not ours")

    client = await ends.pair(
        {"unary_unary Fail": fail, "stream_stream Fails": fail_stream, "unary_unary Foreign": foreign}
    )
    words = ("UNKNOWN", "Unexpected <class 'ValueError'>: boom")
    assert await error_of(client.unary_unary("Fail")(b"")) == words
    stream = client.stream_stream("Fails")([])
    assert await stream.read() == b"first"
    assert await error_of(stream.read()) == words
    code, details = await error_of(client.unary_unary("Foreign")(b""))
    assert (code, details) == ("UNKNOWN", "Unexpected <class 'AssertionError'>: Abort error has been replaced!")
    await ends.aclose()
    assert "Unexpected [ValueError] raised by servicer method [/t.Test/Fail]" in caplog.text


async def test_messages_are_what_the_serializers_make_of_them(ends: Any, error_of: Any) -> None:
    async def double(request: str, context: Any) -> Any:
        return {"none": None, "int": 3, "text": "text"}.get(request, request)

    plain = grpc.unary_unary_rpc_method_handler(double, request_deserializer=bytes.decode)
    coded = grpc.unary_unary_rpc_method_handler(
        double, request_deserializer=bytes.decode, response_serializer=str.encode
    )
    client = await ends.pair({"unary_unary Plain": plain, "unary_unary Coded": coded})
    assert await client.unary_unary("Plain")(b"none") == b""
    assert await client.unary_unary("Plain")(b"text") == b"text"
    assert await error_of(client.unary_unary("Plain")(b"int")) == (
        "UNKNOWN",
        "Unexpected <class 'TypeError'>: Expected bytes, got int",
    )
    assert (await error_of(client.unary_unary("Plain")(b"\xff")))[0] == "UNKNOWN"
    assert (await error_of(client.unary_unary("Coded")(b"none")))[0] == "UNKNOWN"
    method = client.channel.unary_unary("/t.Test/Plain", str.encode, bytes.decode)
    assert await method("hello") == "hello"


async def test_the_context_tells_who_calls(ends: Any) -> None:
    async def facts(request: bytes, context: Any) -> bytes:
        assert context.peer_identities() is None
        assert context.peer_identity_key() is None
        assert context.auth_context()["transport_security_type"] == [b"insecure"]
        assert context.invocation_metadata()[0].key == "user-agent"
        assert not context.done()
        assert not context.cancelled()
        context.disable_next_message_compression()
        return context.peer().encode()

    server = await ends.serve({"unary_unary Facts": facts})
    one, other = ends.dial(server), ends.dial(server, options=(("grpc.use_local_subchannel_pool", 1),))
    peers = [await client.unary_unary("Facts")(b"") for client in (one, one, other)]
    assert peers[0] == peers[1] != peers[2]


async def test_a_handler_of_another_arity_gets_what_there_is(ends: Any, error_of: Any) -> None:
    async def first(requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b" ".join([request async for request in requests])

    async def one(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield request

    async def two(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield request
        yield request

    async def none(request: bytes, context: Any) -> AsyncIterator[bytes]:
        return
        yield

    methods = {"unary_stream One": one, "unary_stream Two": two, "unary_stream None": none}
    client = await ends.pair({**ECHO, "stream_unary First": first, **methods})
    assert await client.unary_unary("First")(b"x") == b"x"
    assert [item async for item in client.unary_stream("Echo")(b"x")] == [b"x"]
    assert await client.stream_unary("Echo")([b"x", b"y"]) == b"x"
    assert await client.unary_unary("One")(b"x") == b"x"
    assert (await error_of(client.unary_unary("Two")(b"x")))[0] == "INTERNAL"
    assert (await error_of(client.unary_unary("None")(b"x")))[0] == "INTERNAL"
    assert (await error_of(client.stream_unary("Echo")([])))[0] == "UNIMPLEMENTED"
