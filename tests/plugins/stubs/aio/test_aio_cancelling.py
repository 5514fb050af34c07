"""Calls that are cancelled, by whom ever and how ever, and calls that come too late."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from tests.support.waiting import until_in_loop


async def echo(request: bytes, context: Any) -> bytes:
    return request


async def test_a_call_cancelled_before_it_began_never_reaches_the_server(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair({**held.methods, "unary_unary Echo": echo})
    call = client.unary_unary("Hold")(b"")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await client.unary_unary("Echo")(b"x") == b"x"
    assert held.begun == 0


async def test_a_stream_that_is_dropped_is_cancelled(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair(held.methods)
    call = client.unary_stream("HoldStream")(b"")
    assert await call.read() == b"first"
    await until_in_loop(lambda: held.begun)
    del call
    gc.collect()
    await until_in_loop(lambda: held.ended)


async def test_a_handler_that_cancels_ends_its_call_as_cancelled(ends: Any, error_of: Any) -> None:
    async def cancel(request: bytes, context: Any) -> bytes:
        raise asyncio.CancelledError

    client = await ends.pair({"unary_unary Cancel": cancel})
    code, _ = await error_of(client.unary_unary("Cancel")(b""))
    assert code == "CANCELLED"


async def test_the_handlers_own_clock_cancels_it_though_the_caller_says_nothing(ends: Any) -> None:
    held = ends.held()
    client = await ends.pair(held.methods)
    call = client.unary_unary("Hold")(b"", timeout=1.0)
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

    client = await ends.pair({"unary_unary Stubborn": stubborn, "unary_unary Echo": echo})
    assert (await error_of(client.unary_unary("Stubborn")(b"", timeout=0.02)))[0] == "DEADLINE_EXCEEDED"
    assert await client.unary_unary("Echo")(b"x") == b"x"


@pytest.mark.parametrize("timeout", [-1, 0])
async def test_a_call_without_time_fails_at_once(ends: Any, error_of: Any, timeout: float) -> None:
    client = await ends.pair({"unary_unary Echo": echo})
    code, _ = await error_of(client.unary_unary("Echo")(b"", timeout=timeout))
    assert code == "DEADLINE_EXCEEDED"


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

    client = await ends.pair({"unary_stream Fill": fill})
    call = client.unary_stream("Fill")(b"")
    async for _ in call:
        break
    call.cancel()
    await until_in_loop(lambda: ended)
    assert ended == ["here"]
