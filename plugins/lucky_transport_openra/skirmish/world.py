"""A skirmish as a `World`, all skirmishes as `Worlds`, and as an engine: sessions for many games, or a batch of games.

lucky_transport.make("skirmish:ridge", num_envs=4, options={"bots": "easy", "max_ticks": 5000})

Options of a new world: `bots`, the opponent's skill (one of `SKILLS`, one of OpenRA's own opponents for which
`NEAREST` has a skill, or OpenRA's form "Multi1:rl-agent,Multi0:easy"); `cash`, credits at the start;
`max_ticks`, after which it is a draw (0 = never).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.engine_options import check_options, unknown_variant
from lucky_transport.errors import SpecError
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.world import World, Worlds
from lucky_transport_openra.skirmish import view
from lucky_transport_openra.skirmish.batch import MOVES, SkirmishBatch
from lucky_transport_openra.skirmish.game import Game, obey
from lucky_transport_openra.skirmish.messages import Command, Observation, Order, Orders
from lucky_transport_openra.skirmish.rules import TICK_S
from lucky_transport_openra.skirmish.state import EVENTS
from lucky_transport_openra.skirmish.terrain import MAPS, Terrain, terrain

_log = logging.getLogger("lucky_transport")
_DEFAULTS: Mapping[str, Any] = {"bots": "beginner", "cash": 5000, "max_ticks": 0}
_AGENT = "rl-agent"
_LARGEST = 1 << 31
#: Seeds are 1 to this: all that 31 bits tell apart but 0, which on the bridge's wire stands for "any".
SEEDS = (1 << 31) - 1


def folded(seed: int) -> int:
    """Return the seed, 1 to `SEEDS`, that plays the same game as `seed`; one of those is its own."""
    return seed % SEEDS or SEEDS


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
    """Plays side 1 of one game: it builds in a fixed order, trains what it can pay, and attacks in waves.

    It plays by orders like everybody else, and knows only what its side has seen.
    """

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


class SkirmishWorld(World):
    """One game; `seed` is the one it was made with."""

    def __init__(self, ground: Terrain, seed: int | None, skill: str, cash: int, max_ticks: int) -> None:
        self._ground, self._skill, self._cash, self._max_ticks = ground, skill, cash, max_ticks
        self.restart(seed)

    def restart(self, seed: int | None) -> bool:
        self.seed = secrets.randbelow(SEEDS) + 1 if seed is None else folded(seed)
        self._game = Game(self._ground, self.seed, cash=self._cash, max_ticks=self._max_ticks)
        self._opponent = Opponent(self._game, SKILLS[self._skill])
        self.ticks, self.is_over, self.result = 0, False, ""
        self._count()
        return True

    def act(self, actions: Sequence[Any]) -> None:
        game = self._game
        for orders in actions:
            for command in orders.commands:
                obey(game, game.sides[0], command)

    def tick(self) -> Sequence[str]:
        self._opponent.tick()
        events = self._game.tick()
        self.ticks = self._game.ticks
        self._count()
        if self._game.is_over:
            self.is_over = True
            self.result = {0: "win", 1: "lose"}.get(self._game.winner, "draw")
        return events

    def observe(self) -> Observation:
        return view.observe(self._game)

    def _count(self) -> None:
        """Bring the score up to date: as `view.score_of`, without an observation."""
        side = self._game.sides[0]
        assets = sum(actor.kind.cost for actor in side.actors.values())
        self.score = (assets + side.cash + side.kills_cost - side.deaths_cost) / 1000


class SkirmishWorlds(Worlds):
    """What the engine of skirmishes offers; `defaults` replace those of the options above."""

    maps = tuple(MAPS)
    action = Orders
    observation = Observation
    events = EVENTS
    tick_s = TICK_S
    options = tuple(_DEFAULTS)

    def __init__(self, defaults: Mapping[str, Any] | None = None) -> None:
        self._defaults = {**_DEFAULTS, **_checked(defaults or {})}
        self.batch = SkirmishBatch()

    def check(self, options: Mapping[str, Any]) -> None:
        _checked(options)

    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> SkirmishWorld:
        chosen = {**self._defaults, **_checked(options)}
        ground = terrain(map_name or self.maps[0])
        opponent = _opponent(chosen["bots"])
        skill = NEAREST.get(opponent, opponent)
        if skill != opponent:
            _log.info("skirmish: opponent %r is not here; %r is nearest to it and plays", opponent, skill)
        return SkirmishWorld(ground, seed, skill, chosen["cash"], chosen["max_ticks"])


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options; raises ValueError for an unknown one and for a value of another kind."""
    for key, value in options.items():
        if key not in _DEFAULTS:
            raise ValueError(f"no option {key!r}; a skirmish takes: {', '.join(_DEFAULTS)}")
        is_number = isinstance(_DEFAULTS[key], int)
        if not (type(value) is int and 0 <= value < _LARGEST) if is_number else not isinstance(value, str):
            raise ValueError(f"option {key} = {value!r}: expected {'a whole number >= 0' if is_number else 'text'}")
    if "bots" in options:
        _opponent(options["bots"])
    return dict(options)


def _opponent(bots: str) -> str:
    """Return the opponent that `bots` names. Raises ValueError where it is no single one, or unknown."""
    parts = [part.rpartition(":")[2].strip() for part in bots.split(",")]
    names = [name for name in parts if name and name != _AGENT] or [str(_DEFAULTS["bots"])]
    if len(names) > 1 or (names[0] not in SKILLS and names[0] not in NEAREST):
        raise ValueError(
            f"bots {bots!r}: expected one opponent out of {', '.join(SKILLS)} (or, of OpenRA's, {', '.join(NEAREST)})"
        )
    return names[0]


def make_engine(variant: str = "", num_envs: int = 1, *, seed: int | None = None, **options: Any) -> WorldsEngine:
    """Return an engine of skirmishes; `variant` is the batch's map, options as for `SkirmishWorlds`.

    Raises UnknownName for another map, ConfigError for an option it does not take, SpecError for a value.
    """
    if variant and variant not in SkirmishWorlds.maps:
        raise unknown_variant("skirmish", variant, SkirmishWorlds.maps)
    check_options("skirmish", options, _DEFAULTS)
    try:
        worlds = SkirmishWorlds(options)
    except ValueError as error:
        raise SpecError(f"engine skirmish: {error}", hint="see lucky_transport_openra.skirmish.world") from error
    names = [f"{move.action.name.lower()} {move.item_type}".rstrip() for move in MOVES]
    return WorldsEngine(
        worlds, "skirmish", num_envs, seed=seed or 0, map_name=variant, attributes={"task": "skirmish", "moves": names}
    )
