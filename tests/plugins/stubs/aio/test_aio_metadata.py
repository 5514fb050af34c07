"""Metadata of both sides: what arrives, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def test_initial_metadata_go_once_and_first(ends: Any) -> None:
    async def twice(request: bytes, context: Any) -> bytes:
        await context.send_initial_metadata((("a", "1"),))
        with pytest.raises(grpc.aio.UsageError, match="already sent"):
            await context.send_initial_metadata((("a", "2"),))
        return b"refused"

    async def late(request: bytes, context: Any) -> None:
        await context.write(b"first")
        with pytest.raises(grpc.aio.UsageError, match="already sent"):
            await context.send_initial_metadata((("a", "2"),))
        with pytest.raises(RuntimeError, match="Compression setting"):
            context.set_compression(grpc.Compression.Gzip)

    client = await ends.pair({"unary_unary Twice": twice, "unary_stream Late": late})
    assert await client.unary_unary("Twice")(b"") == b"refused"
    assert [item async for item in client.unary_stream("Late")(b"")] == [b"first"]


@pytest.mark.parametrize("where", ["initial", "trailing"])
async def test_invalid_metadata_of_a_handler_fail_the_call(ends: Any, error_of: Any, where: str) -> None:
    async def invalid(request: bytes, context: Any) -> bytes:
        if where == "initial":
            await context.send_initial_metadata((("A B", ""),))
        else:
            context.set_trailing_metadata((("A B", ""),))
        return b""

    client = await ends.pair({"unary_unary Invalid": invalid})
    assert await error_of(client.unary_unary("Invalid")(b"")) == ("INTERNAL", "Invalid metadata")


@pytest.mark.parametrize("metadata", [3, {"a": "b"}, (("a",),), (["a", "b"],), ((1, "b"),), (("a", 1),)])
async def test_trailing_metadata_that_are_no_pairs_are_refused(ends: Any, metadata: Any) -> None:
    async def wrong(request: bytes, context: Any) -> bytes:
        with pytest.raises(TypeError, match="Invalid trailing metadata type"):
            context.set_trailing_metadata(metadata)
        return b"refused"

    client = await ends.pair({"unary_unary Wrong": wrong})
    assert await client.unary_unary("Wrong")(b"") == b"refused"


@pytest.mark.parametrize("metadata", [(("A B", "x"),), (("key", "a\nb"),), (("UPPER", "x"),)])
async def test_invalid_metadata_fail_the_call_in_each_arity(ends: Any, error_of: Any, metadata: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo})
    for call in (
        client.unary_unary("Echo")(b"", metadata=metadata),
        client.stream_unary("Echo")([b""], metadata=metadata),
        client.unary_stream("Echo")(b"", metadata=metadata).read(),
        client.stream_stream("Echo")([b""], metadata=metadata).read(),
    ):
        assert await error_of(call) == ("INTERNAL", "Invalid metadata")


async def test_too_much_metadata_is_refused(ends: Any, error_of: Any) -> None:
    client = await ends.pair({"unary_unary Echo": echo})
    code, details = await error_of(client.unary_unary("Echo")(b"", metadata=(("key", 17_000 * "x"),)))
    assert code == "RESOURCE_EXHAUSTED"
    assert "metadata size exceeds" in details
