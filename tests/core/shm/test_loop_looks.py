"""How long an event loop looks for a record before it sleeps, and what it looks at meanwhile."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from lucky_transport.errors import PeerDied
from lucky_transport.shm import wait
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe
from lucky_transport.shm.listener.poller import Poller
from lucky_transport.shm.timing import NATIVE
from lucky_transport.shm.wait import STRATEGIES, LoopLooks

USUAL_NS, SOON_NS = NATIVE["YIELD_NS"], NATIVE["SOON_NS"]
ROUND_NS = NATIVE["LOST_CORE_NS"] // 20


class Clock:
    """Nanoseconds that pass when a test says so, or with each yield."""

    def __init__(self) -> None:
        self.now_ns = 10**9
        self.yield_ns = ROUND_NS

    def __call__(self) -> int:
        return self.now_ns

    def give_core_away(self) -> None:
        self.now_ns += self.yield_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wait, "monotonic_ns", clock)
    monkeypatch.setattr(wait.os, "sched_yield", clock.give_core_away)
    return clock


Connect = Callable[..., tuple[MemfdPipe, MemfdPipe]]


def looks_of(strategy: str = "adaptive") -> LoopLooks:
    return LoopLooks(STRATEGIES[strategy])


def look_on(looks: LoopLooks, clock: Clock) -> int:
    """Look until it no longer pays, at most for 100 ms; return for how long that was."""
    start_ns = clock.now_ns
    while looks.go_on() and clock.now_ns - start_ns < 100_000_000:
        pass
    return clock.now_ns - start_ns


def wait_for(looks: LoopLooks, clock: Clock, waited_ns: int) -> None:
    looks.begin()
    clock.now_ns += waited_ns
    looks.came()


def test_it_looks_for_the_usual_time_and_gives_the_core_away_each_time(clock: Clock) -> None:
    looks = looks_of()
    assert looks.begin()
    assert look_on(looks, clock) == USUAL_NS


def test_two_long_waits_make_it_sleep_at_once_and_a_short_one_look_again(clock: Clock) -> None:
    looks = looks_of()
    for _ in range(2):
        wait_for(looks, clock, SOON_NS + 1)
    assert not looks.begin()
    before_ns = clock.now_ns
    assert not looks.go_on()
    assert clock.now_ns == before_ns, "the core was given away for nothing"
    wait_for(looks, clock, ROUND_NS)
    assert looks.begin()


def test_waits_that_are_over_soon_make_it_look_for_longer(clock: Clock) -> None:
    looks = looks_of()
    for _ in range(4):
        wait_for(looks, clock, ROUND_NS)
    looks.begin()
    assert look_on(looks, clock) == SOON_NS


def waits_without(looks: LoopLooks, clock: Clock) -> int:
    """Have a round take long; return for how many waits it does not look."""
    looks.begin()
    clock.yield_ns = NATIVE["LOST_CORE_NS"] + 1
    assert not looks.go_on()
    clock.yield_ns = ROUND_NS
    count = 0
    while not looks.go_on():
        looks.came()
        count += 1
    return count


def test_a_round_that_took_long_makes_some_waits_do_without_and_the_next_such_round_more(clock: Clock) -> None:
    """Another program had the core, or the loop had other work: there is little to be gained."""
    looks = looks_of()
    assert [waits_without(looks, clock) for _ in range(7)] == [8, 16, 32, 64, 128, 256, 256]
    for _ in range(300):
        wait_for(looks, clock, ROUND_NS)
    assert waits_without(looks, clock) == 8


def test_block_never_looks_and_spin_whatever_it_learns(clock: Clock) -> None:
    assert not looks_of("block").begin()
    spinning = looks_of("spin")
    for _ in range(5):
        wait_for(spinning, clock, 100 * SOON_NS)
    clock.yield_ns = NATIVE["LOST_CORE_NS"] + 1
    assert spinning.begin()
    assert look_on(spinning, clock) >= NATIVE["SPIN_SLICE_NS"]


def test_records_that_nothing_answers_are_not_looked_for(clock: Clock) -> None:
    """One side writes to a stream, at any rate, and the other one says nothing."""
    looks = looks_of()
    for _ in range(4):
        looks.begin()
        clock.now_ns += SOON_NS
    assert not looks.begin()
    wait_for(looks, clock, ROUND_NS)
    assert looks.begin(), "something was answered"


def test_time_in_which_nothing_was_expected_teaches_nothing(clock: Clock) -> None:
    looks = looks_of()
    for _ in range(5):
        wait_for(looks, clock, ROUND_NS)
        clock.now_ns += 100 * SOON_NS
    looks.begin()
    assert look_on(looks, clock) == SOON_NS


def test_several_records_at_once_are_looked_for(clock: Clock) -> None:
    looks = looks_of()
    for _ in range(100):
        clock.now_ns += SOON_NS // 200
        assert looks.begin()


def is_readable(watched: MemfdPipe | Poller) -> bool:
    poller = select.poll()
    poller.register(watched.fileno(), select.POLLIN)
    return bool(poller.poll(0))


def test_a_pipe_is_not_rung_while_a_loop_looks(clock: Clock, connect: Connect) -> None:
    client, engine = connect()
    assert not client.arm()
    assert client.expect()
    assert client.arm(expects=True), "an answer is expected: look again"
    engine.try_push(b"answer")
    assert not is_readable(client)
    assert client.try_pop() == b"answer"
    assert not client.arm(), "nothing more is expected"
    engine.try_push(b"more")
    assert is_readable(client)


def test_a_pipe_is_armed_once_looking_pays_no_longer(clock: Clock, connect: Connect) -> None:
    client, engine = connect()
    client.expect()
    while client.arm(expects=True):
        pass
    engine.try_push(b"answer")
    assert is_readable(client)


def test_a_server_is_rung_only_once_it_looks_no_longer(clock: Clock, pipes: Poller, join: Connect) -> None:
    client, engine = join()
    while pipes.look() or pipes.looking:
        pass
    client.try_push(b"first")
    assert is_readable(pipes)
    assert pipes.look().ready == [engine]
    assert engine.try_pop() == b"first"
    assert not pipes.look()
    assert pipes.looking
    client.try_push(b"second")
    assert pipes.look().ready == [engine]
    assert engine.try_pop() == b"second"
    while pipes.look() or pipes.looking:
        pass
    client.try_push(b"third")
    assert is_readable(pipes)


def test_the_end_of_a_server_ends_a_look_though_ever_more_is_expected(clock: Clock, connect: Connect) -> None:
    client, engine = connect(strategy=STRATEGIES["spin"])
    client.expect()
    assert client.arm(expects=True)
    engine.close()

    def look_on_and_on() -> None:
        for _ in range(1000):
            client.expect()
            client.arm(expects=True)

    with pytest.raises(PeerDied):
        look_on_and_on()


def test_a_server_looks_on_once_it_has_answered_and_not_before(clock: Clock, pipes: Poller, join: Connect) -> None:
    client, engine = join()
    client.try_push(b"question")
    while not pipes.look().ready:
        pass
    assert engine.try_pop() == b"question"
    assert not pipes.look(expects=False), "its handlers want the core"
    assert not pipes.looking
    assert pipes.expect()
    client.try_push(b"next")
    assert not is_readable(pipes), "nobody was rung"
    assert pipes.look().ready == [engine]
