"""What our side sees, as an `Observation`.

Nothing of the enemy that our side does not see at the moment is in it, the spatial map included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lucky_transport_openra.skirmish import messages, production
from lucky_transport_openra.skirmish.actor import Actor, Player
from lucky_transport_openra.skirmish.messages import Observation
from lucky_transport_openra.skirmish.rules import CELL, KINDS, QUEUES
from lucky_transport_openra.skirmish.sight import visible_enemies

if TYPE_CHECKING:
    from lucky_transport_openra.skirmish.game import Game


#: What the last axis of the spatial map says of a cell.
CHANNELS = ("rock", "ore", "explored", "visible", "own_units", "own_buildings", "enemy_units", "enemy_buildings")
_ROCK, _ORE, _EXPLORED, _VISIBLE, _OWN, _ENEMY = 0, 1, 2, 3, 4, 6
_FULL_ORE = 1600
_STANCE = 3  # OpenRA's "attack anything"


def observe(game: Game) -> Observation:
    """Return what our side (0) knows; a fresh object."""
    side = game.sides[0]
    enemies = visible_enemies(game, side)
    enemy = game.sides[1]
    return Observation(
        tick=game.ticks,
        economy=_economy(side),
        military=_military(side),
        units=[_unit(one, side) for one in side.actors.values() if not one.kind.is_building],
        buildings=[_building(one, side, game.terrain.width) for one in side.actors.values() if one.kind.is_building],
        production=_production(side),
        visible_enemies=[_unit(one, enemy) for one in enemies if not one.kind.is_building],
        map_info=messages.MapInfo(game.terrain.width, game.terrain.height, game.terrain.name),
        spatial_map=_spatial(game, side, enemies),
        spatial_channels=len(CHANNELS),
        available_production=production.available(side),
        visible_enemy_buildings=[_seen_building(one, enemy) for one in enemies if one.kind.is_building],
        explored_percent=100 * _share(int(np.count_nonzero(side.explored)), side.explored.size),
        kill_events=list(game.kills),
    )


def score_of(observation: Observation) -> float:
    """Return how well it goes, in thousands of credits: what we have, and what we destroyed less what we lost."""
    military = observation.military or messages.Military()
    cash = observation.economy.cash if observation.economy else 0
    return (military.assets_value + cash + military.kills_cost - military.deaths_cost) / 1000


def _share(part: int, whole: int) -> float:
    """Return part / whole in 1/1024, which float32 holds exactly: the same number on every way to a client."""
    return part * 1024 // whole / 1024


def _economy(side: Player) -> messages.Economy:
    harvesters = [one for one in side.actors.values() if one.kind.carries]
    return messages.Economy(
        cash=side.cash,
        ore=sum(one.load for one in harvesters),
        power_provided=side.power_provided,
        power_drained=side.power_drained,
        resource_capacity=sum(one.kind.carries for one in harvesters),
        harvester_count=len(harvesters),
    )


def _military(side: Player) -> messages.Military:
    army = side.army()
    return messages.Military(
        units_killed=side.units_killed,
        units_lost=side.units_lost,
        buildings_killed=side.buildings_killed,
        buildings_lost=side.buildings_lost,
        army_value=sum(one.kind.cost for one in army),
        active_unit_count=len(army),
        kills_cost=side.kills_cost,
        deaths_cost=side.deaths_cost,
        assets_value=sum(one.kind.cost for one in side.actors.values()),
        experience=side.kills_cost // 100,
        order_count=side.order_count,
    )


def _unit(one: Actor, side: Player) -> messages.Unit:
    kind = one.kind
    return messages.Unit(
        actor_id=one.id,
        type=kind.name,
        pos_x=one.x,
        pos_y=one.y,
        cell_x=one.x // CELL,
        cell_y=one.y // CELL,
        hp_percent=_share(one.hp, kind.hp),
        is_idle=one.activity.name == "idle",
        current_activity=one.activity.name,
        owner=side.name,
        ammo=-1,
        can_attack=bool(kind.damage),
        facing=one.facing,
        experience_level=min(3, one.kills_cost // 1000),
        stance=_STANCE,
        speed=kind.speed,
        attack_range=kind.range_cells * CELL,
        passenger_count=-1,
        path_blocked=one.is_blocked,
    )


def _seen_building(one: Actor, side: Player) -> messages.Building:
    """What can be seen of a building from outside."""
    return messages.Building(
        actor_id=one.id,
        type=one.kind.name,
        pos_x=one.x,
        pos_y=one.y,
        hp_percent=_share(one.hp, one.kind.hp),
        owner=side.name,
        is_powered=True,
        rally_x=-1,
        rally_y=-1,
        cell_x=one.x // CELL,
        cell_y=one.y // CELL,
    )


def _building(one: Actor, side: Player, width: int) -> messages.Building:
    shown = _seen_building(one, side)
    makes = one.kind.makes
    item = side.queues[makes][0] if makes and side.queues[makes] else None
    if item is not None and production.maker(side, makes) is one:
        shown.is_producing, shown.producing_item = True, item.kind.name
        shown.production_progress = _share(item.done, 2 * item.kind.build_ticks)
    shown.is_repairing = one.is_repairing
    shown.sell_value = one.kind.cost // 2
    if one.rally >= 0:
        shown.rally_y, shown.rally_x = divmod(one.rally, width)
    shown.power_amount = one.kind.power
    shown.can_produce = [kind.name for kind in KINDS.values() if makes and kind.queue == makes]
    return shown


def _production(side: Player) -> list[messages.Production]:
    return [
        messages.Production(
            queue_type=name,
            item=item.kind.name,
            progress=_share(item.done, 2 * item.kind.build_ticks),
            remaining_ticks=item.kind.build_ticks - item.done // 2,
            remaining_cost=item.kind.cost - item.paid,
        )
        for name in QUEUES
        for item in side.queues[name]
    ]


def _spatial(game: Game, side: Player, enemies: list[Actor]) -> bytes:
    """Return float32 (height, width, channels) as bytes; cells never seen are 0 in all but "explored"."""
    grid = np.zeros((game.terrain.height, game.terrain.width, len(CHANNELS)), np.float32)
    explored = side.explored
    grid[:, :, _ROCK] = game.terrain.rock & explored
    grid[:, :, _EXPLORED] = explored
    grid[:, :, _VISIBLE] = side.visible
    seen = explored.tobytes()
    ore = {cell: left for cell, left in game.ore.items() if left and seen[cell]}
    if ore:
        grid.reshape(-1, len(CHANNELS))[list(ore), _ORE] = np.fromiter(ore.values(), np.float64) / _FULL_ORE
    for first, actors in ((_OWN, side.actors.values()), (_ENEMY, enemies)):
        for one in actors:
            grid[one.y // CELL, one.x // CELL, first + one.kind.is_building] += 1
    return grid.tobytes()
