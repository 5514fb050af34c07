"""What there is in a skirmish, and what it costs: one table.

No number of the game stands anywhere else, but the speed of harvesting. Whole numbers
only, so that two machines play the same game.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Parts of a cell that positions are counted in.
CELL = 1024
#: Simulated seconds of one tick.
TICK_S = 0.04


@dataclass(frozen=True, slots=True)
class ActorKind:
    """A kind of actor.

    cost: credits. build_ticks: with full power. queue: where it is made, "" = nowhere. needs: buildings one must have.
    speed: 1/1024 cells a tick, 0 = a building. range_cells, damage, cooldown_ticks: of its weapon, damage 0 = none.
    sight_cells: how far it sees. power: what it gives, negative = takes. makes: the queue it serves.
    """

    name: str
    cost: int
    build_ticks: int
    hp: int
    queue: str
    needs: tuple[str, ...] = ()
    speed: int = 0
    range_cells: int = 0
    damage: int = 0
    cooldown_ticks: int = 0
    sight_cells: int = 5
    power: int = 0
    makes: str = ""
    carries: int = 0

    @property
    def is_building(self) -> bool:
        """True for what stands still."""
        return not self.speed

    @property
    def is_army(self) -> bool:
        """True for units with a weapon."""
        return bool(self.speed and self.damage)


#: The queues, each made by a building of its own.
QUEUES = ("Building", "Infantry", "Vehicle")

_TABLE = (
    ActorKind("base", 2000, 500, 1500, "", power=20, sight_cells=6, makes="Building"),
    ActorKind("power", 300, 100, 400, "Building", ("base",), power=100, sight_cells=4),
    ActorKind("barracks", 400, 120, 600, "Building", ("power",), power=-20, sight_cells=4, makes="Infantry"),
    ActorKind("refinery", 1200, 200, 900, "Building", ("power",), power=-30, sight_cells=4),
    ActorKind("factory", 1500, 240, 1000, "Building", ("refinery",), power=-30, sight_cells=4, makes="Vehicle"),
    ActorKind("tower", 600, 120, 500, "Building", ("barracks",), power=-15,
         range_cells=6, damage=40, cooldown_ticks=20, sight_cells=7),
    ActorKind("rifle", 100, 50, 60, "Infantry", ("barracks",), speed=56, range_cells=4, damage=8, cooldown_ticks=12),
    ActorKind("rocket", 250, 80, 50, "Infantry", ("barracks",), speed=48, range_cells=6, damage=30, cooldown_ticks=40),
    ActorKind("tank", 800, 150, 400, "Vehicle", ("factory",), speed=80, range_cells=5, damage=40, cooldown_ticks=30),
    ActorKind("harvester", 900, 160, 500, "Vehicle", ("factory", "refinery"), speed=64, sight_cells=4, carries=700),
    ActorKind("builder", 2000, 400, 600, "Vehicle", ("factory",), speed=48, sight_cells=5),
)  # fmt: skip

KINDS = {kind.name: kind for kind in _TABLE}
