"""Worlds as a batch keep the contract of an engine."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.engine import RESET, TICK, Engine
from lucky_transport.engines.cartpole import CartPoleWorlds, make_engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, SpecError
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.testing.contract import EngineContract
from lucky_transport.testing.suite import every, open_reference, zeros


class TestCartPole(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("", num_envs, wind=2.0)


class ReplacedWorlds(CartPoleWorlds):
    """Carts that cannot start over in place. made, closed: worlds, in this order. seeds: of those that were made."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.made: list[Any] = []
        self.closed: list[Any] = []

    def create(self, map_name: str, seed: int | None, options: Any) -> Any:
        world: Any = super().create(map_name, seed, options)
        world.restart = lambda seed: False
        world.close = lambda: self.closed.append(world)
        self.made.append(world)
        self.seeds.append(seed)
        return world


class TestReplacedWorlds(EngineContract):
    def make_engine(self, num_envs: int) -> Engine:
        return WorldsEngine(ReplacedWorlds(), "replaced", num_envs)


def test_a_world_that_is_replaced_is_closed() -> None:
    worlds = ReplacedWorlds()
    with closing(Host(WorldsEngine(worlds, "replaced", 2))) as host, VectorEnv(InprocTransport(host)) as env:
        env.reset(seed=1)
        replaced, worlds.made = worlds.made, []
        env.reset(seed=2)
        assert worlds.closed == replaced
    assert worlds.closed == replaced + worlds.made


def test_the_first_episode_after_a_reset_with_seeds_has_these_seeds() -> None:
    worlds = ReplacedWorlds()
    with closing(Host(WorldsEngine(worlds, "replaced", 2))) as host, VectorEnv(InprocTransport(host)) as env:
        for seed in (1, 5, 5):
            env.reset(seed=seed)
            env.reset()
    assert worlds.seeds[::4] == [1, 5, 5]
    assert worlds.seeds[1::4] == [2, 6, 6]
    assert worlds.seeds[4:8] == worlds.seeds[8:]


def test_a_time_limit_truncates_and_a_fall_terminates() -> None:
    with api.make("cartpole", transport="inproc", num_envs=2, options={"max_ticks": 3}) as env:
        env.reset(seed=0)
        ends = [env.step(np.array([0, 1]))[2:4] for _ in range(3)]
        assert [bool(truncated.any()) for _, truncated in ends] == [False, False, True]
        assert not any(terminated.any() for terminated, _ in ends)


def test_an_env_that_only_ticks_is_not_pushed() -> None:
    with open_reference("cartpole", 1, initial_angle=0) as client:
        client.step(zeros(client), every(client, RESET))
        assert not client.step(zeros(client), every(client, TICK)).observations.any()
        assert client.step(zeros(client)).observations.any()


def test_worlds_that_are_no_rows_make_no_batch(worlds: Any) -> None:
    with pytest.raises(SpecError, match="the worlds of engine 'scripted' cannot be rows of a batch; use its sessions"):
        WorldsEngine(worlds, "scripted")


def test_an_option_of_another_name_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="no option 'gravity'; options: initial_angle, wind, max_ticks"):
        make_engine("", 1, gravity=1)


@pytest.mark.parametrize("options", [{"wind": "strong"}, {"max_ticks": True}])
def test_an_option_of_a_wrong_kind_is_refused_before_anything_starts(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="expected numbers for initial_angle, wind, max_ticks"):
        make_engine("", 1, **options)
