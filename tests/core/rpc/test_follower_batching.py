"""When threads that wait for answers are taken for a relay, and when no more."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lucky_transport.rpc import follower_batching as module
from lucky_transport.rpc.follower_batching import FollowerBatching


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many nanoseconds pass, on a clock that stands still otherwise."""
    now = [time.monotonic_ns()]
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: now[0])

    def later(nanoseconds: int) -> None:
        now[0] += nanoseconds

    return later


def returns(relay: FollowerBatching, count: int) -> None:
    """Have a thread woken and come back at once, so many times."""
    for _ in range(count):
        relay.note_woken()
        relay.note_return()


def returns_until_on(relay: FollowerBatching) -> int:
    """How many quick returns it takes until the relay is on."""
    for count in range(1, 10_000):
        returns(relay, 1)
        if relay.is_on:
            return count
    pytest.fail("it never came on")


def test_threads_that_come_back_at_once_are_a_relay_after_a_while(pass_time: Callable[[int], None]) -> None:
    relay = FollowerBatching()
    assert not relay.is_on
    assert 8 < returns_until_on(relay) < 1000


def test_threads_that_work_between_their_calls_are_none(pass_time: Callable[[int], None]) -> None:
    relay = FollowerBatching()
    for _ in range(10_000):
        relay.note_woken()
        pass_time(1_000_000)
        relay.note_return()
    assert not relay.is_on


def test_a_few_quick_returns_among_slow_ones_prove_nothing(pass_time: Callable[[int], None]) -> None:
    relay = FollowerBatching()
    for _ in range(2000):
        returns(relay, 4)
        pass_time(1_000_000)
        relay.note_return()
    assert not relay.is_on


def test_each_break_asks_for_more_proof_up_to_a_limit(pass_time: Callable[[int], None]) -> None:
    relay = FollowerBatching()
    proofs: list[int] = []
    for _ in range(12):
        proofs.append(returns_until_on(relay))
        relay.note_break()
        assert not relay.is_on
    assert proofs == sorted(proofs)
    assert proofs[-1] == proofs[-2] < 10_000


def test_a_relay_that_held_for_long_is_as_good_as_a_new_one(pass_time: Callable[[int], None]) -> None:
    relay = FollowerBatching()
    fresh = returns_until_on(relay)
    relay.note_break()
    assert returns_until_on(relay) > fresh
    returns(relay, 5000)
    relay.note_break()
    assert returns_until_on(relay) <= 2 * fresh
