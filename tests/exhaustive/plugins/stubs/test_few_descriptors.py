"""A process that may open no more files says so, with the limit, and goes on once it may.

A client may open none at first, then one, and so on, until the call goes through. An engine's process may open one at
first: without any it cannot accept, and its clients wait, as gRPC's do.
"""

import asyncio
import contextlib
import gc
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport
import lucky_transport_stubs
from lucky_transport.errors import NotReachable
from lucky_transport.process import EngineProcess, unique_name
from tests.plugins.failing_starts import no_descriptors
from tests.support.waiting import PATIENCE_S, until

METHOD = "/hazel.rpc.SceneService/GetSceneInfo"
#: A pipe has seven descriptors, an event loop three.
MOST = 24


def typed(url: str, loop: asyncio.AbstractEventLoop) -> None:
    with lucky_transport.connect(url, connect_timeout_s=PATIENCE_S) as client:
        client.scene.get_scene_info()


def typed_async(url: str, loop: asyncio.AbstractEventLoop) -> None:
    async def call() -> None:
        async with lucky_transport.connect_async(url, connect_timeout_s=PATIENCE_S) as client:
            await client.scene.get_scene_info()

    loop.run_until_complete(call())


def stub(url: str, loop: asyncio.AbstractEventLoop) -> None:
    with lucky_transport_stubs.channel(url) as channel:
        channel.unary_unary(METHOD)(b"", timeout=PATIENCE_S)


def stub_future(url: str, loop: asyncio.AbstractEventLoop) -> None:
    with lucky_transport_stubs.channel(url) as channel:
        channel.unary_unary(METHOD).future(b"", timeout=PATIENCE_S).result()


def stub_async(url: str, loop: asyncio.AbstractEventLoop) -> None:
    async def call() -> None:
        async with lucky_transport_stubs.aio_channel(url) as channel:
            await channel.unary_unary(METHOD)(b"", timeout=PATIENCE_S)

    loop.run_until_complete(call())


@contextlib.contextmanager
def limited(pid: int, allowed: int) -> Iterator[None]:
    """Let the process `pid` open `allowed` further descriptors, or a few more where its numbers have gaps."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (numbers[-1] + 1 + allowed, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(("side", "fewest"), [("client", 5), ("engine", 3)])
@pytest.mark.parametrize("call", [typed, typed_async, stub, stub_future, stub_async])
def test_each_call_names_the_limit_until_it_goes_through(call: Callable[..., None], side: str, fewest: int) -> None:
    url, loop, refused = f"shm://{unique_name()}", asyncio.new_event_loop(), 0
    with contextlib.ExitStack() as stack:
        stack.callback(loop.close)
        engine = EngineProcess("toy", [url], num_envs=2)
        stack.callback(engine.stop)
        stack.enter_context(lucky_transport.make(endpoint=url)).reset(seed=0)  # the others have their own connections
        call(url, loop)  # what is opened once
        pid = os.getpid() if side == "client" else engine.pid

        def count() -> int:
            gc.collect()
            return len(list(Path(f"/proc/{pid}/fd").iterdir()))

        before = count()
        for allowed in range(0 if side == "client" else 1, MOST):
            with no_descriptors(allowed) if side == "client" else limited(pid, allowed):
                try:
                    call(url, loop)
                    break
                except (NotReachable, grpc.RpcError) as error:
                    told: Any = error
                    said = str(error) if isinstance(error, NotReachable) else f"{told.code().name}: {told.details()}"
            assert "too many open files, the limit is " in said
            assert isinstance(told, NotReachable) or said.startswith("UNAVAILABLE")
            refused += 1
            until(lambda: count() <= before + 1)  # a thread of an executor has what its last task raised
        call(url, loop)
    assert fewest <= refused < MOST
