"""Sessions in an engine that is started again when it dies, and given up when that is no use."""

from __future__ import annotations

import os
import signal

import pytest

from lucky_transport.engines.cartpole import CartPoleCommand
from lucky_transport.errors import ClosedError, ConfigError, NotReachable, PeerDied, TransportError
from lucky_transport.supervised import SupervisedSessions
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("forked_engines")


def kill_engine_of(supervised: SupervisedSessions) -> None:
    """Kill the engine and wait until it is dead."""
    os.kill(supervised.pid, signal.SIGKILL)
    until(lambda: not supervised.pid)


def test_no_engine_runs_before_it_is_needed_nor_after_the_end() -> None:
    with SupervisedSessions("cartpole") as supervised:
        assert supervised.pid == 0
        assert supervised.sessions.ids() == []
        assert supervised.pid > 0
    assert supervised.pid == 0
    with pytest.raises(ClosedError, match="these sessions are closed"):
        _ = supervised.sessions


def test_an_engine_that_was_killed_is_started_again_without_its_sessions() -> None:
    with SupervisedSessions("cartpole") as supervised:
        sessions = supervised.sessions
        session = sessions.create(seed=1)
        kill_engine_of(supervised)
        with pytest.raises(PeerDied):
            sessions.advance(session)
        assert supervised.sessions.ids() == []
        assert supervised.restarts == 1


def test_an_engine_that_cannot_start_is_given_up_with_its_exit_report() -> None:
    with (
        SupervisedSessions("cartpole", start_timeout_s=0, most_failures=2) as supervised,
        pytest.raises(NotReachable, match=r"failed 2 times in a row, last with .* was not ready within 0.0 s"),
    ):
        _ = supervised.sessions


def test_an_engine_with_a_wrong_option_is_not_started_again() -> None:
    with (
        SupervisedSessions("cartpole", options={"gravity": 1}, most_failures=2) as supervised,
        pytest.raises(ConfigError, match="no option 'gravity'"),
    ):
        _ = supervised.sessions
    assert supervised.restarts == 0


def test_an_engine_that_starts_again_each_time_is_not_given_up() -> None:
    with SupervisedSessions("cartpole", most_failures=1) as supervised:
        for deaths in range(3):
            assert supervised.sessions.ids() == []
            assert supervised.restarts == deaths
            kill_engine_of(supervised)


def test_the_engine_takes_messages_as_long_as_the_settings_say() -> None:
    commands = [CartPoleCommand(True)] * 1000
    with SupervisedSessions("cartpole", max_message_bytes=4000) as supervised:
        session = supervised.sessions.create(seed=1)
        with pytest.raises(TransportError, match="raise max_message_bytes"):
            supervised.sessions.advance(session, 1, commands)
        assert supervised.sessions.ids() == [session]


def test_a_transport_that_cannot_start_an_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot start an engine by itself; take transport='shm'"):
        SupervisedSessions("cartpole", transport="pipe")
