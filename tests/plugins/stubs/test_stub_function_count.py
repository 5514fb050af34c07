"""How many Python functions of ours a warm call of a stub enters, on the client and on the server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport.process import unique_name
from tests.support.forked_programs import Programs
from tests.support.function_count import CALLS, REPOSITORY, Profile, counted_here, counted_on_new_threads, few, fewest
from tests.support.waiting import PATIENCE_S

from .differential.both import AioEnds, echo
from .differential.ends import OURS, Ends, path

#: Functions that a call enters on the client and on the server, and an item of a stream: at most a tenth more than now.
#: A server enters 32, and four more where it looks for the next request in vain, as each does where the CPU is shared.
CLIENT, SERVER = 11, 40
#: Of event loops: 115 and 107 functions and one turn each; more where the CPU is shared, and they sleep within a call.
LOOP_CLIENT, LOOP_SERVER, TURNS = 160, 160, 2
ITEM_CLIENT, ITEM_SERVER = 6, 8
WARM = 300

#: Under `run`: prints what a warm call of a gRPC stub enters, on the client and on the server.
PROGRAM = f"""
import json, sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
sys.path.insert(0, {str(REPOSITORY)!r})
import grpc
from lucky_transport.call_counts import read
from lucky_transport.config import load_launch
from tests.support.function_count import counted_here, counted_on_new_threads, fewest
handlers = {{"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}}
with counted_on_new_threads() as theirs:
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", handlers),))
    server.add_registered_method_handlers("t.Test", handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        call = channel.unary_unary("/t.Test/Echo", _registered_method=True)
        for _ in range({WARM}):
            call(b"")
        with counted_here() as mine:
            print(json.dumps(fewest(mine, partial(call, b""))))
        print(json.dumps(fewest(theirs, partial(call, b""))))
    server.stop(None).wait()
(process,) = read(Path(load_launch().folder))
print(json.dumps([calls.count for calls in process.calls if calls.method == "/t.Test/Echo"]))
"""


def test_an_item_of_a_stream_enters_few_functions(ends: Ends) -> None:
    sent: list[int] = []

    def items(request: bytes, _: Any) -> Iterator[bytes]:
        while True:
            sent.append(len(theirs.entered))
            yield request

    with counted_on_new_threads() as theirs:
        stream = ends.unary_stream(items, workers=1)(b"")
        for _ in range(WARM):
            next(stream)
        with counted_here() as mine:
            entered = fewest(mine, lambda: next(stream))
        theirs.on = True
        sent.clear()  # after it: what is sent from here on was counted
        while len(sent) < WARM:  # items that were sent before come first
            next(stream)
        theirs.on = False
        stream.cancel()
    assert 1 < len(entered) <= ITEM_CLIENT, entered
    steps = [after - before for before, after in pairwise(sent) if after > before]
    assert 1 < sorted(steps)[len(steps) // 10] <= ITEM_SERVER


async def test_a_warm_call_of_an_event_loop_enters_few_functions() -> None:
    with counted_on_new_threads() as theirs:
        async with loop_serving() as address, lucky_transport_stubs.aio_channel(address) as channel:
            call = channel.unary_unary(path())
            for _ in range(WARM):
                await call(b"")
            with counted_here() as mine:
                entered = await fewest_awaited(mine, call)
            assert 1 < len(entered) <= LOOP_CLIENT, entered
            entered = await fewest_awaited(theirs, call)
            assert 1 < len(entered) <= LOOP_SERVER, entered


async def test_a_warm_call_of_an_event_loop_takes_few_turns_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[asyncio.AbstractEventLoop] = []
    turn = asyncio.BaseEventLoop._run_once  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", lambda loop: (turns.append(loop), turn(loop))[1])
    mine, taken = asyncio.get_running_loop(), list[tuple[int, int]]()
    async with loop_serving() as address, lucky_transport_stubs.aio_channel(address) as channel:
        call = channel.unary_unary(path())
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
async def loop_serving() -> AsyncIterator[str]:
    """Serve on the event loop of another thread."""
    address, has_started, is_over = f"shm://{unique_name()}", threading.Event(), threading.Event()

    async def serve() -> None:
        async with AioEnds(OURS) as ends:
            await ends.serve({"unary_unary Method": ends.behaviour("unary_unary", echo)}, address=address)
            has_started.set()
            await asyncio.to_thread(is_over.wait, PATIENCE_S)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    await asyncio.to_thread(has_started.wait, PATIENCE_S)
    yield address
    is_over.set()
    await asyncio.to_thread(thread.join)


def test_a_warm_call_enters_few_functions_and_none_for_the_counts_of_run(forks: Programs) -> None:
    where = {"LUCKY_TRANSPORT": "shm", "LUCKY_GRPC_MAP": f"127.0.0.1:*=shm://{unique_name()}_{{port}}"}
    with forks.start(["-c", PROGRAM], first="lucky_transport.auto", **where) as program:
        printed, said = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, said
    mine, theirs, counts = map(json.loads, printed.splitlines())
    assert counts == [WARM + 2 * CALLS] * 2
    assert (1 < len(mine) <= CLIENT, 1 < len(theirs) <= SERVER) == (True, True), (mine, theirs)
