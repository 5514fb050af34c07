"""Calls that are refused, with messages that are too long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


async def echo(request: bytes, context: Any) -> bytes:
    return request


LONG = bytes((4 << 20) + 1)


async def long(request: bytes, context: Any) -> bytes:
    return LONG


async def long_stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    yield LONG


async def test_messages_beyond_grpcs_default_limit_are_refused_by_who_receives(ends: Any, error_of: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo, "unary_unary Long": long, "unary_stream Longs": long_stream})
    words = "Received message larger than max (4194305 vs. 4194304)"
    assert await error_of(client.unary_unary("Echo")(LONG)) == ("RESOURCE_EXHAUSTED", f"SERVER: {words}")
    assert await error_of(client.unary_unary("Long")(b"")) == ("RESOURCE_EXHAUSTED", f"CLIENT: {words}")
    call = client.unary_stream("Longs")(b"")
    assert await error_of(call.read()) == ("RESOURCE_EXHAUSTED", f"CLIENT: {words}")
    assert await client.unary_unary("Echo")(LONG[1:]) == LONG[1:]


async def test_limits_are_configured_as_in_grpc(ends: Any, error_of: Any) -> None:
    any_length = (("grpc.max_receive_message_length", -1),)
    short = (("grpc.max_send_message_length", 10),)
    methods = {"unary_unary Echo": echo, "unary_unary Long": long, "unary_stream Longs": long_stream}
    server = await ends.serve(methods, options=any_length)
    assert await ends.dial(server, options=any_length).unary_unary("Echo")(LONG) == LONG
    client = ends.dial(server, options=short)
    code, words = "RESOURCE_EXHAUSTED", "Sent message larger than max"
    assert await error_of(client.unary_unary("Echo")(bytes(11))) == (code, f"CLIENT: {words} (11 vs. 10)")
    call = client.stream_unary("Echo")()
    assert await error_of(call.write(bytes(11))) == (code, f"CLIENT: {words} (11 vs. 10)")
    client = ends.dial(await ends.serve(methods, options=short))
    assert await error_of(client.unary_unary("Long")(b"")) == (code, f"SERVER: {words} (4194305 vs. 10)")
    call = client.unary_stream("Longs")(b"")
    assert await error_of(call.read()) == (code, f"SERVER: {words} (4194305 vs. 10)")


async def test_short_limits_hold_too(ends: Any, error_of: Any) -> None:
    short = (("grpc.max_receive_message_length", 10),)
    words = "Received message larger than max (11 vs. 10)"

    async def first(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    methods = {"unary_unary Echo": echo, "stream_stream Mirror": first}
    client = ends.dial(await ends.serve(methods, options=short))
    assert await error_of(client.unary_unary("Echo")(bytes(11))) == ("RESOURCE_EXHAUSTED", f"SERVER: {words}")
    call = client.stream_stream("Mirror")()
    await call.write(bytes(10))
    assert await call.read() == bytes(10)
    await call.write(bytes(11))
    assert await error_of(call.read()) == ("RESOURCE_EXHAUSTED", f"SERVER: {words}")
    client = ends.dial(await ends.serve(methods), options=short)
    assert await error_of(client.unary_unary("Echo")(bytes(11))) == ("RESOURCE_EXHAUSTED", f"CLIENT: {words}")
    call = client.stream_stream("Mirror")([bytes(10), bytes(11)])
    assert await call.read() == bytes(10)
    assert await error_of(call.read()) == ("RESOURCE_EXHAUSTED", f"CLIENT: {words}")
