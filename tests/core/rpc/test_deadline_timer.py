"""Calls end at their deadline though their handler and their caller do nothing."""

from __future__ import annotations

import time
from typing import Any

from lucky_transport.codec.envelope import Kind, encode_compact
from lucky_transport.rpc.deadline_timer import DeadlineTimer
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.support.memory_pipe import memory_pipes

LONG_NS = 10**12


class Bench:
    """Calls with deadlines in milliseconds, and alarms that count how often they wanted to be asked again."""

    def __init__(self) -> None:
        self.pipe, end = memory_pipes()
        self.began: list[ServerCall] = []
        self.calls = ServerCalls(end, self.began.append)
        self.woken = 0
        self.deadline_timer = DeadlineTimer(self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def sleep(self) -> None:
        """Return when the soonest deadline has passed."""
        time.sleep(self.deadline_timer.timeout_ns(LONG_NS) / 1e9)

    def begin(self, deadline_ms: int) -> ServerCall:
        record = encode_compact(Kind.REQUEST, len(self.began) + 1, b"", 40, deadline_ms * 1_000_000)
        assert self.pipe.try_push(record)
        self.calls.feed()
        return self.began[-1]


def ended(call: ServerCall) -> list[Any]:
    """Return a list that gets an entry when the call ends."""
    seen: list[Any] = []
    call.call.on_end(lambda: seen.append(call))
    return seen


def test_a_watched_call_ends_when_its_deadline_has_passed() -> None:
    bench = Bench()
    call = bench.begin(20)
    seen = ended(call)
    bench.deadline_timer.watch(call)
    bench.sleep()
    bench.deadline_timer.expire()
    assert call.is_ended
    assert seen == [call]
    assert len(bench.deadline_timer) == 0


def test_the_caller_is_told_nothing_his_own_clock_does() -> None:
    bench = Bench()
    bench.deadline_timer.watch(bench.begin(20))
    bench.sleep()
    bench.deadline_timer.expire()
    assert bench.pipe.try_pop() is None


def test_the_others_go_on_and_are_kept_in_mind() -> None:
    bench = Bench()
    short, long = bench.begin(20), bench.begin(60_000)
    for call in (long, short):
        bench.deadline_timer.watch(call)
    bench.sleep()
    assert bench.deadline_timer.timeout_ns(LONG_NS) == 0
    bench.deadline_timer.expire()
    assert (short.is_ended, long.is_ended) == (True, False)
    assert 50 * 10**9 < bench.deadline_timer.timeout_ns(LONG_NS) <= 60 * 10**9


def test_it_asks_to_be_woken_only_for_a_sooner_deadline() -> None:
    bench = Bench()
    for deadline_ms, woken in ((60_000, 1), (70_000, 1), (50_000, 2)):
        bench.deadline_timer.watch(bench.begin(deadline_ms))
        assert bench.woken == woken


def test_a_call_that_was_answered_is_forgotten_at_once() -> None:
    bench = Bench()
    call = bench.begin(60_000)
    bench.deadline_timer.watch(call)
    call.finish(b"answer")
    assert len(bench.deadline_timer) == 0


def test_calls_without_a_deadline_are_not_watched() -> None:
    bench = Bench()
    bench.deadline_timer.watch(bench.begin(0))
    assert (len(bench.deadline_timer), bench.woken) == (0, 0)
    assert bench.deadline_timer.timeout_ns(5) == 5
