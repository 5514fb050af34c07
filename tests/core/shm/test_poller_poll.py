"""An event loop watches the engine's clients: it looks when the descriptor is readable, and never waits."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

import pytest

from lucky_transport.errors import ClosedError
from lucky_transport.shm.listener.poller import Poller, PollResult
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

LONG_S = 20.0


def is_readable(pipes: Poller, timeout_s: float = 0.0) -> bool:
    poller = select.poll()
    poller.register(pipes.fileno(), select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def look_until_nothing(pipes: Poller) -> None:
    until(lambda: not pipes.look() and not pipes.looking)


def next_news(pipes: Poller) -> PollResult:
    """Do as an event loop does until a look finds something."""
    until = time.monotonic() + LONG_S
    while not (found := pipes.look()):
        assert time.monotonic() < until
        if pipes.looking:
            continue
        patience_ns = pipes.patience_ns
        is_readable(pipes, 1.0 if patience_ns is None else patience_ns / 1e9)
    return found


def test_with_no_news_it_finds_nothing_and_the_descriptor_is_quiet(pipes: Poller, join: Callable) -> None:
    join()
    look_until_nothing(pipes)
    assert not is_readable(pipes)
    assert pipes.patience_ns is None


def test_each_record_makes_the_descriptor_readable(pipes: Poller, join: Callable) -> None:
    ends = [join() for _ in range(3)]
    for number in (2, 0, 1, 1):
        look_until_nothing(pipes)
        client, engine = ends[number]
        client.try_push(b"record")
        assert is_readable(pipes, LONG_S)
        assert pipes.look().ready == [engine]
        assert engine.try_pop() == b"record"


def test_what_was_not_read_is_found_by_every_look(pipes: Poller, join: Callable) -> None:
    client, engine = join()
    client.try_push(b"record")
    for _ in range(3):
        assert pipes.look().ready == [engine]


def test_no_record_is_missed_by_who_looks_only_when_the_descriptor_is_readable(pipes: Poller, join: Callable) -> None:
    client, engine = join()
    count = 3000

    def write() -> None:
        for number in range(count):
            while not client.try_push(b"%d" % number):
                client.wait_writable(8, 10**9)

    thread = threading.Thread(target=write)
    thread.start()
    got: list[bytes] = []
    while len(got) < count:
        for pipe in next_news(pipes).ready:
            while (record := pipe.try_pop()) is not None:
                got.append(record)
    thread.join()
    assert got == [b"%d" % number for number in range(count)]
    assert engine.try_pop() is None


def test_a_client_that_leaves_makes_the_descriptor_readable(pipes: Poller, join: Callable) -> None:
    client, engine = join()
    look_until_nothing(pipes)
    client.try_push(b"last")
    client.close()
    assert next_news(pipes).ready == [engine]
    assert engine.try_pop() == b"last"
    assert next_news(pipes).closed == [engine]
    assert engine.closed


def test_a_pipe_put_aside_is_offered_again_without_the_descriptor(pipes: Poller, join: Callable) -> None:
    client, engine = join()
    look_until_nothing(pipes)
    client.try_push(b"too much")
    assert next_news(pipes).ready == [engine]
    pipes.throttle(engine)
    assert not pipes.look()
    assert pipes.patience_ns is not None
    assert next_news(pipes).ready == [engine]


def test_an_interrupt_makes_the_descriptor_readable_and_is_no_news(pipes: Poller) -> None:
    look_until_nothing(pipes)
    pipes.interrupt()
    assert is_readable(pipes, LONG_S)
    assert not pipes.look()
    assert not is_readable(pipes)


def test_who_looked_may_wait_afterwards(pipes: Poller, join: Callable) -> None:
    client, engine = join()
    look_until_nothing(pipes)
    assert not pipes.wait(1_000_000)
    client.try_push(b"record")
    assert pipes.wait(10**10).ready == [engine]


def test_a_closed_set_has_nothing_to_look_at(pipes: Poller) -> None:
    pipes.close()
    with pytest.raises(ClosedError, match="is closed"):
        pipes.look()
