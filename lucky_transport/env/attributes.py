"""The attributes of an env: those of the engine's spec, and what Gymnasium calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport.spec.batch_spec import BatchSpec

__all__ = ["attributes_of", "frames_per_second"]

#: Names that stacks written against `gymnasium.Env` use, and the attribute that answers them.
_ALIASES = {"_max_episode_steps": "max_episode_steps"}


def attributes_of(spec: BatchSpec) -> Mapping[str, Any]:
    """Return attribute name -> value: those of the spec, Gymnasium's aliases of them, and `render_fps` if known."""
    table = dict(spec.attributes)
    for alias, name in _ALIASES.items():
        if name in table:
            table.setdefault(alias, table[name])
    fps = frames_per_second(spec)
    if fps is not None:
        table["render_fps"] = fps
    return table


def frames_per_second(spec: BatchSpec) -> int | float | None:
    """Return how many steps make a simulated second (a whole number as int), None when the step's time is unknown."""
    given = spec.attributes.get("render_fps")
    if given is not None:
        return given
    if not spec.step_s:
        return None
    rate = round(1 / spec.step_s, 6)
    return int(rate) if rate.is_integer() else rate
