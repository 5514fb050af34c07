"""The engine waits for all its clients in one place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ClosedError, RemoteProtocolError
from lucky_transport.shm.listener import connecting, handshake
from lucky_transport.shm.listener.handshake import RingPair
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.poller import Poller
from tests.support.waiting import call_later, until

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

LONG_NS = 20_000_000_000

CLIENT = """
import sys
from pathlib import Path
from lucky_transport.deadline import Deadline
from lucky_transport.shm.listener.connecting import connect_pipe
pipe = connect_pipe("demo", Deadline(20), directories=[Path(sys.argv[1])])
pipe.try_push(b"hello")
print("connected", flush=True)
for number in range(int(sys.argv[2])):
    while not pipe.try_push(b"%d" % number):
        pipe.wait_writable(8, 10**10)
sys.stdin.read()
"""


def wait_for(pipes: Poller, what: Callable[[Any], list[MemfdPipe]]) -> list[MemfdPipe]:
    """Wait until a round has some of what is asked for."""
    return until(lambda: what(pipes.wait(1_000_000_000)))


def test_an_empty_set_waits_until_the_timeout(pipes: Poller) -> None:
    assert not pipes.wait(0)
    assert not pipes.wait(2_000_000)
    assert pipes.pipes == ()


def test_it_can_be_interrupted_while_it_waits_and_before(pipes: Poller) -> None:
    thread = call_later(pipes.interrupt)
    assert not pipes.wait(LONG_NS)
    thread.join()
    pipes.interrupt()
    assert not pipes.wait(LONG_NS)


def test_the_one_client_that_wrote_is_found(pipes: Poller, join: Callable[[], Any]) -> None:
    ends = [join() for _ in range(5)]
    for number in (3, 0, 4, 4):
        client, engine = ends[number]
        thread = call_later(lambda client=client: client.try_push(b"record"))
        assert wait_for(pipes, lambda found: found.ready) == [engine]
        thread.join()
        assert engine.try_pop() == b"record"
        assert not pipes.wait(0).ready


def test_what_is_there_already_is_found_at_once(pipes: Poller, join: Callable[[], Any]) -> None:
    client, engine = join()
    client.try_push(b"record")
    for _ in range(2):
        assert pipes.wait(0).ready == [engine]


def test_a_pipe_that_another_thread_closes_as_the_poller_closes_touches_no_closed_descriptor(
    pipes: Poller, join: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, engine = join()
    write, alarm = os.eventfd_write, pipes._alarm.fd  # pyright: ignore[reportPrivateUsage]

    def write_once_closed(fd: int, value: int) -> None:
        if fd == alarm:
            monkeypatch.setattr(os, "eventfd_write", write)
            pipes.close()
        write(fd, value)

    monkeypatch.setattr(os, "eventfd_write", write_once_closed)
    engine.close()
    with pytest.raises(ClosedError):
        pipes.wait(0)


def test_a_client_that_closes_is_reported_once_after_its_last_record(pipes: Poller, join: Callable[[], Any]) -> None:
    client, engine = join()
    stays, stays_engine = join()
    client.try_push(b"last")
    client.close()
    found = pipes.wait(LONG_NS)
    assert (found.ready, found.closed) == ([engine], [])
    assert engine.try_pop() == b"last"
    assert wait_for(pipes, lambda found: found.closed) == [engine]
    assert engine.closed
    assert pipes.pipes == (stays_engine,)
    assert not pipes.wait(1_000_000)
    stays.try_push(b"still here")
    assert pipes.wait(LONG_NS).ready == [stays_engine]


@pytest.mark.exhaustive
def test_a_killed_client_is_noticed_by_itself(pipes: Poller, tmp_path: Path, start: Callable[..., Any]) -> None:
    processes = [start(CLIENT, tmp_path, 0) for _ in range(2)]
    hellos: list[int] = []
    while len(hellos) < 2:
        for pipe in wait_for(pipes, lambda found: found.ready):
            assert pipe.try_pop() == b"hello"
            hellos.append(pipe.pid)
    for process in processes:
        assert process.stdout.readline() == "connected\n"
    thread = call_later(processes[0].kill)
    (left,) = wait_for(pipes, lambda found: found.closed)
    thread.join()
    assert left.pid == processes[0].pid
    assert [pipe.pid for pipe in pipes.pipes] == [processes[1].pid]


@pytest.mark.exhaustive
def test_many_clients_of_other_processes_are_all_read(pipes: Poller, tmp_path: Path, start: Callable[..., Any]) -> None:
    count = 500
    processes = [start(CLIENT, tmp_path, count) for _ in range(3)]
    got: dict[int, list[bytes]] = {process.pid: [] for process in processes}

    def all_read() -> bool:
        for pipe in pipes.wait(1_000_000_000).ready:
            while (record := pipe.try_pop()) is not None:
                got[pipe.pid].append(record)
        return all(len(records) == count + 1 for records in got.values())

    until(all_read)
    assert all(records == [b"hello", *(b"%d" % number for number in range(count))] for records in got.values())


def test_a_pipe_put_aside_is_offered_again_and_does_not_hide_the_others(pipes: Poller, join: Callable[[], Any]) -> None:
    full, full_engine = join()
    other, other_engine = join()
    full.try_push(b"too much")
    pipes.throttle(full_engine)
    for _ in range(3):
        assert pipes.wait(LONG_NS).ready == [full_engine]
        pipes.throttle(full_engine)
    other.try_push(b"record")
    while other_engine not in (ready := pipes.wait(LONG_NS).ready):
        assert ready == [full_engine]
        pipes.throttle(full_engine)
    assert other_engine.try_pop() == b"record"
    assert wait_for(pipes, lambda found: found.ready) == [full_engine]


def test_a_client_that_left_is_reported_although_its_records_were_put_aside(
    pipes: Poller, join: Callable[[], Any]
) -> None:
    client, engine = join()
    client.try_push(b"never read")
    client.close()
    until = time.monotonic() + 10
    while not (found := pipes.wait(LONG_NS)).closed:
        assert time.monotonic() < until
        for pipe in found.ready:
            pipes.throttle(pipe)
    assert found.closed == [engine]


def test_a_hostile_ring_is_offered_and_its_pipe_can_be_discarded(
    pipes: Poller, join: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[RingPair] = []

    def receive_pair(*offered: int) -> RingPair:
        received.append(handshake.receive_pair(*offered))
        return received[-1]

    monkeypatch.setattr(connecting, "receive_pair", receive_pair)
    client, engine = join()
    received.pop().mapping[256:260] = (4).to_bytes(4, "little")
    assert pipes.wait(LONG_NS).ready == [engine]
    with pytest.raises(RemoteProtocolError):
        engine.try_pop()
    pipes.discard(engine)
    pipes.discard(engine)
    assert pipes.pipes == ()
    assert not pipes.wait(1_000_000)
    assert client.peer_left


def test_a_pipe_that_somebody_closes_leaves_the_set(pipes: Poller, join: Callable[[], Any]) -> None:
    _, engine = join()
    thread = call_later(engine.close)
    assert wait_for(pipes, lambda found: found.closed) == [engine]
    thread.join()
    assert pipes.pipes == ()


def test_a_client_that_rings_for_nothing_only_wakes(pipes: Poller, join: Callable[[], Any]) -> None:
    client, engine = join()
    client._parts.peer_event.notify()
    assert not pipes.wait(5_000_000)
    client._parts.peer_event.consume()
    client.try_push(b"record")
    assert pipes.wait(LONG_NS).ready == [engine]


def test_a_bell_whose_pipe_is_gone_disturbs_nobody(pipes: Poller, join: Callable[[], Any]) -> None:
    """The client still holds its copy of the bell, whose number may belong to another client by now."""
    first, first_engine = join()
    bell = os.dup(first._parts.peer_event.fd)
    try:
        pipes.discard(first_engine)
        _, engine = join()
        os.eventfd_write(bell, 1)
        assert not pipes.wait(5_000_000)
        assert pipes.pipes == (engine,)
    finally:
        os.close(bell)


def test_closing_ends_the_wait_and_every_pipe(pipes: Poller, join: Callable[[], Any], tmp_path: Path) -> None:
    client, engine = join()
    thread = call_later(pipes.close)
    with pytest.raises(ClosedError, match="is closed"):
        pipes.wait(LONG_NS)
    thread.join()
    assert engine.closed
    assert client.peer_left
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_has_no_set_and_takes_nothing_away(pipes: Poller, join: Callable[[], Any]) -> None:
    client, engine = join()
    pid = os.fork()
    if not pid:
        try:
            pipes.wait(0)
        except ClosedError as error:
            os._exit(0 if "belongs to the parent process" in str(error) else 1)
        finally:
            pipes.close()
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    thread = call_later(lambda: client.try_push(b"record"))
    assert wait_for(pipes, lambda found: found.ready) == [engine]
    thread.join()


def test_it_does_not_sleep_while_a_client_that_left_is_not_reported(
    pipes: Any, join: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, engine = join()
    client.try_push(b"last words")
    client.close()
    pipes._look_at = 0  # so that the first round sees both
    assert pipes.wait(0).ready == [engine]
    assert engine.try_pop() == b"last words"
    naps: list[float] = []

    class Epoll:
        """The set's own, which says how long it was asked to sleep and does not."""

        def __init__(self, epoll: Any) -> None:
            self._epoll = epoll

        def __getattr__(self, name: str) -> Any:
            return getattr(self._epoll, name)

        def poll(self, nap_s: float) -> Any:
            naps.append(nap_s)
            return self._epoll.poll(0)

    monkeypatch.setattr(pipes, "_epoll", Epoll(pipes._epoll))
    pipes._skip_spin = True
    assert pipes.wait(10_000_000_000).closed == [engine]
    assert not any(naps)
