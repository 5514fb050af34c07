"""One thing in the world, and one side of the game: plain state, without rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_transport_openra.skirmish.rules import CELL, QUEUES, ActorKind


class Activity(NamedTuple):
    """What an actor is about: `name` is a key of `activities.ACTIVITIES`; a cell, and an actor (ids, 0 = none)."""

    name: str = "idle"
    cell: int = -1
    target: int = 0


#: Nothing to do.
IDLE = Activity()


@dataclass(slots=True, eq=False)
class Actor:
    """x, y: position in 1/1024 cells. wait: ticks until it can fire again. load: ore carried, in credits."""

    id: int
    kind: ActorKind
    side: int
    x: int
    y: int
    hp: int
    activity: Activity = IDLE
    target: int = 0
    wait: int = 0
    load: int = 0
    facing: int = 0
    is_blocked: bool = False
    kills_cost: int = 0

    def cell(self, width: int) -> int:
        """Return the cell it stands in, on a map of that width."""
        return (self.y // CELL) * width + self.x // CELL


@dataclass(slots=True)
class Item:
    """Something that is being made. done: ticks of work (in 1/2, for low power) so far. paid: credits so far."""

    kind: ActorKind
    done: int = 0
    paid: int = 0

    @property
    def is_ready(self) -> bool:
        """True when all work is done."""
        return self.done >= 2 * self.kind.build_ticks


class Player:
    """One player: money, queues, what it has seen, and its counts so far.

    explored, visible: bool (height, width). known_enemies: ids seen at least once.
    """

    def __init__(self, number: int, name: str, cash: int, shape: tuple[int, int]) -> None:
        self.number = number
        self.name = name
        self.cash = cash
        self.actors: dict[int, Actor] = {}
        self.queues: dict[str, list[Item]] = {name: [] for name in QUEUES}
        self.explored: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        self.visible: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        self.known_enemies: set[int] = set()
        self.explored_tenths = 0
        self.power_provided = self.power_drained = 0
        self.units_killed = self.units_lost = self.buildings_killed = self.buildings_lost = 0
        self.kills_cost = self.deaths_cost = self.order_count = 0
        self.has_surrendered = False

    def buildings(self) -> list[Actor]:
        """Return its buildings, oldest first."""
        return [actor for actor in self.actors.values() if actor.kind.is_building]

    def army(self) -> list[Actor]:
        """Return its units with weapons, oldest first."""
        return [actor for actor in self.actors.values() if actor.kind.is_army]

    @property
    def is_beaten(self) -> bool:
        """True once it has nothing left to come back with."""
        return self.has_surrendered or not any(
            actor.kind.is_building or actor.kind.name == "builder" for actor in self.actors.values()
        )
