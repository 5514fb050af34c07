"""The transport without a wire keeps the contract, and finds its hosts by name."""

from __future__ import annotations

import itertools

import pytest

from lucky_transport import api
from lucky_transport.errors import NotReachable
from lucky_transport.testing.contract import TransportContract
from lucky_transport.transport import Capabilities
from tests.support.interrupted_moments import interrupted_at


class TestInproc(TransportContract):
    declares = Capabilities(zero_copy=True, streams=True, sessions=True, async_envs=True)
    endpoint = "inproc://{name}"
    has_deadlines = False  # the engine runs in the client's own thread


def test_an_endpoint_nobody_serves_is_not_reachable() -> None:
    with pytest.raises(NotReachable, match=r"no engine at inproc://nobody in this process; serve it here first"):
        api.open_transport("inproc://nobody")


def test_a_name_can_be_taken_only_once() -> None:
    with api.serve("toy", "inproc://taken"), pytest.raises(NotReachable, match="taken in this process"):
        api.serve("toy", "inproc://taken")
    with api.serve("toy", "inproc://taken"):
        pass


def test_an_engine_without_a_name_gets_one() -> None:
    with api.serve("toy", "inproc:") as serving:
        assert str(serving.endpoints[0]).startswith("inproc://engine_")
        api.open_transport(serving.endpoints[0]).close()


def test_frames_are_views_of_the_engines_own_memory() -> None:
    with api.serve("toy", "inproc://views") as serving, api.open_transport("inproc://views") as client:
        assert client.capabilities.zero_copy
        frame = client.step(client.actions)
        shown = frame.observations.copy()
        client.step(client.actions)
        assert frame.observations.tobytes() != shown.tobytes()
        assert serving.host.driver.startswith("inproc client of pid")


def test_an_interrupted_close_is_made_by_the_next_one() -> None:
    with api.serve("toy", "inproc://left") as serving:
        for moment in itertools.count():
            client = api.open_transport("inproc://left")
            client.step(client.actions)
            is_interrupted = interrupted_at(moment, client.close)
            client.close()
            assert not serving.host.driver
            if not is_interrupted:
                break
