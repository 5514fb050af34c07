"""Sessions of an engine elsewhere: whose can be asked for, and of an engine that is started again when it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    RemoteProtocolError,
    SpecError,
    Unimplemented,
)
from lucky_transport.messages import AdvanceSessionResponse, SessionStatus
from lucky_transport.process import unique_name
from lucky_transport.sessions.client import SessionClient, worlds_of


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
