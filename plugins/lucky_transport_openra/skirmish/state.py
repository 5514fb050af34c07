"""The state of one game: the map's ore, actors and sides, and what changes with a birth or a death.

Everything follows from map, seed and orders: whole numbers, one random stream, and dicts in order of birth. Events are
named from our side's point of view (side 0), each at most once a tick.
"""

from __future__ import annotations

import random
from collections import deque

from lucky_transport_openra.skirmish.actor import Actor, Player
from lucky_transport_openra.skirmish.messages import Kill
from lucky_transport_openra.skirmish.rules import CELL, ActorKind
from lucky_transport_openra.skirmish.terrain import Terrain

#: What can happen in a tick.
EVENTS = (
    "game_over",
    "enemy_spotted",
    "unit_destroyed",
    "under_attack",
    "building_discovered",
    "enemy_building_destroyed",
    "own_building_destroyed",
    "unit_arrived",
    "production_complete",
    "exploration_milestone",
)

_NAMES = ("player", "opponent")
_KILLS_KEPT = 64
_ORE_PER_CELL = range(800, 1600)


class GameState:
    """ore: cell -> credits left. kills: the latest ones as our side knows them. winner: a side's number, -1 = none."""

    def __init__(self, terrain: Terrain, seed: int, *, cash: int, max_ticks: int) -> None:
        self.terrain = terrain
        self.random = random.Random(seed)
        self.ticks = 0
        self.max_ticks = max_ticks
        self.is_over = False
        self.winner = -1
        cells = terrain.ore_cells
        self.ore = dict(zip(cells, self.random.choices(_ORE_PER_CELL, k=len(cells)), strict=True))
        self.actors: dict[int, Actor] = {}
        self.kills: deque[Kill] = deque(maxlen=_KILLS_KEPT)
        self.events: dict[str, None] = {}
        shape = (terrain.height, terrain.width)
        self.sides = tuple(Player(number, name, cash, shape) for number, name in enumerate(_NAMES))
        starts = list(terrain.starts)
        if self.random.random() < 0.5:
            starts.reverse()
        self.starts = tuple(starts)
        self._next_id = 1

    def add(self, kind: ActorKind, side: Player, x: int, y: int) -> Actor:
        """Put a new actor into the middle of a cell and return it."""
        middle = CELL // 2
        actor = Actor(self._next_id, kind, side.number, x * CELL + middle, y * CELL + middle, kind.hp)
        self._next_id += 1
        self.actors[actor.id] = side.actors[actor.id] = actor
        return actor

    def remove(self, actor: Actor) -> None:
        """Take an actor out of the world."""
        del self.actors[actor.id], self.sides[actor.side].actors[actor.id]

    def enemy_of(self, actor: Actor) -> Player:
        """Return the side that the actor fights."""
        return self.sides[1 - actor.side]

    def happen(self, event: str, side: int = 0) -> None:
        """Note an event of our side's; those of the other side are not noted."""
        if side == 0:
            self.events[event] = None

    def destroy(self, victim: Actor, attacker: Actor) -> None:
        """Take the victim out of the world and into both sides' counts."""
        loser, winner = self.sides[victim.side], self.sides[attacker.side]
        loser.deaths_cost += victim.kind.cost
        winner.kills_cost += victim.kind.cost
        attacker.kills_cost += victim.kind.cost
        if victim.kind.is_building:
            loser.buildings_lost += 1
            winner.buildings_killed += 1
            self.happen("own_building_destroyed", victim.side)
            self.happen("enemy_building_destroyed", attacker.side)
        else:
            loser.units_lost += 1
            winner.units_killed += 1
            self.happen("unit_destroyed", victim.side)
        self.kills.append(self._kill(victim, attacker))
        self.remove(victim)

    def _kill(self, victim: Actor, attacker: Actor) -> Kill:
        return Kill(
            tick=self.ticks,
            victim_actor_id=victim.id,
            victim_type=victim.kind.name,
            victim_cell_x=victim.x // CELL,
            victim_cell_y=victim.y // CELL,
            attacker_actor_id=attacker.id,
            attacker_type=attacker.kind.name,
            attacker_cell_x=attacker.x // CELL,
            attacker_cell_y=attacker.y // CELL,
            victim_is_own=victim.side == 0,
            attacker_is_own=attacker.side == 0,
            victim_is_building=victim.kind.is_building,
        )
