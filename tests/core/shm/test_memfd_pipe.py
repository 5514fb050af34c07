"""A pipe from the listener: two queues between two processes, each of which may go at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport.errors import ClosedError, PeerDied, SpecError
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.shm.arena import DEFAULT_ARENA_BYTES
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from tests.support.waiting import call_later, until

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

Connect = Callable[..., tuple[MemfdPipe, MemfdPipe]]
LONG_NS = 20_000_000_000

#: Connects, pushes a record, then does as it is told.
CLIENT = """
import sys
from pathlib import Path
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe
pipe = connect_pipe("demo", Deadline(20), directories=[Path(sys.argv[1])])
pipe.try_push(b"hello")
print("connected", flush=True)
for line in sys.stdin:
    if line == "close\\n":
        pipe.close()
    elif line == "echo\\n":
        while pipe.wait(10**10):
            record = pipe.try_pop()
            while not pipe.try_push(record):
                pipe.wait_writable(len(record), 10**10)
            if record == b"last":
                break
"""


def fill(pipe: MemfdPipe) -> int:
    count = 0
    while pipe.try_push(bytes(1020)):
        count += 1
    return count


def other_process(listener: Listener, start: Callable[..., Any]) -> tuple[Any, MemfdPipe]:
    """Start a client process; return it and the engine's end of its pipe."""
    process = start(CLIENT, listener.path.parent)
    pipes: list[MemfdPipe] = []
    until = time.monotonic() + 20
    while not pipes and time.monotonic() < until:
        select.select([listener], [], [], 1)
        pipes = listener.advance()
    assert process.stdout.readline() == "connected\n"
    assert pipes[0].wait(LONG_NS)
    assert pipes[0].try_pop() == b"hello"
    return process, pipes[0]


def test_both_ends_are_pipes(connect: Connect) -> None:
    ends: tuple[Pipe, Pipe] = connect()
    assert ends[0].largest_record == ends[1].largest_record == DEFAULT_ARENA_BYTES


@pytest.mark.parametrize("strategy", [0, 1, 2])
def test_a_wait_ends_with_the_record(connect: Connect, strategy: int) -> None:
    client, engine = connect(strategy=strategy)
    for here, there in ((client, engine), (engine, client)):
        thread = call_later(lambda there=there: there.try_push(b"record"))
        assert here.wait(LONG_NS)
        thread.join()
        assert here.try_pop() == b"record"
        assert not here.wait(0)
        assert not here.wait(2_000_000)


def test_a_wait_is_interrupted_while_it_lasts_and_before(connect: Connect) -> None:
    client, _ = connect()
    thread = call_later(client.interrupt)
    assert not client.wait(LONG_NS)
    thread.join()
    client.interrupt()
    assert not client.wait(LONG_NS)
    assert not client.wait(1_000_000)


def test_room_comes_when_the_peer_reads(connect: Connect) -> None:
    client, engine = connect()
    fill(client)
    assert not client.wait_writable(1000, 1_000_000)
    thread = call_later(engine.try_pop)
    assert client.wait_writable(1000, LONG_NS)
    thread.join()
    with pytest.raises(SpecError, match="expected 1 to 67174400 in a ring of 4096 with an arena of 67174400"):
        client.wait_writable(DEFAULT_ARENA_BYTES + 1, LONG_NS)


def test_a_peer_that_closes_ends_every_wait_after_its_last_record(connect: Connect) -> None:
    client, engine = connect()
    fill(client)
    engine.try_push(b"last")
    engine.close()
    assert client.wait(LONG_NS)
    assert client.try_pop() == b"last"
    with pytest.raises(PeerDied, match="closed the connection; connect again"):
        client.wait(LONG_NS)
    with pytest.raises(PeerDied, match="closed the connection"):
        client.wait_writable(1000, LONG_NS)
    with pytest.raises(PeerDied, match="closed the connection"):
        client.arm()


def test_a_killed_client_ends_the_engines_waits(listener: Listener, start: Callable[..., Any]) -> None:
    process, engine = other_process(listener, start)
    thread = call_later(process.kill)
    with pytest.raises(PeerDied, match=rf"shm client of pid {process.pid} (ended|closed the connection)"):
        engine.wait(LONG_NS)
    thread.join()
    process.wait()
    fill(engine)
    with pytest.raises(PeerDied, match=rf"shm client of pid {process.pid} ended"):
        engine.wait_writable(1000, LONG_NS)
    engine.close()


@pytest.mark.exhaustive
def test_what_a_process_wrote_before_it_was_killed_is_read(listener: Listener, start: Callable[..., Any]) -> None:
    process, engine = other_process(listener, start)
    engine.try_push(b"echo me")
    process.stdin.write("echo\n")
    until(engine.reader.ready)
    process.kill()
    process.wait()
    assert engine.wait(LONG_NS)
    assert engine.try_pop() == b"echo me"
    with pytest.raises(PeerDied):
        engine.wait(LONG_NS)
    engine.close()


@pytest.mark.exhaustive
def test_two_processes_exchange_records_of_every_size(listener: Listener, start: Callable[..., Any]) -> None:
    process, engine = other_process(listener, start)
    process.stdin.write("echo\n")
    records = [bytes([length % 256]) * length for length in range(1, 1021)] + [b"last"]
    got: list[bytes] = []

    def read() -> None:
        while len(got) < len(records) and engine.wait(LONG_NS):
            while (record := engine.try_pop()) is not None:
                got.append(record)

    thread = threading.Thread(target=read)
    thread.start()
    for record in records:
        while not engine.try_push(record):
            assert engine.wait_writable(len(record), LONG_NS)
    thread.join(30)
    assert got == records
    engine.close()


def test_closing_ends_what_other_threads_wait_for(connect: Connect) -> None:
    client, _ = connect()
    fill(client)
    errors: list[str] = []

    def waits(wait: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                wait()
            except ClosedError as error:
                errors.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [waits(lambda: client.wait(LONG_NS)), waits(lambda: client.wait_writable(1000, LONG_NS))]
    time.sleep(0.03)
    client.close()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 2
    assert all("is closed; connect again" in error for error in errors)


def test_a_closed_pipe_refuses_everything_and_may_be_closed_again(connect: Connect) -> None:
    client, _ = connect()
    client.close()
    client.close()
    client.interrupt()
    uses: list[Callable[[], object]] = [
        lambda: client.try_push(b"record"),
        client.try_pop,
        lambda: client.wait(0),
        lambda: client.wait_writable(1, 0),
        client.arm,
        client.fileno,
    ]
    for use in uses:
        with pytest.raises(ClosedError, match="is closed; connect again"):
            use()


def test_an_event_loop_can_watch_the_descriptor(connect: Connect) -> None:
    client, engine = connect()

    async def read() -> list[bytes]:
        loop, woken, got = asyncio.get_running_loop(), asyncio.Event(), list[bytes]()
        loop.add_reader(client.fileno(), woken.set)
        try:
            while True:
                while (record := client.try_pop()) is not None:
                    got.append(record)
                woken.clear()
                if not client.arm():
                    await asyncio.wait_for(woken.wait(), 20)
        except PeerDied:
            return got
        finally:
            loop.remove_reader(client.fileno())

    def write() -> None:
        for number in range(50):
            assert engine.try_push(b"%d" % number)
            if number % 10 == 0:
                time.sleep(0.005)
        engine.close()

    thread = threading.Thread(target=write)
    thread.start()
    assert asyncio.run(read()) == [b"%d" % number for number in range(50)]
    thread.join()


def _descriptors() -> set[str]:
    """What this process has open, pipes and sockets by their numbers, which a forked child has too."""
    found: set[str] = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile: it was the listing's own
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return found


def test_a_forked_child_has_no_pipe_and_takes_nothing_away(connect: Connect) -> None:
    before = _descriptors()
    client, engine = connect()
    client.fileno()
    pid = os.fork()
    if not pid:
        try:
            gc.collect()
            if any("lucky_rings" in name or "socket:" in name or "pidfd" in name for name in _descriptors() - before):
                os._exit(3)
            client.try_push(b"from the child")
        except ClosedError as error:
            os._exit(0 if "belongs to the parent process; connect again after fork()" in str(error) else 1)
        finally:
            client.close()
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not client.peer_left
    assert client.try_push(b"from the parent")
    assert engine.wait(LONG_NS)
    assert engine.try_pop() == b"from the parent"
