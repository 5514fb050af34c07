"""How long a side looks before it parks follows its last waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from mmap import mmap
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import native
from lucky_transport.shm.ring import ring_bytes
from lucky_transport.shm.ring_pipe import open_reader, open_writer
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.timing import NATIVE
from lucky_transport.shm.wait import STRATEGIES

USUAL_NS, SOON_NS = 150_000, 800_000
LATER_NS = SOON_NS + 1
RING, SIZE = 64, 4096


def after(waits_ns: Iterable[int], strategy: str = "adaptive") -> int:
    budget = native.SpinBudget(STRATEGIES[strategy])
    for waited_ns in waits_ns:
        budget.learn(waited_ns)
    return budget.ns


def test_a_new_side_looks_for_the_usual_time() -> None:
    assert after([]) == USUAL_NS


def test_four_waits_that_were_over_soon_make_it_look_for_longer() -> None:
    assert after([SOON_NS] * 3) == USUAL_NS
    assert after([SOON_NS] * 4) == SOON_NS


def test_two_long_waits_make_it_park_at_once() -> None:
    assert after([LATER_NS]) == USUAL_NS
    assert after([LATER_NS] * 2) == 0


@given(before=st.lists(st.integers(0, 10 * SOON_NS), max_size=20))
def test_one_wait_of_the_other_kind_ends_an_extreme(before: list[int]) -> None:
    looked_ns = after(before)
    if looked_ns == SOON_NS:
        assert after([*before, LATER_NS]) == USUAL_NS
    if looked_ns == 0:
        assert after([*before, SOON_NS]) == USUAL_NS


def test_calls_in_pairs_at_a_slow_rate_never_lose_the_second_one() -> None:
    assert after([20_000_000, 100_000] * 5) == USUAL_NS


@pytest.mark.parametrize("strategy", ["spin", "block"])
def test_other_strategies_learn_nothing(strategy: str) -> None:
    assert after([], strategy) == after([0] * 9, strategy) == after([10**9] * 9, strategy)


def test_a_reader_learns_the_same() -> None:
    memory = mmap(-1, RING + ring_bytes(SIZE))
    writer, reader = open_writer(memory, RING, SIZE, park=0), cast(Any, open_reader(memory, RING, SIZE, park=0))
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


def publish_elsewhere(memory: mmap, cpu: int = 0) -> None:
    """Make it look as though the writer, whose reader parks at byte 0, ran on that CPU; 0: as though it did not say."""
    native.store32(memory, 4, cpu)


def take_a_record() -> None:
    """Make this thread one that reads."""
    memory = mmap(-1, RING + ring_bytes(SIZE))
    assert open_writer(memory, RING, SIZE).try_push(b"record")
    assert open_reader(memory, RING, SIZE).try_pop() == b"record"


def test_a_thread_that_only_answers_does_not_say_where_it_runs() -> None:
    """Its peer looks for what another thread takes, which runs elsewhere."""
    memory = mmap(-1, RING + ring_bytes(SIZE))
    writer = open_writer(memory, RING, SIZE, park=0)
    said: list[int] = []

    def answer() -> None:
        for before in (lambda: None, take_a_record):
            before()
            publish_elsewhere(memory, 7)  # what another thread said before
            assert writer.try_push(b"record")
            said.append(native.load32(memory, 4))

    thread = threading.Thread(target=answer)
    thread.start()
    thread.join()
    assert said[0] == 0
    assert said[1] - 1 in os.sched_getaffinity(0)


def test_a_reader_does_not_look_for_a_writer_that_runs_on_its_cpu() -> None:
    memory = mmap(-1, RING + ring_bytes(SIZE))
    writer, reader = open_writer(memory, RING, SIZE, park=0), cast(Any, open_reader(memory, RING, SIZE, park=0))
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
    memory = mmap(-1, RING + ring_bytes(SIZE))
    writer, reader = open_writer(memory, RING, SIZE, park=0), cast(Any, open_reader(memory, RING, SIZE, park=0))
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
