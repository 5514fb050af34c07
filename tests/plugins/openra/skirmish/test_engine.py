"""The skirmish as an engine of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.testing.contract import EngineContract
from lucky_transport_openra.skirmish.batch import GRID, MOVES, SkirmishBatch
from lucky_transport_openra.skirmish.engine import make_engine
from lucky_transport_openra.skirmish.messages import MapInfo, Observation
from lucky_transport_openra.skirmish.view import CHANNELS
from lucky_transport_openra.skirmish.world import SkirmishWorlds


class TestSkirmish(EngineContract):
    steps = 60
    num_envs = 3

    def make_engine(self, num_envs: int) -> Engine:
        return make_engine("arena", num_envs, bots="brutal", max_ticks=250)


def test_a_vector_env_plays_skirmishes() -> None:
    with api.make("skirmish:arena", 2, transport="inproc", options={"max_ticks": 200}) as env:
        assert env.single_observation_space.shape == (GRID, GRID, len(CHANNELS) + 1)
        assert env.single_action_space == env.batch_spec.action.space()
        first, _ = env.reset(seed=3)
        again, _ = env.reset(seed=3)
        assert first.tobytes() == again.tobytes()
        truncated = np.zeros(2, np.bool_)
        for _ in range(20):
            _, rewards, _, ended, info = env.step(np.array([1, 2]))
            assert rewards.tobytes() == info["reward_terms"]["score"].tobytes()
            truncated |= ended
        assert truncated.all()


def test_a_wrong_variant_or_option_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no variant 'plain'; did you mean 'skirmish:plains'\? use .*skirmish:ridge"):
        make_engine("plain")
    with pytest.raises(ConfigError, match=r"no option 'bot'; did you mean 'bots'\? options: bots, cash, max_ticks"):
        make_engine("", bot="easy")
    with pytest.raises(SpecError, match="cash = -1"):
        make_engine("", cash=-1)


def test_the_moves_are_told_as_an_attribute() -> None:
    moves = make_engine().spec.attributes["moves"]
    assert len(moves) == len(MOVES) == make_engine().spec.action.n
    assert {"no_op", "build power", "train rifle", "attack_move"} <= set(moves)


@pytest.mark.parametrize(
    "seen",
    [
        Observation(),
        Observation(map_info=MapInfo(20, 20, "x"), spatial_map=b"\0" * 12, spatial_channels=3),
        Observation(map_info=MapInfo(2, 2, "x"), spatial_map=b"\0" * 4 * 4 * len(CHANNELS), spatial_channels=8),
        Observation(map_info=MapInfo(-1, 1 << 30, "x"), spatial_channels=-1),
    ],
)
def test_an_observation_without_a_map_of_ours_is_a_row_of_counts(seen: Observation) -> None:
    batch = SkirmishBatch()
    row = np.full(batch.observation.shape, 7, np.float32)
    world = SkirmishWorlds().create("", 1, {})
    batch.write(seen, world, 0.0, row, np.zeros(3, np.float32))
    assert not row.any()
