"""Blocking handlers of an asyncio server run in its pool, with a context that has everything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc
from tests.support.waiting import until_in_loop


def sync_echo(request: bytes, context: Any) -> bytes:
    assert threading.current_thread() is not threading.main_thread()
    return request


def sync_count(request: bytes, context: Any) -> Iterator[bytes]:
    for number in range(int(request)):
        yield b"%d %s" % (number, threading.current_thread().name.encode())


def sync_total(requests: Iterator[bytes], context: Any) -> bytes:
    return b"%d" % sum(map(int, requests))


def sync_double(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        yield b"%d" % (2 * int(request))


SYNC = {
    "unary_unary Echo": sync_echo,
    "unary_stream Count": sync_count,
    "stream_unary Total": sync_total,
    "stream_stream Double": sync_double,
}


async def test_blocking_handlers_of_each_arity_run_in_the_pool(ends: Any) -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as pool:
        client = await ends.pair(SYNC, migration_thread_pool=pool)
        assert await client.unary_unary("Echo")(b"x") == b"x"
        counted = [item async for item in client.unary_stream("Count")(b"3")]
        assert [item.split()[0] for item in counted] == [b"0", b"1", b"2"]
        assert len({item.split()[1] for item in counted}) == 1
        assert counted[0].split()[1].startswith(b"mine")
        assert await client.stream_unary("Total")([b"1", b"2"]) == b"3"
        assert [item async for item in client.stream_stream("Double")([b"1", b"2"])] == [b"2", b"4"]


async def test_without_a_pool_they_run_in_the_loops(ends: Any) -> None:
    client = await ends.pair(SYNC)
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert [item async for item in client.stream_stream("Double")([b"1", b"2"])] == [b"2", b"4"]


async def test_the_context_of_a_blocking_handler_is_whole(ends: Any, error_of: Any) -> None:
    ended: list[str] = []

    def facts(request: bytes, context: Any) -> bytes:
        context.send_initial_metadata((("key", "value"),))
        context.set_trailing_metadata((("end", "value"),))
        assert context.trailing_metadata() == (("end", "value"),)
        assert context.invocation_metadata()[0].key == "user-agent"
        assert context.peer()
        assert context.auth_context()
        assert context.peer_identities() is context.peer_identity_key() is None
        assert 0 < context.time_remaining() <= 60
        assert context.is_active()
        assert context.add_callback(lambda: ended.append("facts"))
        context.set_compression(None) if not request else context.disable_next_message_compression()
        return b"ok"

    def abort(request: bytes, context: Any) -> bytes:
        context.set_details("set before")
        context.abort(grpc.StatusCode.ABORTED)
        raise AssertionError("abort returned")

    def set_code(request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.DATA_LOSS)
        context.set_details("lost")
        assert (context.code(), context.details()) == (grpc.StatusCode.DATA_LOSS, "lost")
        return b""

    def cancel(request: bytes, context: Any) -> bytes:
        assert context.cancel()
        return b""

    named = {"Facts": facts, "Abort": abort, "Set": set_code, "Cancel": cancel}
    client = await ends.pair({f"unary_unary {name}": function for name, function in named.items()})
    call = client.unary_unary("Facts")(b"x", timeout=60)
    assert await call == b"ok"
    assert await call.initial_metadata() == grpc.aio.Metadata(("key", "value"))
    assert await call.trailing_metadata() == grpc.aio.Metadata(("end", "value"))
    await until_in_loop(lambda: ended == ["facts"])
    assert await error_of(client.unary_unary("Abort")(b"")) == ("ABORTED", "set before")
    assert await error_of(client.unary_unary("Set")(b"")) == ("DATA_LOSS", "lost")
    assert (await error_of(client.unary_unary("Cancel")(b"")))[0] == "CANCELLED"


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
