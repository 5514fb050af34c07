"""Sessions of an engine elsewhere: whose can be asked for, and of an engine that is started again when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Handler
from lucky_transport.engines.cartpole import CartPoleCommand
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    ClosedError,
    ConfigError,
    NotReachable,
    PeerDied,
    RemoteProtocolError,
    SpecError,
    TransportError,
    Unimplemented,
)
from lucky_transport.messages import AdvanceSessionResponse, SessionStatus
from lucky_transport.process import unique_name
from lucky_transport.sessions.client import SessionClient, worlds_of
from lucky_transport.supervised import SupervisedSessions
from tests.support.waiting import until


@pytest.mark.parametrize("engine", ["toy", "toy:idle", "mujoco:quadruped", "gymnasium:CartPole-v1", "one's own"])
def test_an_engine_without_sessions_says_so_whatever_its_variant(engine: str) -> None:
    with pytest.raises(Unimplemented, match=rf"^engine '?\"?{engine}'?\"? has no sessions; step it as a batch$"):
        worlds_of(engine)


def test_a_variant_of_an_engine_with_sessions_has_them() -> None:
    assert worlds_of("cartpole:any").__class__ is worlds_of("cartpole").__class__


@pytest.mark.parametrize("transport", ["inproc", "shm"])
def test_a_session_of_a_running_batch_engine_is_unimplemented(transport: str) -> None:
    with (
        api.serve("toy", f"{transport}://{unique_name()}") as serving,
        api.open_transport(serving.endpoints[0]) as client,
        pytest.raises(Unimplemented, match="engine 'toy' has no sessions"),
    ):
        SessionClient(client)


class _Newer(ToyEngine):
    """Answers as an engine might that knows other phases, and advances without showing its world."""

    @property
    def services(self) -> Mapping[str, Handler]:
        service = "/lucky_transport.v1.SessionService/"
        return {
            f"{service}GetSession": lambda request: SessionStatus(phase="melting"),
            f"{service}AdvanceSession": lambda request: AdvanceSessionResponse(),
        }


@pytest.fixture
def newer() -> Iterator[SessionClient]:
    """A client of an engine whose answers it does not understand."""
    with (
        api.serve(_Newer(1), f"inproc://{unique_name()}") as serving,
        api.open_transport(serving.endpoints[0]) as client,
    ):
        yield SessionClient(client, worlds_of("cartpole"))


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda sessions: sessions.state("one"), "a session is in phase 'melting'; is the engine newer than this"),
        (lambda sessions: sessions.advance("one"), "the engine's answer shows no world; the peer is broken"),
    ],
    ids=["phase", "world"],
)
def test_an_answer_that_cannot_be_understood_is_the_peers_fault(
    newer: SessionClient, ask: Callable[[SessionClient], Any], text: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        ask(newer)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["no number", "a set", "an object"])
def test_options_that_are_no_json_are_refused_before_anything_is_sent(newer: SessionClient, value: Any) -> None:
    with pytest.raises(SpecError, match="the session's options cannot go to the engine as JSON: "):
        newer.create(options={"wind": value})


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
