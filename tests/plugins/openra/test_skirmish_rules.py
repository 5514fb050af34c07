"""What the orders of a skirmish do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lucky_transport_openra.skirmish.messages import Order, Unit
from lucky_transport_openra.skirmish.rules import CELL, KINDS
from lucky_transport_openra.skirmish.view import CHANNELS
from lucky_transport_openra.skirmish.world import SkirmishWorld
from tests.plugins.openra.conftest import go_on, new_world, say


def _of_type(seen: Any, name: str) -> list[Unit]:
    return [unit for unit in seen.units if unit.type == name]


def look(world: SkirmishWorld) -> Any:
    """Return what is seen; all parts of it are there."""
    return world.observe()


@pytest.fixture
def world() -> SkirmishWorld:
    """A game with a base and much money."""
    made = new_world(cash=20000)
    say(made, Order.DEPLOY)
    return made


def build(world: SkirmishWorld, *names: str) -> None:
    """Build and place these buildings somewhere at the base."""
    for name in names:
        say(world, Order.BUILD, item_type=name)
        assert "production_complete" in go_on(world, 2 * KINDS[name].build_ticks)
        say(world, Order.PLACE_BUILDING, item_type=name, target_x=-1, target_y=-1)
        assert name in {building.type for building in look(world).buildings}


def test_a_builder_becomes_a_base_from_which_more_can_be_built(world: SkirmishWorld) -> None:
    seen = look(world)
    assert [building.type for building in seen.buildings] == ["base"]
    assert seen.available_production == ["power"]
    assert not _of_type(seen, "builder")


def test_an_item_is_paid_for_while_it_is_made(world: SkirmishWorld) -> None:
    say(world, Order.BUILD, item_type="power")
    go_on(world, KINDS["power"].build_ticks // 2)
    seen = look(world)
    assert seen.economy.cash == 20000 - KINDS["power"].cost // 2
    (item,) = seen.production
    assert (item.queue_type, item.item, item.progress, item.remaining_cost) == ("Building", "power", 0.5, 150)
    say(world, Order.CANCEL_PRODUCTION, item_type="power")
    assert look(world).economy.cash == 20000


def test_nothing_is_made_without_money() -> None:
    world = new_world(cash=0)
    say(world, Order.DEPLOY)
    say(world, Order.BUILD, item_type="power")
    assert "production_complete" not in go_on(world, 500)


def test_what_one_lacks_the_buildings_for_cannot_be_made(world: SkirmishWorld) -> None:
    for order, name in ((Order.TRAIN, "rifle"), (Order.BUILD, "tower"), (Order.BUILD, "rifle"), (Order.TRAIN, "power")):
        say(world, order, item_type=name)
    assert look(world).production == []


def test_low_power_halves_the_pace(world: SkirmishWorld) -> None:
    build(world, "power", "barracks", "refinery", "factory", "tower", "tower")
    say(world, Order.TRAIN, item_type="rifle")
    go_on(world, 10)
    assert look(world).production[-1].remaining_ticks == KINDS["rifle"].build_ticks - 10
    say(world, Order.CANCEL_PRODUCTION, item_type="rifle")
    build(world, "tower")
    say(world, Order.TRAIN, item_type="rifle")
    go_on(world, 10)
    seen = look(world)
    assert seen.economy.power_drained > seen.economy.power_provided
    assert seen.production[-1].remaining_ticks == KINDS["rifle"].build_ticks - 5


def test_a_refinery_comes_with_a_harvester_which_brings_money(world: SkirmishWorld) -> None:
    build(world, "power", "refinery")
    assert len(_of_type(look(world), "harvester")) == 2
    before = look(world).economy.cash
    go_on(world, 400)
    assert look(world).economy.cash > before


def test_a_unit_goes_where_it_is_sent(world: SkirmishWorld) -> None:
    rifle = _of_type(look(world), "rifle")[0]
    say(world, Order.MOVE, actor_id=rifle.actor_id, target_x=10, target_y=10)
    happened = go_on(world, 400)
    (now,) = (unit for unit in look(world).units if unit.actor_id == rifle.actor_id)
    assert happened.count("unit_arrived") == 1
    assert (now.cell_x, now.cell_y, now.is_idle) == (10, 10, True)
    assert (now.pos_x // CELL, now.pos_y // CELL) == (10, 10)


def test_a_unit_stops_when_it_is_told_to(world: SkirmishWorld) -> None:
    rifle = _of_type(look(world), "rifle")[0]
    say(world, Order.MOVE, actor_id=rifle.actor_id, target_x=0, target_y=0)
    say(world, Order.STOP, actor_id=rifle.actor_id)
    go_on(world, 20)
    assert next(unit for unit in look(world).units if unit.actor_id == rifle.actor_id) == rifle


def test_fog_hides_the_enemy_and_a_scout_finds_him(world: SkirmishWorld) -> None:
    seen = look(world)
    assert seen.visible_enemies == []
    assert 0 < seen.explored_percent < 50
    say(world, Order.ATTACK_MOVE, target_x=-1, target_y=-1)
    happened = go_on(world, 700)
    assert "enemy_spotted" in happened
    assert "exploration_milestone" in happened
    assert look(world).explored_percent > seen.explored_percent


def test_the_side_that_destroys_the_builder_of_an_enemy_without_a_base_wins(world: SkirmishWorld) -> None:
    build(world, "power", "barracks")
    for _ in range(9):
        say(world, Order.TRAIN, item_type="rocket")
    go_on(world, 9 * KINDS["rocket"].build_ticks + 50)
    happened: list[str] = []
    for _ in range(30):
        say(world, Order.ATTACK_MOVE, target_x=-1, target_y=-1)
        happened += go_on(world, 100)
    seen = look(world)
    assert (world.is_over, world.result) == (True, "win")
    assert happened[-1] == "game_over"
    assert seen.military.units_killed >= 1
    assert seen.kill_events[-1].attacker_is_own
    assert not seen.kill_events[-1].victim_is_own


def test_a_side_that_surrenders_has_lost(world: SkirmishWorld) -> None:
    say(world, Order.SURRENDER)
    assert go_on(world, 5) == ["game_over"]
    assert world.result == "lose"


def test_a_player_cannot_command_the_enemy(world: SkirmishWorld) -> None:
    before = look(world).military.order_count
    own = {unit.actor_id for unit in look(world).units}
    enemys = next(number for number in range(1, 20) if number not in own)
    say(world, Order.MOVE, actor_id=enemys, target_x=3, target_y=3)
    say(world, Order.STOP, actor_id=enemys)
    assert look(world).military.order_count == before


def test_the_spatial_map_says_what_the_lists_say(world: SkirmishWorld) -> None:
    seen = look(world)
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
