"""A server that nobody calls sleeps: each of its threads wakes once a second at most.

This counts wake-ups over some seconds in which nothing else happens in this process.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

import lucky_transport_stubs
from lucky_transport import api
from lucky_transport.deadline import Deadline
from lucky_transport.process import unique_name
from lucky_transport_pipe.listener import PipeListener
from tests.plugins.stubs.relay.conftest import relay_to
from tests.support.resources import voluntary_switches
from tests.support.waiting import PATIENCE_S, until

ENGINES = {
    "shm": "toy",
    "holodeck": "toy",
    "pipe": "cartpole",
    "grpc": "toy",
    "openra": "skirmish",
}
SECONDS = 3
#: A thread that wakes more often does so in each of them.
WINDOWS, MOST = 6, 4 * SECONDS
#: gRPC's own threads.
FOREIGN = "(_serve)"


@pytest.fixture(params=["no client", "a silent client"])
def threads(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[threading.Thread]]:
    """The threads of one idle server of each kind; the pipe's may have a client that says nothing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a file of another program there would wake the pipe's
    before = set(threading.enumerate())
    with ExitStack() as stack:
        for scheme, engine in ENGINES.items():
            place = "127.0.0.1:0" if scheme in ("grpc", "openra") else unique_name()
            stack.enter_context(api.serve(engine, f"{scheme}://{place}"))
            if scheme == "pipe" and request.param == "a silent client":
                silent = stack.enter_context(contextlib.closing(PipeListener(place)))
                stack.callback(silent.accept(Deadline(PATIENCE_S)).close)
        stack.enter_context(relay_to(1))
        server = lucky_transport_stubs.server(stack.enter_context(ThreadPoolExecutor(1)))
        server.add_insecure_port(f"shm://{unique_name()}")
        server.start()
        stack.callback(lambda: server.stop(None).wait(PATIENCE_S))
        stack.callback(_serve_on_a_loop().set)
        yield [thread for thread in {*threading.enumerate()} - before if FOREIGN not in thread.name]


def _serve_on_a_loop() -> threading.Event:
    """Serve on the event loop of another thread until the result is set."""
    is_over, has_started = threading.Event(), threading.Event()

    async def serve() -> None:
        server = lucky_transport_stubs.aio_server()
        server.add_insecure_port(f"shm://{unique_name()}")
        await server.start()
        has_started.set()
        await asyncio.to_thread(is_over.wait, PATIENCE_S)
        await server.stop(None)

    threading.Thread(target=lambda: asyncio.run(serve()), name="loop server").start()
    until(has_started.is_set)
    return is_over


def test_a_thread_of_an_idle_server_wakes_once_a_second_at_most(threads: list[threading.Thread]) -> None:
    assert {"shm server", "shm commands", "holodeck server", "holodeck watch", "grpc server", "loop server"} <= {
        " ".join(thread.name.split()[:2]) for thread in threads
    }
    time.sleep(1)  # what a start leaves to be done
    living = [thread for thread in threads if thread.is_alive()]
    fewest: dict[str, int] = {}
    # Some more each second: a thread that wakes may have to wait for the GIL, and for pages that the system took back.
    for _ in range(WINDOWS):
        before = {thread: voluntary_switches(thread.native_id) for thread in living}
        time.sleep(SECONDS)
        for thread, count in before.items():
            found = voluntary_switches(thread.native_id) - count
            fewest[thread.name] = min(found, fewest.get(thread.name, found))
        if max(fewest.values()) <= MOST:
            break
    assert not {name: count for name, count in fewest.items() if count > MOST}, fewest
