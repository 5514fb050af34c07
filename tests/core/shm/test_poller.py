"""The engine waits for all its clients in one place, or an event loop watches them there and never waits."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from lucky_transport.errors import ClosedError, RemoteProtocolError
from lucky_transport.shm.listener import connecting, handshake
from lucky_transport.shm.listener.handshake import RingPair
from lucky_transport.shm.listener.poller import Poller, PollResult
from tests.core.shm.conftest import Connect, assert_refused_in_a_child, is_readable
from tests.support.waiting import beside, call_later, until

LONG_NS = 20_000_000_000


def look_until_nothing(pipes: Poller) -> None:
    until(lambda: not pipes.look() and not pipes.looking)


def waited(pipes: Poller) -> PollResult:
    """Wait until a round finds something."""
    return until(lambda: pipes.wait(1_000_000_000))


def looked(pipes: Poller) -> PollResult:
    """Do as an event loop does until a look finds something."""

    def look() -> PollResult:
        if not (found := pipes.look()) and not pipes.looking:
            patience_ns = pipes.patience_ns
            is_readable(pipes, 1.0 if patience_ns is None else patience_ns / 1e9)
        return found

    return until(look)


News = Callable[[Poller], PollResult]
either_way = pytest.mark.parametrize("news", [waited, looked])


def test_an_empty_set_has_no_news_and_its_descriptor_is_quiet(pipes: Poller) -> None:
    assert not pipes.wait(0)
    assert not pipes.wait(2_000_000)
    look_until_nothing(pipes)
    assert not is_readable(pipes)
    assert pipes.patience_ns is None
    assert pipes.pipes == ()


def test_it_can_be_interrupted_while_it_waits_and_before(pipes: Poller) -> None:
    thread = call_later(pipes.interrupt)
    assert not pipes.wait(LONG_NS)
    thread.join()
    pipes.interrupt()
    assert not pipes.wait(LONG_NS)
    look_until_nothing(pipes)
    pipes.interrupt()
    assert is_readable(pipes, 20)
    assert not pipes.look()
    assert not is_readable(pipes)


@either_way
def test_the_one_client_that_wrote_is_found(pipes: Poller, join: Connect, news: News) -> None:
    ends = [join() for _ in range(5)]
    for number in (3, 0, 4, 4):
        client, engine = ends[number]
        look_until_nothing(pipes)
        thread = call_later(client.try_push, b"record")
        assert news(pipes).ready == [engine]
        thread.join()
        for found in (pipes.wait(0), pipes.look()):  # what is not read is found by each look
            assert found.ready == [engine]
        assert engine.try_pop() == b"record"
        assert not pipes.wait(0).ready


def test_a_pipe_that_another_thread_closes_as_the_poller_closes_touches_no_closed_descriptor(
    pipes: Poller, join: Connect, monkeypatch: pytest.MonkeyPatch
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


@either_way
def test_a_client_that_closes_is_reported_once_after_its_last_record(pipes: Poller, join: Connect, news: News) -> None:
    client, engine = join()
    stays, stays_engine = join()
    look_until_nothing(pipes)
    client.try_push(b"last")
    client.close()
    found = news(pipes)
    assert (found.ready, found.closed) == ([engine], [])
    assert engine.try_pop() == b"last"
    assert news(pipes).closed == [engine]
    assert engine.closed
    assert pipes.pipes == (stays_engine,)
    assert not pipes.wait(1_000_000)
    stays.try_push(b"still here")
    assert pipes.wait(LONG_NS).ready == [stays_engine]


@either_way
def test_a_pipe_put_aside_is_offered_again_and_hides_no_other(pipes: Poller, join: Connect, news: News) -> None:
    full, full_engine = join()
    other, other_engine = join()
    look_until_nothing(pipes)
    full.try_push(b"too much")
    for _ in range(4):
        assert news(pipes).ready == [full_engine]
        pipes.throttle(full_engine)
    assert pipes.patience_ns is not None  # an event loop looks without its descriptor
    other.try_push(b"record")
    while other_engine not in (ready := news(pipes).ready):
        assert ready == [full_engine]
        pipes.throttle(full_engine)
    assert other_engine.try_pop() == b"record"
    assert news(pipes).ready == [full_engine]


def test_a_client_that_left_is_reported_although_its_records_were_put_aside(pipes: Poller, join: Connect) -> None:
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
    pipes: Poller, join: Connect, monkeypatch: pytest.MonkeyPatch
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


def test_a_pipe_that_somebody_closes_leaves_the_set(pipes: Poller, join: Connect) -> None:
    _, engine = join()
    thread = call_later(engine.close)
    assert waited(pipes).closed == [engine]
    thread.join()
    assert pipes.pipes == ()


def test_a_client_that_rings_for_nothing_only_wakes(pipes: Poller, join: Callable[[], Any]) -> None:
    client, engine = join()
    for ask in (lambda: pipes.look(expects=False), lambda: pipes.wait(2_000_000)):
        client._parts.connection.send(b"x")
        assert is_readable(pipes)
        assert not ask()
        assert not is_readable(pipes)
    with contextlib.suppress(BlockingIOError):
        while True:
            client._parts.connection.send(b"x")
    assert not pipes.look(expects=False)
    client.try_push(b"record")
    assert is_readable(pipes), "a full socket holds no notice back"
    assert pipes.look().ready == [engine]


def test_closing_ends_the_wait_and_every_pipe(pipes: Poller, join: Connect, tmp_path: Path) -> None:
    client, engine = join()
    thread = call_later(pipes.close)
    for use in (lambda: pipes.wait(LONG_NS), pipes.look):
        with pytest.raises(ClosedError, match="is closed"):
            use()
    thread.join()
    assert engine.closed
    assert client.peer_left
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_has_no_set_and_takes_nothing_away(pipes: Poller, join: Connect) -> None:
    client, engine = join()
    assert_refused_in_a_child(lambda: pipes.wait(0), pipes.look, close=pipes.close)
    client.try_push(b"record")
    assert waited(pipes).ready == [engine]


def test_it_does_not_sleep_while_a_client_that_left_is_not_reported(
    pipes: Any, join: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, engine = join()
    client.try_push(b"last words")
    client.close()
    pipes._epoll_due_ns = 0  # so that the first round sees both
    assert pipes.wait(0).ready == [engine]
    assert engine.try_pop() == b"last words"
    naps: list[float] = []

    epoll, poll = Mock(wraps=pipes._epoll), pipes._epoll.poll
    epoll.poll.side_effect = lambda nap_s: naps.append(nap_s) or poll(0)
    monkeypatch.setattr(pipes, "_epoll", epoll)
    pipes._looks_first = False
    assert pipes.wait(10_000_000_000).closed == [engine]
    assert not any(naps)


def test_no_record_is_missed_by_who_looks_only_when_the_descriptor_is_readable(pipes: Poller, join: Connect) -> None:
    client, engine = join()
    count = 3000

    def write() -> None:
        for number in range(count):
            while not client.try_push(b"%d" % number):
                client.wait_writable(8, 10**9)

    with beside(write):
        got: list[bytes] = []
        while len(got) < count:
            for pipe in looked(pipes).ready:
                while (record := pipe.try_pop()) is not None:
                    got.append(record)
    assert got == [b"%d" % number for number in range(count)]
    assert engine.try_pop() is None
