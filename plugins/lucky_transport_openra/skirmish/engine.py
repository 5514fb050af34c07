"""The skirmish as an engine: sessions for many games, or a batch of games stepped together.

lucky_transport.make("skirmish:ridge", num_envs=4, options={"bots": "easy", "max_ticks": 5000})
"""

from __future__ import annotations

from typing import Any

from lucky_transport.engine_options import check_options, unknown_variant
from lucky_transport.errors import SpecError
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport_openra.skirmish.batch import MOVES
from lucky_transport_openra.skirmish.world import OPTIONS, SkirmishWorlds


def make_engine(variant: str = "", num_envs: int = 1, *, seed: int | None = None, **options: Any) -> WorldsEngine:
    """Return an engine of skirmishes; `variant` is the batch's map, options as for `SkirmishWorlds`.

    Raises UnknownName for another map, ConfigError for an option it does not take, SpecError for a value.
    """
    if variant and variant not in SkirmishWorlds.maps:
        raise unknown_variant("skirmish", variant, SkirmishWorlds.maps)
    check_options("skirmish", options, OPTIONS)
    try:
        worlds = SkirmishWorlds(options)
    except ValueError as error:
        raise SpecError(f"engine skirmish: {error}", hint="see lucky_transport_openra.skirmish.world") from error
    names = [f"{move.action.name.lower()} {move.item_type}".rstrip() for move in MOVES]
    return WorldsEngine(
        worlds, "skirmish", num_envs, seed=seed or 0, map_name=variant, attributes={"task": "skirmish", "moves": names}
    )
