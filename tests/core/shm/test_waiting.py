"""How long a side looks before it parks or sleeps follows its last waits."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from mmap import mmap

import pytest

from lucky_transport import native
from lucky_transport.errors import PeerDied
from lucky_transport.shm import wait
from lucky_transport.shm.listener.poller import Poller
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.timing import NATIVE
from lucky_transport.shm.wait import STRATEGIES, LoopLooks
from tests.core.shm.conftest import Connect, is_readable
from tests.support.ring_rules import ring_ends
from tests.support.waiting import at_once

USUAL_NS, SOON_NS = 150_000, 800_000
LATER_NS = SOON_NS + 1
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


def after(waits_ns: Iterable[int], strategy: str = "adaptive") -> int:
    budget = native.SpinBudget(STRATEGIES[strategy])
    for waited_ns in waits_ns:
        budget.learn(waited_ns)
    return budget.ns


#: The last waits -> for how long the next one looks; as docs/explanation/waiting.md has it.
HISTORIES: list[tuple[list[int], int]] = [
    ([], USUAL_NS),
    ([SOON_NS] * 3, USUAL_NS),
    ([SOON_NS] * 4, SOON_NS),
    ([*[SOON_NS] * 4, LATER_NS], USUAL_NS),
    ([LATER_NS], USUAL_NS),
    ([LATER_NS] * 2, 0),
    ([*[LATER_NS] * 2, ROUND_NS], USUAL_NS),
    ([20_000_000, 100_000] * 5, USUAL_NS),  # calls in pairs at a slow rate never lose the second one
]


@pytest.mark.parametrize(("waits_ns", "looks_ns"), HISTORIES)
def test_a_side_and_a_loop_look_as_their_last_waits_taught(waits_ns: list[int], looks_ns: int, clock: Clock) -> None:
    assert after(waits_ns) == looks_ns
    looks = looks_of()
    for waited_ns in waits_ns:
        wait_for(looks, clock, waited_ns)
    assert looks.begin() is (looks_ns > 0)
    assert look_on(looks, clock) == looks_ns  # each look gives the core away, none for nothing


@pytest.mark.parametrize("strategy", ["spin", "block"])
def test_other_strategies_learn_nothing(strategy: str) -> None:
    assert after([], strategy) == after([0] * 9, strategy) == after([10**9] * 9, strategy)


def test_a_reader_learns_the_same() -> None:
    memory, writer, reader = a_ring()
    learnt: list[int] = []

    def wait(timeout_ns: int) -> int:
        return reader.wait(timeout_ns, False, True)  # without a yield, so that other programs change nothing

    for _ in range(3):
        assert wait(2 * SOON_NS) == Result.TIMED_OUT
        learnt.append(reader.spin_ns)
    assert writer.try_push(b"record")
    publish_elsewhere(memory)
    for _ in range(5):
        assert wait(2 * SOON_NS) == 1
        learnt.append(reader.spin_ns)
    reader.try_pop()
    wait(0)
    learnt.append(reader.spin_ns)
    wait(2 * SOON_NS)
    learnt.append(reader.spin_ns)
    assert learnt == [USUAL_NS, 0, 0, USUAL_NS, USUAL_NS, USUAL_NS, USUAL_NS, SOON_NS, SOON_NS, USUAL_NS]


def a_ring() -> tuple[mmap, native.RingWriter, native.RingReader]:
    """Return the memory and the ends of a ring whose reader parks at byte 0."""
    return ring_ends(4096, 64, park=0)


def publish_elsewhere(memory: mmap, cpu: int = 0) -> None:
    """Make it look as though the writer ran on that CPU; 0: as though it did not say."""
    native.store32(memory, 4, cpu)


def take_a_record() -> None:
    """Make this thread one that reads."""
    _, writer, reader = a_ring()
    assert writer.try_push(b"record")
    assert reader.try_pop() == b"record"


def test_a_thread_that_only_answers_does_not_say_where_it_runs() -> None:
    """Its peer looks for what another thread takes, which runs elsewhere."""
    memory, writer, _ = a_ring()
    said: list[int] = []

    def answer() -> None:
        for before in (lambda: None, take_a_record):
            before()
            publish_elsewhere(memory, 7)  # what another thread said before
            assert writer.try_push(b"record")
            said.append(native.load32(memory, 4))

    at_once(answer)
    assert said[0] == 0
    assert said[1] - 1 in os.sched_getaffinity(0)


def test_a_reader_does_not_look_for_a_writer_that_runs_on_its_cpu() -> None:
    memory, writer, reader = a_ring()
    assert reader.spin_ns == USUAL_NS  # nothing is known yet
    take_a_record()
    usable = os.sched_getaffinity(0)
    mine = min(usable)
    os.sched_setaffinity(0, {mine})
    try:
        assert writer.try_push(b"record")
        assert native.load32(memory, 4) == mine + 1
        assert reader.spin_ns == 0
        publish_elsewhere(memory, mine + 2)
        assert reader.spin_ns == USUAL_NS
        publish_elsewhere(memory)
        assert reader.spin_ns == USUAL_NS
    finally:
        os.sched_setaffinity(0, usable)


#: Computes on the one CPU that it is started on, until its stdin ends.
CO_RUNNER = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print("ready", flush=True)
while True:
    pass
"""


def test_a_yield_that_gives_the_core_to_another_program_makes_the_next_waits_park_without_one() -> None:
    memory, writer, reader = a_ring()
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        with subprocess.Popen(
            [sys.executable, "-S", "-c", CO_RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"ready\n"
            learnt = USUAL_NS
            for _ in range(300):  # a kernel may let several yields of a thread that slept return at once
                if learnt == 0:
                    break
                assert writer.try_push(b"record")
                publish_elsewhere(memory)
                assert reader.wait(SOON_NS) == 1  # a wait that is over soon: a long one after it is the first of two
                reader.try_pop()
                assert reader.wait(LATER_NS) == Result.TIMED_OUT
                learnt = reader.spin_ns
    finally:
        os.sched_setaffinity(0, usable)
    assert learnt == 0
    for _ in range(NATIVE["LOST_CORE_WAITS"] - 1):
        reader.wait(0)
        assert reader.spin_ns == 0
    reader.wait(0)
    assert reader.spin_ns == USUAL_NS


def test_a_pipe_is_not_rung_while_a_loop_looks(clock: Clock, connect: Connect) -> None:
    client, engine = connect()
    assert not client.arm()
    assert client.expect()
    assert client.arm(expects=True), "an answer is expected: look again"
    engine.try_push(b"answer")
    assert not is_readable(client)
    assert client.try_pop() == b"answer"
    assert client.arm(), "what waited for the answer may send more at once"
    assert not client.arm(), "nothing more is expected"
    engine.try_push(b"more")
    assert is_readable(client)
    assert client.try_pop() == b"more"
    client.expect()
    while client.arm(expects=True):
        pass
    engine.try_push(b"answer")
    assert is_readable(client), "looking pays no longer"


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


def test_an_interrupt_that_comes_as_a_wait_ends_is_not_lost() -> None:
    _, _, reader = a_ring()
    for _ in range(300):
        thread = threading.Timer(0.001, reader.interrupt)
        thread.start()
        first = reader.wait(1_000_000)
        thread.join()
        assert 0 in (first, reader.wait(0))
