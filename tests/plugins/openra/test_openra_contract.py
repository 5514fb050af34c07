"""The openra transport keeps the contract, and steps sessions of the bridge as it steps a batch without any wire."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[openra]'")

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.serving import Serving
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.suite import open_reference
from lucky_transport.testing.trajectories import first_difference, random_moves, record_env, record_frames


class TestOpenra(TransportContract):
    endpoint = "openra://127.0.0.1:0"


def _bridge(serving: Serving, sessions: int) -> Endpoint:
    served = serving.endpoints[0]
    asked = (("service", "bridge"), ("sessions", str(sessions)), ("map", "arena"), ("bots", "brutal"))
    return Endpoint(served.scheme, served.address, asked)


def test_sessions_over_the_bridge_are_stepped_bit_for_bit_as_games_without_a_wire(
    serve: Callable[..., Serving],
) -> None:
    with (
        api.open_transport(_bridge(serve(), 3)) as client,
        open_reference("skirmish:arena", 3, bots="brutal") as reference,
    ):
        assert client.name == "openra"
        assert client.capabilities.sessions
        moves = random_moves(client.spec, 60, seed=4)
        frames, expected = (record_frames(each, moves, reset_ended=True) for each in (client, reference))
        assert frames["observations"].any()
        assert frames["rewards"].any()
        assert first_difference(frames, expected) is None


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_a_vector_env_over_the_bridge_gives_the_references_trajectory(serve: Callable[..., Serving], mode: str) -> None:
    worlds = {"max_ticks": 230}
    with (
        api.open_transport(_bridge(serve(worlds=worlds), 2)) as client,
        open_reference("skirmish:arena", 2, bots="brutal", **worlds) as reference,
        VectorEnv(client, autoreset_mode=mode) as env,
        VectorEnv(reference, autoreset_mode=mode) as expected,
    ):
        found = record_env(env, 60, seed=11)
        assert found["truncated"].any()
        assert first_difference(found, record_env(expected, 60, seed=11)) is None


def test_a_held_session_stands_still_and_a_reset_one_begins_anew(serve: Callable[..., Serving]) -> None:
    with api.open_transport(_bridge(serve(), 2)) as client:
        first = client.step(np.zeros(2, np.int64), np.full(2, RESET, np.uint8)).observations.copy()
        client.step(np.ones(2, np.int64))
        frame = client.step(np.ones(2, np.int64), np.array([HOLD, RESET], np.uint8))
        assert frame.observations[1].tobytes() != first[1].tobytes()  # the next episode's seed is another one
        assert frame.rewards[1] == 0


def test_make_plays_over_the_bridge(serve: Callable[..., Serving]) -> None:
    with api.make(endpoint=str(_bridge(serve(), 2)), num_envs=2) as env:
        env.reset(seed=1)
        for _ in range(5):
            env.step(env.action_space.sample())
        assert "transport=openra" in repr(env)


def test_make_starts_an_engine_process_of_its_own() -> None:
    with api.make("skirmish:arena", 2, transport="openra", options={"max_ticks": 100}) as env:
        env.reset(seed=1)
        env.step(env.action_space.sample())
        assert "transport=openra" in repr(env)
