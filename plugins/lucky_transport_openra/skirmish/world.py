"""A skirmish as a `World`, all skirmishes as `Worlds`, and as an engine: sessions for many games, or a batch of games.

lucky_transport.make("skirmish:ridge", num_envs=4, options={"bots": "easy", "max_ticks": 5000})

Options of a new world: `bots`, the opponent's skill (one of `opponent.SKILLS`, one of OpenRA's own opponents for which
`opponent.NEAREST` has a skill, or OpenRA's form "Multi1:rl-agent,Multi0:easy"); `cash`, credits at the start;
`max_ticks`, after which it is a draw (0 = never).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from lucky_transport.engine_options import check_options, unknown_variant
from lucky_transport.errors import SpecError
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.world import World, Worlds
from lucky_transport_openra.skirmish import view
from lucky_transport_openra.skirmish.batch import MOVES, SkirmishBatch
from lucky_transport_openra.skirmish.game import Game
from lucky_transport_openra.skirmish.messages import Observation, Orders
from lucky_transport_openra.skirmish.opponent import NEAREST, SKILLS, Opponent
from lucky_transport_openra.skirmish.orders import obey
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
        ground = terrain(map_name.removesuffix(".oramap") or self.maps[0])
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
