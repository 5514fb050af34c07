"""What programs of generated stubs do with an engine; kinds of `tests.endurance.workloads`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from lucky_transport_stubs.aio.channel import aio_channel
from lucky_transport_stubs.client.channel import channel

__all__ = ["aio_stubs", "stubs"]

_UNARY = "/hazel.rpc.SceneService/GetSceneInfo"
_STREAM = "/hazel.rpc.TelemetryService/StreamTelemetry"
_PATIENCE_S = 30.0


def stubs(endpoint: str) -> Generator[None]:
    """Make unary calls, and leave a stream after its first item."""
    with channel(endpoint) as opened:
        unary: Any = opened.unary_unary(_UNARY)
        stream: Any = opened.unary_stream(_STREAM)
        while True:
            unary(b"", timeout=_PATIENCE_S)
            answers = stream(b"", timeout=_PATIENCE_S)
            next(answers)
            answers.cancel()
            yield


def aio_stubs(endpoint: str) -> Generator[None]:
    """Do the same in an event loop of its own."""
    loop = asyncio.new_event_loop()
    opened = loop.run_until_complete(_open(endpoint))
    try:
        while True:
            loop.run_until_complete(_once(opened))
            yield
    finally:
        loop.run_until_complete(opened.close())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _open(endpoint: str) -> Any:
    return aio_channel(endpoint)  # it belongs to the loop that runs


async def _once(opened: Any) -> None:
    await opened.unary_unary(_UNARY)(b"", timeout=_PATIENCE_S)
    answers = opened.unary_stream(_STREAM)(b"", timeout=_PATIENCE_S)
    await answers.read()
    answers.cancel()
