"""What a program holds of a staged channel looks like what it would hold of gRPC's, whichever transport answers."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport.routing import Decision
from tests.support.waiting import PATIENCE_S

grpc = pytest.importorskip("grpc")

from tests.support.appearance import appearance  # noqa: E402 - needs grpc

ECHO, COUNT = "/t.Test/Echo", "/t.Test/Count"
ARITIES = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
DECISIONS = {
    "grpc": Decision("grpc", "shm"),
    "shm": Decision("shm", "grpc"),
    "falls back": Decision("shm", "grpc", "canary 10%"),
}


@pytest.fixture(params=DECISIONS)
def pair(pair: Any, policy: Any, request: pytest.FixtureRequest) -> Any:
    """Two servers, of which one answers; or none does over shared memory, and gRPC answers instead."""
    policy.decision = DECISIONS[request.param]
    if request.param == "falls back":
        pair.endpoint = f"shm://{unique_name()}"
    return pair


def test_its_channel_and_methods_do(pair: Any) -> None:
    with grpc.insecure_channel(pair.target) as real, pair.channel() as staged:
        assert appearance(staged, "channel") == appearance(real, "channel")
        assert staged._channel.target() == real._channel.target()
        for arity in ARITIES:
            theirs, ours = (getattr(channel, arity)(ECHO) for channel in (real, staged))
            assert appearance(ours, "method") == appearance(theirs, "method")
            assert (ours._method, ours._channel.target()) == (theirs._method, theirs._channel.target())


def test_its_calls_do(pair: Any) -> None:
    def looks(channel: Any) -> list[Any]:
        future = channel.unary_unary(ECHO).future(b"x", timeout=PATIENCE_S)
        assert future.result(PATIENCE_S) == b"x"
        stream = channel.unary_stream(COUNT)(b"xy", timeout=PATIENCE_S)
        assert b"".join(stream) == b"xy"
        state = future._state
        names = {name for name in dir(future) if not name.startswith("_")}
        return [appearance(future, "call"), appearance(stream, "call"), state.code, state.due, names]

    with grpc.insecure_channel(pair.target) as real, pair.channel() as staged:
        *theirs, their_names = looks(real)
        *ours, our_names = looks(staged)
        assert ours == theirs
        assert their_names <= our_names


async def test_asyncio_its_channel_methods_and_calls_do(pair: Any) -> None:
    async def looks(channel: Any) -> list[Any]:
        seen: list[Any] = [appearance(channel, "channel"), getattr(channel._channel, "target", None)]
        for arity in ARITIES:
            seen.append(appearance(getattr(channel, arity)(ECHO), "method"))
        call = channel.unary_unary(ECHO)(b"x", timeout=PATIENCE_S)
        seen.append(appearance(call))
        assert await call == b"x"
        return seen

    async with grpc.aio.insecure_channel(pair.target) as real, pair.aio_channel() as staged:
        assert await looks(staged) == await looks(real)
