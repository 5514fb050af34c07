"""What a side sees, cells near its actors and who stands there, and what ours is shown of it, as an `Observation`.

Nothing of the enemy that our side does not see at the moment is in it, the spatial map included.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lucky_transport_openra.skirmish import messages, production
from lucky_transport_openra.skirmish.actor import Actor, Player
from lucky_transport_openra.skirmish.messages import Observation
from lucky_transport_openra.skirmish.rules import CELL, KINDS, QUEUES
from lucky_transport_openra.skirmish.state import GameState
from lucky_transport_openra.skirmish.terrain import disk

#: What the last axis of the spatial map says of a cell.
CHANNELS = ("rock", "ore", "explored", "visible", "own_units", "own_buildings", "enemy_units", "enemy_buildings")
_ROCK, _ORE, _EXPLORED, _VISIBLE, _OWN, _ENEMY = 0, 1, 2, 3, 4, 6
_FULL_ORE = 1600
_STANCE = 3  # OpenRA's "attack anything"


def look(game: GameState, side: Player) -> None:
    """Bring `visible`, `explored` and the enemies known up to date, and tell what is new."""
    visible = side.visible
    visible.fill(False)
    height, width = visible.shape
    for x, y, sight in {(a.x // CELL, a.y // CELL, a.kind.sight_cells) for a in side.actors.values()}:
        visible |= _seen_from(x, y, sight, width, height)
    side.explored |= visible
    tenths = 10 * int(np.count_nonzero(side.explored)) // side.explored.size
    if tenths > side.explored_tenths:
        side.explored_tenths = tenths
        game.happen("exploration_milestone", side.number)
    for enemy in visible_enemies(game, side):
        if enemy.id not in side.known_enemies:
            side.known_enemies.add(enemy.id)
            game.happen("building_discovered" if enemy.kind.is_building else "enemy_spotted", side.number)


@lru_cache(maxsize=4096)
def _seen_from(x: int, y: int, sight: int, width: int, height: int) -> NDArray[np.bool_]:
    """Return what is seen of a map of that size from one of its cells, bool (height, width); not to be changed."""
    seen = np.zeros((height, width), np.bool_)
    left, top = max(0, x - sight), max(0, y - sight)
    right, bottom = min(width, x + sight + 1), min(height, y + sight + 1)
    seen[top:bottom, left:right] = disk(sight)[
        top - y + sight : bottom - y + sight, left - x + sight : right - x + sight
    ]
    seen.flags.writeable = False
    return seen


def visible_enemies(game: GameState, side: Player) -> list[Actor]:
    """Return the enemy's actors that the side saw when it last looked around."""
    seen = side.visible
    return [one for one in game.sides[1 - side.number].actors.values() if seen[one.y // CELL, one.x // CELL]]


def observe(game: GameState) -> Observation:
    """Return what our side (0) knows; a fresh object."""
    side = game.sides[0]
    enemies = visible_enemies(game, side)
    enemy = game.sides[1]
    return Observation(
        tick=game.ticks,
        economy=_economy(side),
        military=_military(side),
        units=[_unit(one, side) for one in side.actors.values() if not one.kind.is_building],
        buildings=[_building(one, side) for one in side.actors.values() if one.kind.is_building],
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


def _building(one: Actor, side: Player) -> messages.Building:
    shown = _seen_building(one, side)
    makes = one.kind.makes
    item = side.queues[makes][0] if makes and side.queues[makes] else None
    if item is not None and production.maker(side, makes) is one:
        shown.is_producing, shown.producing_item = True, item.kind.name
        shown.production_progress = _share(item.done, 2 * item.kind.build_ticks)
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


def _spatial(game: GameState, side: Player, enemies: list[Actor]) -> bytes:
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
