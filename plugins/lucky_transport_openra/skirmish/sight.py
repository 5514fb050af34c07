"""What a side sees: cells near its actors, and who stands there."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lucky_transport_openra.skirmish.actor import Actor, Player
from lucky_transport_openra.skirmish.rules import CELL
from lucky_transport_openra.skirmish.state import GameState
from lucky_transport_openra.skirmish.terrain import disk


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
