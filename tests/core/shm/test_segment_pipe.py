"""The segment's own rings as a pipe, both ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ClosedError, LocalProtocolError, PeerDied, RemoteProtocolError
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.shm.files.liveness import LockHolder, Process
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.owners import engine_of
from lucky_transport.shm.segment.segment import Segment, create
from lucky_transport.shm.segment.segment_pipe import SegmentPipe
from lucky_transport.shm.wait import PEER_WAKES
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.support.waiting import call_later

LONG_NS = 20_000_000_000
#: Of the segment, and of a record in it that no ring of 4096 bytes holds.
ARENA, LONG = 1 << 20, b"0123456789" * 70_000
HOLDS_A_LOCK = """
import sys, time
from lucky_transport.shm.files import lockfile
lock = lockfile.acquire(sys.argv[1], lockfile.CLIENT)
print(lock.own, flush=True)
time.sleep(60)
"""


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    spec = BatchSpec("toy", 2, ArraySpec("float32", (3,)), ArraySpec("float32", (2,)))
    made = create("demo", spec, ring_bytes=4096, arena_bytes=ARENA, directory=tmp_path)
    yield made
    made.unlink()


@pytest.fixture
def me(segment: Segment) -> Iterator[Process]:
    """The engine of the segment: this process."""
    engine = engine_of(segment.mapping, segment.lock_path)
    yield engine
    engine.close()


@pytest.fixture
def ends(segment: Segment, me: Process) -> Iterator[tuple[SegmentPipe, SegmentPipe]]:
    """The client's end and the engine's."""
    engine = SegmentPipe.engine_end(segment, strategy=1)
    client = SegmentPipe.client_end(segment, me, strategy=1, peer_bits=PEER_WAKES)
    yield client, engine
    client.close()
    engine.close()


def test_records_go_both_ways(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    pipes: tuple[Pipe, Pipe] = ends
    client, engine = pipes
    assert client.try_push(b"request")
    assert engine.try_pop() == b"request"
    thread = call_later(lambda: engine.try_push(b"answer"))
    assert client.wait(LONG_NS)
    thread.join()
    assert client.try_pop() == b"answer"
    assert client.try_pop() is None
    assert ends[1].reader.position == 16


def test_long_records_lie_beside_the_rings_where_both_sides_know_arenas(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    pipes: tuple[Pipe, Pipe] = ends
    client, engine = pipes
    assert client.try_push(LONG)
    ends[1].know_client(Feature.WAKE | Feature.ARENAS)
    assert engine.try_pop() == LONG
    assert engine.largest_record == client.largest_record == ARENA
    for number in range(5):
        assert engine.try_push(LONG[number:])
        assert client.try_pop() == LONG[number:]


def test_a_client_of_before_gets_no_reference(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    ends[1].know_client(Feature.WAKE | Feature.SLOTS)
    assert ends[1].largest_record == 1020


def test_an_engine_of_before_is_sent_no_reference(tmp_path: Path) -> None:
    spec = BatchSpec("toy", 2, ArraySpec("float32", (3,)), ArraySpec("float32", (2,)))
    made = create("before", spec, ring_bytes=4096, arena_bytes=0, directory=tmp_path)
    assert made.path.stat().st_size == made.layout.total_size
    engine = engine_of(made.mapping, made.lock_path)
    client = SegmentPipe.client_end(made, engine, strategy=1, peer_bits=PEER_WAKES)
    assert client.largest_record == 1020
    client.close()
    engine.close()
    made.unlink()


def test_the_memory_of_a_clients_long_messages_goes_with_it(
    segment: Segment, ends: tuple[SegmentPipe, SegmentPipe]
) -> None:
    before = segment.path.stat().st_blocks
    ends[1].know_client(Feature.ARENAS)
    for pipe in ends:
        assert pipe.try_push(LONG)
    assert segment.path.stat().st_blocks * 512 >= 2 * len(LONG)
    for pipe in ends:
        pipe.close()
    SegmentPipe.engine_end(segment, strategy=1).close()
    assert segment.path.stat().st_blocks <= before


def test_a_request_wakes_an_engine_that_is_parked(segment: Segment, ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    header.put(segment.mapping, "park_engine", 1)
    ends[0].try_push(b"request")
    assert header.get(segment.mapping, "park_engine") == 0


def test_the_engines_end_waits_in_its_channel(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    with pytest.raises(LocalProtocolError, match="waits in its channel"):
        ends[1].wait(0)


def test_there_is_no_descriptor_to_watch(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    assert ends[0].fileno() == -1
    with pytest.raises(LocalProtocolError, match="no descriptor"):
        ends[0].arm()


def test_a_wait_is_interrupted_while_it_lasts_and_before(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    client, _ = ends
    thread = call_later(client.interrupt)
    assert not client.wait(LONG_NS)
    thread.join()
    client.interrupt()
    assert not client.wait(LONG_NS)
    assert not client.wait(1_000_000)


def test_room_comes_when_the_peer_reads(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    for here, there in (ends, ends[::-1]):
        while here.try_push(bytes(1020)):
            pass
        assert not here.wait_writable(1000, 1_000_000)
        thread = call_later(there.try_pop)
        assert here.wait_writable(1000, LONG_NS)
        thread.join()


def test_a_killed_engine_ends_the_clients_waits(segment: Segment, start: Callable[..., Any]) -> None:
    process = start(HOLDS_A_LOCK, segment.lock_path)
    assert process.stdout is not None
    byte = int(process.stdout.readline())
    engine_end = SegmentPipe.engine_end(segment, strategy=1)
    engine = LockHolder(segment.lock_path, byte, 7, 0)
    client = SegmentPipe.client_end(segment, engine, strategy=1, peer_bits=PEER_WAKES)
    thread = call_later(process.kill)
    with pytest.raises(PeerDied, match=r"the process of the engine \(pid 7\) ended; start the engine and connect"):
        client.wait(LONG_NS)
    thread.join()
    engine_end.try_push(b"last")
    assert client.wait(LONG_NS)
    while client.try_push(bytes(1020)):
        pass
    with pytest.raises(PeerDied):
        client.wait_writable(1000, LONG_NS)
    client.close()
    engine.close()
    engine_end.close()


def test_closing_ends_what_other_threads_wait_for(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    client, _ = ends
    while client.try_push(bytes(1020)):
        pass
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
    client.close()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 2
    uses: list[Callable[[], object]] = [lambda: client.try_push(b"x"), client.try_pop, lambda: client.wait(0)]
    for use in uses:
        with pytest.raises(ClosedError, match="is closed; connect again"):
            use()


def test_a_new_engines_end_starts_with_empty_rings(segment: Segment, me: Process) -> None:
    for place in ("ring_c2s", "ring_s2c"):
        offset = segment.layout[place].offset
        segment.mapping[offset : offset + 256] = b"\xff" * 256  # what a hostile client may leave
    with pytest.raises(RemoteProtocolError, match="ring positions"):
        SegmentPipe.client_end(segment, me, strategy=1, peer_bits=PEER_WAKES)
    engine = SegmentPipe.engine_end(segment, strategy=1)
    client = SegmentPipe.client_end(segment, me, strategy=1, peer_bits=PEER_WAKES)
    assert engine.reader.position == 0
    assert client.try_push(b"first")
    assert engine.try_pop() == b"first"
    client.close()
    engine.close()


def test_a_forked_child_has_no_pipe(ends: tuple[SegmentPipe, SegmentPipe]) -> None:
    client, engine = ends
    pid = os.fork()
    if not pid:
        try:
            client.try_push(b"from the child")
        except ClosedError as error:
            os._exit(0 if "belongs to the parent process" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.try_push(b"from the parent")
    assert engine.try_pop() == b"from the parent"
