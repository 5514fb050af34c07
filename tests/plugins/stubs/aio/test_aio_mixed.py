"""Threads and asyncio at the two ends of one connection, and every way to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport_grpc.runtime import grpc
from tests.plugins.stubs.differential.aio_ends import AioEnds
from tests.plugins.stubs.differential.both import ASYNCIO, THREADS, WAYS, OverAsyncio, OverThreads, Read, run
from tests.plugins.stubs.differential.ends import ARITIES, OURS, Ends, method_handler, path


async def answer(read: Read, context: Any) -> bytes:
    if dict(context.invocation_metadata()).get("how") == "abort":
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here", (("key-bin", b"\x00"),))
    await context.send_initial_metadata((("first", "1"),))
    context.set_trailing_metadata((("last", "1"),))
    return await read()


@pytest.mark.parametrize("strategy", ["block", "adaptive", "spin"])
async def test_a_program_of_threads_or_of_asyncio_sees_the_same_of_either_server(
    ends: Any, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setenv("LUCKY_WAIT", strategy)
    with Ends(OURS) as of_threads:
        async with AioEnds(OURS) as of_asyncio:
            threads, loop = OverThreads(of_threads), OverAsyncio(of_asyncio)
            of_arities = [
                {arity: method_handler(arity, driver.behaviour(arity, answer)) for arity in ARITIES}
                for driver in (threads, loop)
            ]
            targets = [of_threads.serve(of_arities[0]).target, (await of_asyncio.serve(of_arities[1])).target]
            for how in ("answer", "abort"):
                sent = {"metadata": (("how", how),)}
                for way in WAYS[THREADS]:
                    methods = [getattr(threads.connect(one), way.arity)(path(way.arity)) for one in targets]
                    seen = [await asyncio.to_thread(run, threads.invoke(way, one, **sent)) for one in methods]
                    assert seen[0] == seen[1], way
                for way in WAYS[ASYNCIO]:
                    methods = [getattr(loop.connect(one), way.arity)(path(way.arity)) for one in targets]
                    seen = [await loop.invoke(way, one, **sent) for one in methods]
                    assert seen[0] == seen[1], way
