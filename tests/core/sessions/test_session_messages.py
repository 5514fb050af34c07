"""Whose sessions a client can ask for: those of an engine whose messages are known here."""

from __future__ import annotations

import pytest

from lucky_transport import api
from lucky_transport.errors import Unimplemented
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
