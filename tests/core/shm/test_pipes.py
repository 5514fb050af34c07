"""Pipes: two queues between two processes, each of which may go at any moment.

The contract first, of every kind; then what a listener's pipe and a segment's do besides.
"""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, RemoteProtocolError
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import LockHolder
from lucky_transport.shm.listener.listener import Listener
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import Segment, create
from lucky_transport.shm.segment.segment_pipe import SegmentPipe
from lucky_transport.shm.wait import PEER_WAKES, STRATEGIES
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.core.shm.conftest import Connect, Start, assert_refused_in_a_child, open_descriptors
from tests.support.memory_pipe import memory_pipes
from tests.support.sleeps import Slices
from tests.support.waiting import beside, call_later, until

#: So long that a wait which ends at it, and not before, fails the test.
LONG_NS = 10**13
#: Of a segment, and of a record in it that no ring of 4096 bytes holds.
ARENA, LONG = 1 << 20, b"0123456789" * 70_000


class Ends(NamedTuple):
    """Of a pipe with rings of 4096 bytes. waiting: who waits, for whom. leave: ends the engine for the client, which is
    told so by `words`.
    """

    client: Any
    engine: Any
    leave: Callable[[], object]
    words: str
    waiting: tuple[tuple[Pipe, Pipe], ...]


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    spec = BatchSpec("toy", 2, ArraySpec("float32", (3,)), ArraySpec("float32", (2,)))
    made = create("demo", spec, ring_bytes=4096, arena_bytes=ARENA, directory=tmp_path)
    yield made
    made.unlink()


@pytest.fixture
def holder(segment: Segment) -> Iterator[tuple[lockfile.Lock, LockHolder]]:
    """A lock, and the process that the client takes for its engine as long as it holds it."""
    lock = lockfile.acquire(segment.lock_path, lockfile.CLIENT)
    assert lock is not None
    process = LockHolder(segment.lock_path, lock.own, 7, 0)
    yield lock, process
    process.close()
    lock.release()


@pytest.fixture
def open_ends(segment: Segment, holder: tuple[lockfile.Lock, LockHolder]) -> Iterator[Callable[[int], Ends]]:
    """Opens the ends of a segment's pipe, by its strategy."""
    opened: list[SegmentPipe] = []

    def open_both(strategy: int) -> Ends:
        engine = SegmentPipe.engine_end(segment, strategy=strategy)
        client = SegmentPipe.client_end(segment, holder[1], strategy=strategy, peer_bits=PEER_WAKES)
        opened.extend((client, engine))
        words = r"the process of the engine \(pid 7\) ended; start the engine and connect"
        return Ends(client, engine, holder[0].release, words, ((client, engine),))

    yield open_both
    for pipe in opened:
        pipe.close()


@pytest.fixture
def in_segment(open_ends: Callable[[int], Ends]) -> Ends:
    return open_ends(STRATEGIES["adaptive"])


KINDS = (*((where, wait) for where in ("connect", "open_ends") for wait in STRATEGIES), ("memory", ""))


@pytest.fixture(params=KINDS, ids="-".join)
def ends(request: pytest.FixtureRequest) -> Ends:
    """The ends of a pipe of each kind: a listener's, a segment's, and what stands in for them in tests of calls."""
    where, wait = request.param
    if where == "memory":
        client, engine = memory_pipes(4096)
        return Ends(client, engine, engine.die, "is gone", ((client, engine), (engine, client)))
    opened = request.getfixturevalue(where)
    if where == "open_ends":
        return opened(STRATEGIES[wait])
    client, engine = opened(strategy=STRATEGIES[wait])
    return Ends(
        client, engine, engine.close, "closed the connection; connect again", ((client, engine), (engine, client))
    )


def fill(pipe: Pipe) -> None:
    while pipe.try_push(bytes(1020)):
        pass


# --- the contract ---


def test_a_wait_ends_with_the_record_or_at_its_timeout(ends: Ends) -> None:
    for here, there in ends.waiting:
        pipe: Any = here
        assert not pipe.wait(0)
        assert not pipe.wait(2_000_000)
        thread = call_later(there.try_push, b"record")
        assert pipe.wait(LONG_NS)
        thread.join()
        assert pipe.wait(0)
        assert pipe.try_pop() == b"record"
        assert pipe.try_pop() is None


def test_a_wait_is_interrupted_while_it_lasts_and_before(ends: Ends) -> None:
    for here, _ in ends.waiting:
        thread = call_later(here.interrupt)
        assert not here.wait(LONG_NS)
        thread.join()
        here.interrupt()
        assert not here.wait(LONG_NS)
        assert not here.wait(1_000_000)


def test_room_comes_when_the_peer_reads(ends: Ends) -> None:
    for here, there in ((ends.client, ends.engine), (ends.engine, ends.client)):
        assert here.wait_writable(1000, 0)
        fill(here)
        assert not here.wait_writable(1000, 1_000_000)
        thread = call_later(there.try_pop)
        assert here.wait_writable(1000, LONG_NS)
        thread.join()
        assert here.try_push(bytes(1000))


@pytest.mark.parametrize("ends", [("connect", "adaptive"), ("open_ends", "adaptive")], ids="-".join, indirect=True)
def test_who_waits_for_room_looks_at_its_peer_after_each_slice(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a death is noticed in time, however long that takes on a machine."""
    slices = Slices(monkeypatch)
    fill(ends.client)
    with slices.dies(), pytest.raises(PeerDied):
        ends.client.wait_writable(1000, LONG_NS)
    assert len(slices.between) > slices.LOOKS
    assert 0 < max(slices.between) <= 50_000_000, slices.between


def test_the_end_of_the_peer_ends_every_wait_after_its_last_record(ends: Ends) -> None:
    client = ends.client
    fill(client)
    ends.engine.try_push(b"last")
    ends.leave()
    assert client.wait(LONG_NS)
    assert client.try_pop() == b"last"
    for wait in (lambda: client.wait(LONG_NS), lambda: client.wait_writable(1000, LONG_NS)):
        with pytest.raises(PeerDied, match=ends.words):
            wait()


def test_closing_ends_what_other_threads_wait_for_and_all_use(ends: Ends) -> None:
    client = ends.client
    fill(client)
    errors: list[str] = []

    def refused(use: Callable[[], object]) -> None:
        with pytest.raises(ClosedError, match="is closed; connect again") as caught:
            use()
        errors.append(str(caught.value))

    uses: list[Callable[[], object]] = [lambda: client.wait(LONG_NS), lambda: client.wait_writable(1000, LONG_NS)]
    threads = [threading.Thread(target=refused, args=(use,)) for use in uses]
    for thread in threads:
        thread.start()
    time.sleep(0.03)
    for _ in range(2):
        client.close()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 2
    client.interrupt()
    for use in (*uses, lambda: client.try_push(b"record"), client.try_pop):
        refused(use)


@pytest.mark.parametrize("ends", KINDS[::3][:2], ids="-".join, indirect=True)
def test_a_forked_child_has_no_pipe_and_takes_nothing_away(ends: Ends) -> None:
    client, engine, *_ = ends
    assert_refused_in_a_child(lambda: client.try_push(b"from the child"), lambda: client.wait(0), close=client.close)
    assert client.try_push(b"from the parent")
    assert engine.try_pop() == b"from the parent"


# --- of a listener ---

#: Connects, pushes a record, and stays until it is killed.
CLIENT = """
import sys
from pathlib import Path
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe
pipe = connect_pipe("demo", Deadline(20), directories=[Path(sys.argv[1])])
pipe.try_push(b"hello")
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_loop_is_told_that_its_peer_closed_and_that_its_own_end_did(connect: Connect) -> None:
    client, engine = connect()
    engine.close()
    with pytest.raises(PeerDied, match="closed the connection; connect again"):
        client.arm()
    client.close()
    for use in (client.arm, client.fileno):
        with pytest.raises(ClosedError, match="is closed; connect again"):
            use()


def test_a_killed_client_ends_the_engines_waits(listener: Listener, start: Start) -> None:
    process = start(CLIENT, listener.path.parent)
    [engine] = until(listener.advance)
    assert process.stdout.readline() == "connected\n"
    assert engine.wait(LONG_NS)
    assert engine.try_pop() == b"hello"
    thread = call_later(process.kill)
    with pytest.raises(PeerDied, match=rf"shm client of pid {process.pid} (ended|closed the connection)"):
        engine.wait(LONG_NS)
    thread.join()
    process.wait()
    fill(engine)
    with pytest.raises(PeerDied, match=rf"shm client of pid {process.pid} ended"):
        engine.wait_writable(1000, LONG_NS)
    engine.close()


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

    with beside(write):
        assert asyncio.run(read()) == [b"%d" % number for number in range(50)]


def test_a_forked_child_holds_no_descriptor_of_a_pipe(connect: Connect) -> None:
    before = open_descriptors()
    client, _ = connect()
    client.fileno()
    if not (pid := os.fork()):
        gc.collect()
        left = [
            name for name in open_descriptors() - before if any(kind in name for kind in ("rings", "socket:", "pidfd"))
        ]
        os._exit(len(left))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not client.peer_left


# --- of a segment ---


def test_long_records_lie_beside_the_rings_where_both_sides_know_arenas(in_segment: Ends) -> None:
    client, engine, *_ = in_segment
    assert client.try_push(LONG)
    engine.know_client(Feature.WAKE | Feature.ARENAS)
    assert engine.try_pop() == LONG
    assert engine.largest_record == client.largest_record == ARENA
    for number in range(5):
        assert engine.try_push(LONG[number:])
        assert client.try_pop() == LONG[number:]


def test_a_peer_of_before_gets_no_reference(
    in_segment: Ends, tmp_path: Path, segment: Segment, holder: tuple[lockfile.Lock, LockHolder]
) -> None:
    in_segment.engine.know_client(Feature.WAKE | Feature.SLOTS)
    assert in_segment.engine.largest_record == 1020
    made = create("before", segment.spec, ring_bytes=4096, arena_bytes=0, directory=tmp_path)
    assert made.path.stat().st_size == made.layout.total_size
    client = SegmentPipe.client_end(made, holder[1], strategy=1, peer_bits=PEER_WAKES)
    assert client.largest_record == 1020
    client.close()
    made.unlink()


def test_the_memory_of_a_clients_long_messages_goes_with_it(segment: Segment, in_segment: Ends) -> None:
    before, pipes = segment.path.stat().st_blocks, in_segment[:2]
    in_segment.engine.know_client(Feature.ARENAS)
    for pipe in pipes:
        assert pipe.try_push(LONG)
    assert segment.path.stat().st_blocks * 512 >= 2 * len(LONG)
    for pipe in pipes:
        pipe.close()
    SegmentPipe.engine_end(segment, strategy=1).close()
    assert segment.path.stat().st_blocks <= before


def test_a_request_wakes_an_engine_that_is_parked_in_its_channel(segment: Segment, in_segment: Ends) -> None:
    header.put(segment.mapping, "park_engine", 1)
    in_segment.client.try_push(b"request")
    assert header.get(segment.mapping, "park_engine") == 0
    with pytest.raises(LocalProtocolError, match="waits in its channel"):
        in_segment.engine.wait(0)
    assert in_segment.client.fileno() == -1
    with pytest.raises(LocalProtocolError, match="no descriptor"):
        in_segment.client.arm()


def test_a_new_engines_end_starts_with_empty_rings(segment: Segment, holder: tuple[lockfile.Lock, LockHolder]) -> None:
    for place in ("ring_c2s", "ring_s2c"):
        offset = segment.layout[place].offset
        segment.mapping[offset : offset + 256] = b"\xff" * 256  # what a hostile client may leave
    with pytest.raises(RemoteProtocolError, match="ring positions"):
        SegmentPipe.client_end(segment, holder[1], strategy=1, peer_bits=PEER_WAKES)
    engine = SegmentPipe.engine_end(segment, strategy=1)
    client = SegmentPipe.client_end(segment, holder[1], strategy=1, peer_bits=PEER_WAKES)
    assert engine.reader.position == 0
    assert client.try_push(b"first")
    assert engine.try_pop() == b"first"
    client.close()
    engine.close()
