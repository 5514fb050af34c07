"""The scripted opponent: it builds in a fixed order, trains what it can pay, and attacks in waves.

It plays by orders like everybody else, and knows only what its side has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lucky_transport_openra.skirmish.messages import Command, Order
from lucky_transport_openra.skirmish.orders import obey

if TYPE_CHECKING:
    from lucky_transport_openra.skirmish.game import Game


@dataclass(frozen=True, slots=True)
class Skill:
    """How good it is: it thinks every so many ticks, attacks every so many, with so many units at least."""

    think_ticks: int
    wave_ticks: int
    wave_units: int


SKILLS: Mapping[str, Skill] = {
    "none": Skill(0, 0, 0),
    "beginner": Skill(100, 2400, 4),
    "easy": Skill(50, 1500, 5),
    "medium": Skill(25, 1000, 6),
    "hard": Skill(15, 700, 6),
    "brutal": Skill(10, 450, 4),
}

#: OpenRA's own opponents that the skirmish does not have, and the skill nearest to each. OpenRA-RL itself plays
#: "normal" for hard and "rush" for brutal.
NEAREST: Mapping[str, str] = {
    "dummy": "none",
    "turtle": "medium",
    "normal": "hard",
    "naval": "hard",
    "rush": "brutal",
}

_BUILD_ORDER = ("power", "refinery", "barracks", "power", "factory", "tower", "power", "tower")
_ARMY = ("rifle", "rifle", "rocket", "tank")
_MOST_UNITS = 24


class Opponent:
    """Plays side 1 of one game."""

    def __init__(self, game: Game, skill: Skill) -> None:
        self._game = game
        self._side = game.sides[1]
        self._skill = skill
        self._built = 0

    def tick(self) -> None:
        """Think, if it is time to; before the game's own tick."""
        skill, ticks = self._skill, self._game.ticks
        if not skill.think_ticks:
            return
        if ticks % skill.think_ticks == 0:
            self._build()
            self._train()
        if ticks and ticks % skill.wave_ticks == 0 and len(self._side.army()) >= skill.wave_units:
            self._say(Command(Order.ATTACK_MOVE, target_x=-1, target_y=-1))

    def _build(self) -> None:
        self._say(Command(Order.DEPLOY))
        self._say(Command(Order.PLACE_BUILDING, target_x=-1, target_y=-1))
        if self._built < len(_BUILD_ORDER) and not self._side.queues["Building"]:
            self._built += self._say(Command(Order.BUILD, item_type=_BUILD_ORDER[self._built]))

    def _train(self) -> None:
        idle = [name for name in ("Infantry", "Vehicle") if not self._side.queues[name]]
        if idle and len(self._side.army()) < _MOST_UNITS:
            self._say(Command(Order.TRAIN, item_type=self._game.random.choice(_ARMY)))

    def _say(self, command: Command) -> bool:
        return obey(self._game, self._side, command)
