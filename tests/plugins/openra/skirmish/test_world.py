"""A skirmish keeps the contract of a world: it is what map, seed and orders make of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport_openra.skirmish.batch import SkirmishBatch
from lucky_transport_openra.skirmish.messages import Command, Observation, Order, Orders
from lucky_transport_openra.skirmish.terrain import MAPS
from lucky_transport_openra.skirmish.view import score_of
from lucky_transport_openra.skirmish.world import SEEDS, SkirmishWorld, SkirmishWorlds, folded

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


def test_the_score_is_what_the_observation_says(new_world: Callable[..., SkirmishWorld]) -> None:
    world = new_world(bots="brutal")
    for _ in range(300):
        world.tick()
        assert score_of(world.observe()) == world.score


def test_an_observation_is_the_same_after_its_journey(new_world: Callable[..., SkirmishWorld]) -> None:
    world = new_world(bots="brutal")
    _played(world, 3, 400)
    seen = world.observe()
    assert decode(Observation, encode(seen)) == seen


def test_an_observation_stays_as_it_is_when_the_world_goes_on(new_world: Callable[..., SkirmishWorld]) -> None:
    world = new_world(bots="brutal")
    seen = world.observe()
    before = encode(seen)
    _played(world, 3, 100)
    assert encode(seen) == before


def test_a_game_ends_as_a_draw_when_its_time_is_up(
    new_world: Callable[..., SkirmishWorld], go_on: Callable[..., list[str]]
) -> None:
    world = new_world(max_ticks=30)
    assert go_on(world, 100)[-1] == "game_over"
    assert (world.ticks, world.result) == (30, "draw")


@pytest.mark.parametrize(
    ("options", "text"),
    [
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
        WORLDS.create("", None, options)


def test_an_unknown_map_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no map 'moon'; there are: plains, ridge, arena"):
        WORLDS.create("moon", None, {})


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


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
