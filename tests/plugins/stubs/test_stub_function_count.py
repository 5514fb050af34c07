"""How many Python functions of ours a warm call of a stub enters, on the client and on the server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport import api
from lucky_transport.process import unique_name
from tests.support.forked_programs import Programs
from tests.support.function_count import CALLS, REPOSITORY, Profile, counted_here, counted_on_new_threads, few, fewest
from tests.support.waiting import PATIENCE_S

#: Functions that a call enters on the client and on the server, and an item of a stream: at most a tenth more than now.
CLIENT, SERVER = 19, 78
#: Of event loops: 115 and 107 functions and one turn each; more where the CPU is shared, and they sleep within a call.
LOOP_CLIENT, LOOP_SERVER, TURNS = 160, 160, 2
ITEM_CLIENT, ITEM_SERVER = 6, 8
WARM = 300

HandlersOf = Callable[[Mapping[str, Any]], Any]

#: Under `run`: prints what a warm call of a gRPC stub enters.
PROGRAM = f"""
import json, sys
from functools import partial
sys.path.insert(0, {str(REPOSITORY)!r})
import grpc
from tests.support.function_count import counted_here, fewest
with grpc.insecure_channel("127.0.0.1:50051") as channel:
    call = channel.unary_unary("/hazel.rpc.AgentService/GetAgentSchema", _registered_method=True)
    for _ in range({WARM}):
        call(b"")
    with counted_here() as mine:
        print(json.dumps(fewest(mine, partial(call, b""))))
"""


def echo(request: bytes, _: Any) -> bytes:
    return request


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    address = f"shm://{unique_name()}"
    with ThreadPoolExecutor(1) as pool:
        server = lucky_transport_stubs.server(pool, handlers=(handler,))
        server.add_insecure_port(address)
        server.start()
        yield address
        server.stop(None).wait(PATIENCE_S)


def test_a_warm_call_enters_few_functions(handlers_of: HandlersOf) -> None:
    with (
        counted_on_new_threads() as theirs,
        serving(handlers_of({"unary_unary Echo": echo})) as address,
        lucky_transport_stubs.channel(address) as channel,
    ):
        call = channel.unary_unary("/t.Test/Echo")
        for _ in range(WARM):
            call(b"")
        with counted_here() as mine:
            entered = fewest(mine, lambda: call(b""))
        assert len(entered) <= CLIENT, entered
        entered = fewest(theirs, lambda: call(b""))
        assert 1 < len(entered) <= SERVER, entered


def test_an_item_of_a_stream_enters_few_functions(handlers_of: HandlersOf) -> None:
    sent: list[int] = []

    def items(request: bytes, _: Any) -> Iterator[bytes]:
        while True:
            sent.append(len(theirs.entered))
            yield request

    with (
        counted_on_new_threads() as theirs,
        serving(handlers_of({"unary_stream Items": items})) as address,
        lucky_transport_stubs.channel(address) as channel,
    ):
        stream = channel.unary_stream("/t.Test/Items")(b"")
        for _ in range(WARM):
            next(stream)
        with counted_here() as mine:
            entered = fewest(mine, lambda: next(stream))
        sent.clear()
        theirs.on = True
        while len(sent) < WARM:  # items that were sent before come first
            next(stream)
        theirs.on = False
        stream.cancel()
    assert 1 < len(entered) <= ITEM_CLIENT, entered
    steps = [after - before for before, after in pairwise(sent) if after > before]
    assert 1 < sorted(steps)[len(steps) // 10] <= ITEM_SERVER


async def test_a_warm_call_of_an_event_loop_enters_few_functions(handlers_of: HandlersOf) -> None:
    with counted_on_new_threads() as theirs:
        async with loop_serving(handlers_of) as address, lucky_transport_stubs.aio_channel(address) as channel:
            call = channel.unary_unary("/t.Test/Echo")
            for _ in range(WARM):
                await call(b"")
            with counted_here() as mine:
                entered = await fewest_awaited(mine, call)
            assert 1 < len(entered) <= LOOP_CLIENT, entered
            entered = await fewest_awaited(theirs, call)
            assert 1 < len(entered) <= LOOP_SERVER, entered


async def test_a_warm_call_of_an_event_loop_takes_few_turns_of_it(
    handlers_of: HandlersOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[asyncio.AbstractEventLoop] = []
    turn = asyncio.BaseEventLoop._run_once  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", lambda loop: (turns.append(loop), turn(loop))[1])
    mine, taken = asyncio.get_running_loop(), list[tuple[int, int]]()
    async with loop_serving(handlers_of) as address, lucky_transport_stubs.aio_channel(address) as channel:
        call = channel.unary_unary("/t.Test/Echo")
        for _ in range(CALLS):
            turns.clear()
            await call(b"")
            here = turns.count(mine)
            taken.append((here, len(turns) - here))
    here, there = (sorted(side)[CALLS // 10] for side in zip(*taken, strict=True))
    assert (1 <= here <= TURNS, there <= TURNS) == (True, True), (here, there)


async def fewest_awaited(profile: Profile, call: Any) -> list[str]:
    found: list[list[str]] = []
    for _ in range(CALLS):
        profile.entered, profile.on = [], True
        await call(b"")
        profile.on = False
        found.append(profile.entered)
    return few(found)


@asynccontextmanager
async def loop_serving(handlers_of: HandlersOf) -> AsyncIterator[str]:
    """Serve on the event loop of another thread."""
    address, has_started, is_over = f"shm://{unique_name()}", threading.Event(), threading.Event()

    async def answer(request: bytes, _: Any) -> bytes:
        return request

    async def serve() -> None:
        server = lucky_transport_stubs.aio_server(handlers=(handlers_of({"unary_unary Echo": answer}),))
        server.add_insecure_port(address)
        await server.start()
        has_started.set()
        await asyncio.to_thread(is_over.wait, PATIENCE_S)
        await server.stop(None)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    await asyncio.to_thread(has_started.wait, PATIENCE_S)
    yield address
    is_over.set()
    await asyncio.to_thread(thread.join)


def test_a_warm_call_under_run_enters_one_function_more_which_counts_it(forks: Programs) -> None:
    endpoint = f"shm://{unique_name()}"
    with (
        api.serve("toy", endpoint),
        forks.start(
            ["-c", PROGRAM], first="lucky_transport.auto", LUCKY_TRANSPORT="shm", LUCKY_ENDPOINT=endpoint
        ) as program,
    ):
        printed, said = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, said
    entered = json.loads(printed)
    assert 1 < len(entered) <= CLIENT + 1, entered
