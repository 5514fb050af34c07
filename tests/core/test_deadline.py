"""A deadline is one moment that many waits share; a wait that lasts says once what it waits for."""

import logging
import math
import threading
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from lucky_transport import api
from lucky_transport import deadline as deadlines
from lucky_transport.deadline import Deadline, log_long_wait
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport.process import EngineProcess, unique_name
from tests.support.interrupted_moments import interrupted_start
from tests.support.resources import threads_of
from tests.support.waiting import PATIENCE_S, until


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


def test_a_test_that_freezes_time_stops_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"):
        monkeypatch.setattr(time, name, lambda: 0)
    deadline = Deadline(0.01)
    while not deadline.expired:
        pass
    assert deadline.remaining_s == 0


def test_a_very_long_timeout_is_long_and_not_an_overflow() -> None:
    assert Deadline(math.inf).remaining_s > 1e8


@pytest.mark.parametrize("timeout", [-1.0, math.nan])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a number of seconds >= 0"):
        Deadline(timeout)


def test_a_given_deadline_is_taken_as_it_is() -> None:
    given = Deadline(1.0)
    assert Deadline.after(given, 9.0) is given
    assert Deadline.after(None, 9.0).timeout_s == 9.0


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "NOTICE_AFTER_S", 0.05)


@pytest.fixture
def noticed(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    def notices() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    return notices


@pytest.mark.usefixtures("_impatient")
def test_a_wait_that_lasts_says_what_it_waits_for_and_how_long(noticed: Callable[[], list[str]]) -> None:
    deadline = Deadline(PATIENCE_S)
    with log_long_wait("the kettle", 30.0):
        while not noticed():
            assert not deadline.expired
            threading.Event().wait(0.01)
    assert noticed() == ["still waiting for the kettle; gives up after 30 s"]


def test_a_wait_that_is_over_or_may_not_last_is_silent(noticed: Callable[[], list[str]]) -> None:
    before = set(threads_of("lucky-notice"))
    with log_long_wait("the kettle", deadlines.NOTICE_AFTER_S):
        assert not set(threads_of("lucky-notice")) - before
    with log_long_wait("the kettle"):
        pass
    assert noticed() == []


def test_a_wait_inside_another_is_part_of_it() -> None:
    def notices() -> list[threading.Thread]:
        return [thread for thread in threads_of("lucky-notice") if thread not in before]

    before = set(threads_of("lucky-notice"))
    with log_long_wait("the kettle", 30.0), log_long_wait("the water", 20.0):
        assert len(notices()) == 1
    until(lambda: not notices())
    with log_long_wait("the kettle", 0.0), log_long_wait("the water", 20.0):
        assert notices() == []
    with log_long_wait("the cup", 10.0):
        assert len(notices()) == 1


def test_a_wait_goes_on_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with log_long_wait("the kettle", 30.0):
        pass


@pytest.mark.usefixtures("_impatient")
def test_connecting_to_an_absent_engine_says_so(noticed: Callable[[], list[str]]) -> None:
    name = unique_name()
    with pytest.raises(NotReachable):
        api.connect(f"shm://{name}", connect_timeout_s=0.5)
    with pytest.raises(NotReachable):
        api.make(endpoint=f"shm://{name}", connect_timeout_s=0.5)
    assert noticed() == [f"still waiting for the engine at shm://{name}; gives up after 0.5 s"] * 2


@pytest.mark.exhaustive
@pytest.mark.usefixtures("_impatient")
def test_an_engine_that_starts_slowly_says_so(noticed: Callable[[], list[str]]) -> None:
    with pytest.raises(NotReachable, match="was not ready"):
        EngineProcess("toy", ["inproc:"], options={"start_delay_s": 60}, start_timeout_s=0.5)
    assert noticed() == ["still waiting for engine 'toy' to start; gives up after 0.5 s"]


def test_a_wait_whose_beginning_is_interrupted_is_not_logged_later() -> None:
    with interrupted_start(KeyboardInterrupt), pytest.raises(KeyboardInterrupt), log_long_wait("the kettle", 30.0):
        pass
    until(lambda: not threads_of("lucky-notice"))
