"""One game: its start, and one tick of it."""

from __future__ import annotations

from lucky_transport_openra.skirmish import activities, production, view
from lucky_transport_openra.skirmish.rules import KINDS
from lucky_transport_openra.skirmish.state import GameState
from lucky_transport_openra.skirmish.terrain import Terrain

_START = (("builder", 0, 0), ("rifle", 1, 0), ("rifle", 0, 1), ("rifle", 1, 1), ("harvester", -1, 0))
#: Sides look around on every fourth tick.
_LOOK_TICKS = 4


class Game(GameState):
    """A game from its first tick to its end."""

    def __init__(self, terrain: Terrain, seed: int, *, cash: int, max_ticks: int) -> None:
        super().__init__(terrain, seed, cash=cash, max_ticks=max_ticks)
        for side, start in zip(self.sides, self.starts, strict=True):
            y, x = divmod(start, terrain.width)
            for name, dx, dy in _START:
                self.add(KINDS[name], side, x + dx, y + dy)
            view.look(self, side)
        self.events.clear()  # what one sees from the start is no news

    def tick(self) -> tuple[str, ...]:
        """Advance by one tick and return the names of what happened; does nothing once the game is over."""
        if self.is_over:
            return ()
        self.ticks += 1
        self.events.clear()
        for side in self.sides:
            production.work(self, side)
        for actor in list(self.actors.values()):
            if actor.id in self.actors:  # it may have fallen earlier in this tick
                activities.live(self, actor)
        if self.ticks % _LOOK_TICKS == 0:
            for side in self.sides:
                view.look(self, side)
        self._judge()
        return tuple(self.events)

    def _judge(self) -> None:
        beaten = [side.number for side in self.sides if side.is_beaten]
        if beaten or (self.max_ticks and self.ticks >= self.max_ticks):
            self.is_over = True
            self.winner = 1 - beaten[0] if len(beaten) == 1 else -1
            self.happen("game_over")
