"""A skirmish is what map, seed and orders make of it, as a world and as an engine of a batch."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.engine import Engine
from lucky_transport.errors import ConfigError, SpecError, UnknownName
from lucky_transport.testing.contract import EngineContract
from lucky_transport_openra.skirmish.batch import GRID, MOVES, SkirmishBatch
from lucky_transport_openra.skirmish.messages import Command, MapInfo, Observation, Order, Orders
from lucky_transport_openra.skirmish.terrain import MAPS
from lucky_transport_openra.skirmish.view import CHANNELS, score_of
from lucky_transport_openra.skirmish.world import SEEDS, SkirmishWorld, SkirmishWorlds, folded, make_engine
from tests.plugins.openra.conftest import go_on, new_world

WORLDS = SkirmishWorlds()
BATCH = SkirmishBatch()


def _played(world: SkirmishWorld, seed: int, ticks: int = 900) -> str:
    """Return a digest of all that is seen of a game with random moves."""
    generator = np.random.default_rng(seed)
    seen = hashlib.sha256()
    for tick in range(ticks):
        if world.is_over:
            break
        if tick % 20 == 0:
            world.act(BATCH.actions(generator.integers(BATCH.action.n, size=())))
        seen.update(",".join(world.tick()).encode())
        if tick % 50 == 0:
            seen.update(encode(world.observe()))
    return seen.hexdigest()


@pytest.mark.parametrize("name", MAPS)
def test_equal_seeds_and_orders_play_the_same_game(name: str) -> None:
    options = {"bots": "brutal"}
    first, second = (_played(WORLDS.create(name, 5, options), 5) for _ in range(2))
    assert first == second
    assert _played(WORLDS.create(name, 6, options), 5) != first


def test_games_side_by_side_do_not_touch_each_other() -> None:
    alone = _played(WORLDS.create("arena", 5, {"bots": "brutal"}), 5)
    others = [WORLDS.create("arena", seed, {"bots": "brutal"}) for seed in (5, 6, 7)]
    for tick in range(100):
        for world in others[1:]:
            world.act(BATCH.actions(np.array(tick % 12)))
            world.tick()
    assert _played(others[0], 5) == alone


def test_a_game_that_starts_over_is_a_new_game_of_that_seed() -> None:
    world = WORLDS.create("arena", 9, {"bots": "brutal"})
    _played(world, 1)
    assert world.restart(5)
    assert _played(world, 5) == _played(WORLDS.create("arena", 5, {"bots": "brutal"}), 5)


def test_games_without_a_seed_differ() -> None:
    seeds = {WORLDS.create("arena", None, {}).seed for _ in range(4)}
    assert len(seeds) == 4
    assert all(1 <= seed <= SEEDS for seed in seeds)


@given(st.integers(0, 1 << 63))
def test_every_seed_plays_the_game_of_one_that_fits_into_31_bits(seed: int) -> None:
    assert 1 <= folded(seed) <= SEEDS
    assert folded(folded(seed)) == folded(seed)


def test_the_score_is_what_the_observation_says() -> None:
    world = new_world(bots="brutal")
    for _ in range(300):
        world.tick()
        assert score_of(world.observe()) == world.score


def test_an_observation_is_the_same_after_its_journey() -> None:
    world = new_world(bots="brutal")
    _played(world, 3, 400)
    seen = world.observe()
    assert decode(Observation, encode(seen)) == seen


def test_an_observation_stays_as_it_is_when_the_world_goes_on() -> None:
    world = new_world(bots="brutal")
    seen = world.observe()
    before = encode(seen)
    _played(world, 3, 100)
    assert encode(seen) == before


def test_a_game_ends_as_a_draw_when_its_time_is_up() -> None:
    world = new_world(max_ticks=30)
    assert go_on(world, 100)[-1] == "game_over"
    assert (world.ticks, world.result) == (30, "draw")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"map": "moon"}, "no map 'moon'; there are: plains, ridge, arena"),
        ({"gold": 1}, "no option 'gold'; a skirmish takes: bots, cash, max_ticks"),
        ({"cash": -1}, "option cash = -1: expected a whole number >= 0"),
        ({"cash": True}, "option cash = True"),
        ({"bots": 3}, "option bots = 3: expected text"),
        ({"bots": "Multi1:rl-agent,Multi0:godlike"}, "expected one opponent out of none, beginner"),
        ({"bots": "easy,hard"}, "expected one opponent"),
    ],
)
def test_a_wrong_option_is_refused_with_the_remedy(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WORLDS.create(options.pop("map", ""), None, options)


def test_the_opponent_is_named_in_openras_way_too() -> None:
    for bots in ("Multi1:rl-agent,Multi0:easy", "Multi0:easy", "easy", "rl-agent", ""):
        WORLDS.create("arena", 1, {"bots": bots})


_COMMANDS = st.builds(
    Command,
    action=st.integers(-1, 30),
    actor_id=st.integers(0, 30),
    target_actor_id=st.integers(0, 30),
    target_x=st.integers(-5, 30),
    target_y=st.integers(-5, 30),
    item_type=st.sampled_from(["", "power", "rifle", "base", "nonsense", "refinery"]),
    queued=st.booleans(),
    ticks=st.integers(-1, 9999),
)


@settings(max_examples=30)
@given(st.lists(st.lists(_COMMANDS, max_size=8), max_size=12), st.integers(0, 3))
def test_whatever_a_player_says_the_game_goes_on(said: list[list[Command]], seed: int) -> None:
    world = WORLDS.create("arena", seed, {"bots": "brutal", "cash": 20000})
    for commands in said:
        world.act([Orders(commands)])
        for _ in range(15):
            if not world.is_over:
                world.tick()
        encode(world.observe())
    surrendered = any(command.action == Order.SURRENDER for commands in said for command in commands)
    assert surrendered or world.ticks == 15 * len(said) or world.is_over


# an engine of a batch


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
    row = np.full(BATCH.observation.shape, 7, np.float32)
    world = WORLDS.create("", 1, {})
    BATCH.write(seen, world, 0.0, row, np.zeros(3, np.float32))
    assert not row.any()
