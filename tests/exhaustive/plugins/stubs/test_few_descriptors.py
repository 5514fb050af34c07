"""A process that may open no more files says so, with the limit, and goes on once it may.

`python -m tests.exhaustive.plugins.stubs.test_few_descriptors SIDE`. SIDE client: this process may open none at first,
then one, and so on, until the call goes through. SIDE engine: its process may open one at first: without any it
cannot accept, and its clients wait, as gRPC's do. Prints one line of JSON per call and limit: [kind, what came,
descriptors more than before].
"""

import asyncio
import contextlib
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import grpc

import lucky_transport
import lucky_transport_stubs
from lucky_transport.errors import TransportError
from lucky_transport.process import EngineProcess, unique_name
from tests.plugins.failing_starts import no_descriptors
from tests.support.command import python, stdout_of
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[4]
METHOD = "/hazel.rpc.SceneService/GetSceneInfo"
#: A pipe has seven descriptors, an event loop three.
MOST = 24


def typed(url: str) -> None:
    with lucky_transport.connect(url, connect_timeout_s=PATIENCE_S) as client:
        client.scene.get_scene_info()


def typed_async(url: str, loop: asyncio.AbstractEventLoop) -> None:
    async def call() -> None:
        async with lucky_transport.connect_async(url, connect_timeout_s=PATIENCE_S) as client:
            await client.scene.get_scene_info()

    loop.run_until_complete(call())


def stub(url: str) -> None:
    with lucky_transport_stubs.channel(url) as channel:
        channel.unary_unary(METHOD)(b"", timeout=PATIENCE_S)


def stub_future(url: str) -> None:
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


def came(call: Callable[[], None]) -> str:
    """Return what a caller sees."""
    try:
        call()
    except TransportError as error:
        return f"{type(error).__name__}: {error}"
    except grpc.RpcError as error:
        told: Any = error
        return f"RpcError {told.code().name}: {told.details()}"
    except BaseException as error:
        return f"UNTYPED {error!r}"
    return "ok"


def count(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def settled(pid: int) -> int:
    """Return how many descriptors the process has once that stays the same for a moment."""
    while True:
        seen = {count(pid) for _ in range(20) if not time.sleep(0.01)}
        if len(seen) == 1:
            return seen.pop()


def main(side: str) -> None:
    """See the module."""
    url = f"shm://{unique_name()}"
    loop = asyncio.new_event_loop()
    calls: dict[str, Callable[[], None]] = {
        "typed": lambda: typed(url),
        "typed_async": lambda: typed_async(url, loop),
        "stub": lambda: stub(url),
        "stub_future": lambda: stub_future(url),
        "stub_async": lambda: stub_async(url, loop),
    }
    engine = EngineProcess("toy", [url], num_envs=2)
    driver = lucky_transport.make(endpoint=url)  # the others get connections of their own
    driver.reset(seed=0)
    for call in calls.values():
        call()
    gc.collect()
    gc.disable()
    pid = os.getpid() if side == "client" else engine.pid
    for kind, call in calls.items():
        before = settled(pid)
        for allowed in range(0 if side == "client" else 1, MOST):
            limit = no_descriptors(allowed) if side == "client" else limited(pid, allowed)
            with limit:
                result = came(call)
            if kind == "typed_async":
                gc.collect()  # asyncio's futures and what they raise are a cycle
            with contextlib.suppress(AssertionError):
                until(lambda most=before: count(pid) <= most, 2.0)
            print(json.dumps([kind, result, count(pid) - before]), flush=True)
            if result == "ok":
                break
        assert came(call) == "ok"
    driver.close()
    engine.stop()
    loop.close()


REACHED = "too many open files, the limit is "


def calls(side: str) -> list[tuple[str, str, int]]:
    module = "tests.exhaustive.plugins.stubs.test_few_descriptors"
    printed = stdout_of(python("-m", module, side, cwd=ROOT, timeout=12 * PATIENCE_S))
    return [tuple(json.loads(line)) for line in printed.splitlines()]


@pytest.mark.parametrize(("side", "fewest"), [("client", 5), ("engine", 3)])
def test_each_call_names_the_limit_until_it_goes_through(side: str, fewest: int) -> None:
    found = calls(side)
    assert {kind for kind, *_ in found} == {"typed", "typed_async", "stub", "stub_future", "stub_async"}
    for kind, result, more in found:
        is_expected = REACHED in result and result.startswith(("NotReachable", "RpcError UNAVAILABLE"))
        assert result == "ok" or is_expected, (kind, result)
        assert more <= 1, (kind, result, more)  # a thread of an executor has what its last task raised
    refused = [kind for kind, result, _ in found if REACHED in result]
    assert all(fewest <= refused.count(kind) < MOST for kind in ("typed", "stub", "stub_async")), found


if __name__ == "__main__":
    main(sys.argv[1])
