"""A skirmish is what map, seed and orders make of it: what orders do, as a world and as an engine of a batch."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.engine import Engine
from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport.testing.contract import EngineContract
from lucky_transport.world import World
from lucky_transport_openra.skirmish.messages import Command, MapInfo, Observation, Order, Orders, Unit
from lucky_transport_openra.skirmish.rules import CELL, KINDS
from lucky_transport_openra.skirmish.view import CHANNELS, score_of
from tests.plugins.openra.conftest import WORLDS, go_on, new_world, say

BATCH = WORLDS.batch


def _played(world: World, seed: int, ticks: int = 900) -> str:
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


@pytest.mark.parametrize("name", ["plains", "ridge", "arena"])
def test_equal_seeds_and_orders_play_the_same_game(name: str) -> None:
    first, second = (_played(new_world(name, 5, bots="brutal"), 5) for _ in range(2))
    assert first == second
    assert _played(new_world(name, 6, bots="brutal"), 5) != first


def test_games_without_a_seed_differ() -> None:
    assert len({new_world(seed=None).seed for _ in range(4)}) == 4


@given(st.integers(0, 1 << 63))
def test_every_seed_plays_the_game_of_one_that_fits_into_31_bits(seed: int) -> None:
    plays = new_world(seed=seed).seed
    assert 1 <= plays < 1 << 31
    assert new_world(seed=plays).seed == plays


def test_the_score_is_what_the_observation_says() -> None:
    world = new_world(bots="brutal")
    for _ in range(300):
        world.tick()
        assert score_of(world.observe()) == world.score


def test_an_observation_is_the_same_after_its_journey_and_when_the_world_goes_on() -> None:
    world = new_world(bots="brutal")
    _played(world, 3, 400)
    seen = world.observe()
    before = encode(seen)
    assert decode(Observation, before) == seen
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
        return api.make_engine("skirmish:arena", num_envs, bots="brutal", max_ticks=250)


def test_a_wrong_variant_or_option_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no variant 'plain'; did you mean 'skirmish:plains'\? use .*skirmish:ridge"):
        api.make_engine("skirmish:plain")
    with pytest.raises(ConfigError, match=r"no option 'bot'; did you mean 'bots'\? options: bots, cash, max_ticks"):
        api.make_engine("skirmish", bot="easy")


def test_the_spec_says_what_is_seen_and_which_moves_there_are() -> None:
    spec = api.make_engine("skirmish:arena").spec
    assert spec.observation.shape == (8, 8, len(CHANNELS) + 1)
    moves = spec.attributes["moves"]
    assert len(moves) == spec.action.n
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


def _of_type(seen: Any, name: str) -> list[Unit]:
    return [unit for unit in seen.units if unit.type == name]


@pytest.fixture
def world() -> World:
    """A game with a base and much money."""
    made = new_world(cash=20000)
    say(made, Order.DEPLOY)
    return made


def build(world: World, *names: str) -> None:
    """Build and place these buildings somewhere at the base."""
    for name in names:
        say(world, Order.BUILD, item_type=name)
        assert "production_complete" in go_on(world, 2 * KINDS[name].build_ticks)
        say(world, Order.PLACE_BUILDING, item_type=name, target_x=-1, target_y=-1)
        assert name in {building.type for building in world.observe().buildings}


def test_an_item_is_paid_for_while_it_is_made(world: World) -> None:
    say(world, Order.BUILD, item_type="power")
    go_on(world, KINDS["power"].build_ticks // 2)
    seen = world.observe()
    assert seen.economy.cash == 20000 - KINDS["power"].cost // 2
    (item,) = seen.production
    assert (item.queue_type, item.item, item.progress, item.remaining_cost) == ("Building", "power", 0.5, 150)
    say(world, Order.CANCEL_PRODUCTION, item_type="power")
    assert world.observe().economy.cash == 20000


def test_nothing_is_made_without_money() -> None:
    world = new_world(cash=0)
    say(world, Order.DEPLOY)
    say(world, Order.BUILD, item_type="power")
    assert "production_complete" not in go_on(world, 500)


def test_what_one_lacks_the_buildings_for_cannot_be_made(world: World) -> None:
    for order, name in ((Order.TRAIN, "rifle"), (Order.BUILD, "tower"), (Order.BUILD, "rifle"), (Order.TRAIN, "power")):
        say(world, order, item_type=name)
    assert world.observe().production == []


def test_low_power_halves_the_pace(world: World) -> None:
    build(world, "power", "barracks", "refinery", "factory", "tower", "tower")
    say(world, Order.TRAIN, item_type="rifle")
    go_on(world, 10)
    assert world.observe().production[-1].remaining_ticks == KINDS["rifle"].build_ticks - 10
    say(world, Order.CANCEL_PRODUCTION, item_type="rifle")
    build(world, "tower")
    say(world, Order.TRAIN, item_type="rifle")
    go_on(world, 10)
    seen = world.observe()
    assert seen.economy.power_drained > seen.economy.power_provided
    assert seen.production[-1].remaining_ticks == KINDS["rifle"].build_ticks - 5


def test_a_refinery_comes_with_a_harvester_which_brings_money(world: World) -> None:
    build(world, "power", "refinery")
    assert len(_of_type(world.observe(), "harvester")) == 2
    before = world.observe().economy.cash
    go_on(world, 400)
    assert world.observe().economy.cash > before


def test_a_unit_goes_where_it_is_sent(world: World) -> None:
    rifle = _of_type(world.observe(), "rifle")[0]
    say(world, Order.MOVE, actor_id=rifle.actor_id, target_x=10, target_y=10)
    happened = go_on(world, 400)
    (now,) = (unit for unit in world.observe().units if unit.actor_id == rifle.actor_id)
    assert happened.count("unit_arrived") == 1
    assert (now.cell_x, now.cell_y, now.is_idle) == (10, 10, True)
    assert (now.pos_x // CELL, now.pos_y // CELL) == (10, 10)


def test_a_unit_stops_when_it_is_told_to(world: World) -> None:
    rifle = _of_type(world.observe(), "rifle")[0]
    say(world, Order.MOVE, actor_id=rifle.actor_id, target_x=0, target_y=0)
    say(world, Order.STOP, actor_id=rifle.actor_id)
    go_on(world, 20)
    assert next(unit for unit in world.observe().units if unit.actor_id == rifle.actor_id) == rifle


def test_fog_hides_the_enemy_and_a_scout_finds_him(world: World) -> None:
    seen = world.observe()
    assert not _of_type(seen, "builder")  # which has become the base
    assert seen.visible_enemies == []
    assert 0 < seen.explored_percent < 50
    say(world, Order.ATTACK_MOVE, target_x=-1, target_y=-1)
    happened = go_on(world, 700)
    assert "enemy_spotted" in happened
    assert "exploration_milestone" in happened
    assert world.observe().explored_percent > seen.explored_percent


def test_the_side_that_destroys_the_builder_of_an_enemy_without_a_base_wins(world: World) -> None:
    build(world, "power", "barracks")
    for _ in range(9):
        say(world, Order.TRAIN, item_type="rocket")
    go_on(world, 9 * KINDS["rocket"].build_ticks + 50)
    happened: list[str] = []
    for _ in range(30):
        say(world, Order.ATTACK_MOVE, target_x=-1, target_y=-1)
        happened += go_on(world, 100)
    seen = world.observe()
    assert (world.is_over, world.result) == (True, "win")
    assert happened[-1] == "game_over"
    assert seen.military.units_killed >= 1
    assert seen.kill_events[-1].attacker_is_own
    assert not seen.kill_events[-1].victim_is_own


def test_a_player_cannot_command_the_enemy(world: World) -> None:
    before = world.observe().military.order_count
    own = {unit.actor_id for unit in world.observe().units}
    enemys = next(number for number in range(1, 20) if number not in own)
    say(world, Order.MOVE, actor_id=enemys, target_x=3, target_y=3)
    say(world, Order.STOP, actor_id=enemys)
    assert world.observe().military.order_count == before


def test_the_spatial_map_says_what_the_lists_say(world: World) -> None:
    seen = world.observe()
    info = seen.map_info
    grid = np.frombuffer(seen.spatial_map, np.float32).reshape(info.height, info.width, seen.spatial_channels)
    assert seen.spatial_channels == len(CHANNELS)
    units = grid[:, :, CHANNELS.index("own_units")]
    assert units.sum() == len(seen.units)
    assert all(units[unit.cell_y, unit.cell_x] for unit in seen.units)
    explored = grid[:, :, CHANNELS.index("explored")]
    assert explored.mean() * 100 == pytest.approx(seen.explored_percent, abs=0.2)
    assert not grid[:, :, CHANNELS.index("ore")][explored == 0].any()


@pytest.mark.parametrize("skill", ["beginner", "brutal"])
def test_the_opponent_builds_and_attacks(skill: str) -> None:
    world = new_world("arena", 3, bots=skill)
    happened = go_on(world, 6000)
    assert "under_attack" in happened
    assert world.result == "lose"  # who does nothing loses
