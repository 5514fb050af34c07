"""A deadline is one moment that many waits share."""

from __future__ import annotations

import math
import time

import pytest

from lucky_transport.deadline import Deadline


def test_what_remains_never_grows_and_never_exceeds_the_timeout() -> None:
    deadline = Deadline(5.0)
    first, second = deadline.remaining_ns, deadline.remaining_ns
    assert 0 < second <= first <= 5_000_000_000
    assert 0 < deadline.remaining_s <= 5.0
    assert not deadline.expired


def test_a_deadline_of_nothing_has_passed() -> None:
    deadline = Deadline(0)
    assert deadline.expired
    assert (deadline.remaining_ns, deadline.remaining_s) == (0, 0.0)


def test_a_passed_deadline_stays_passed() -> None:
    deadline = Deadline(0.001)
    time.sleep(0.002)
    assert deadline.expired
    assert deadline.remaining_ns == 0


def test_a_very_long_timeout_is_long_and_not_an_overflow() -> None:
    assert Deadline(math.inf).remaining_s > 1e8


@pytest.mark.parametrize("timeout", [-1.0, math.nan])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"expected a number of seconds >= 0"):
        Deadline(timeout)


def test_a_given_deadline_is_taken_as_it_is() -> None:
    given = Deadline(1.0)
    assert Deadline.after(given, 9.0) is given
    assert Deadline.after(None, 9.0).timeout_s == 9.0


def test_it_tells_what_is_left() -> None:
    assert repr(Deadline(0)) == "Deadline(0 s, 0.000 s left)"
