"""A batch of composite actions: checked part by part, then packed into the rows that travel.

Rule 1: every part is checked before the first is packed, so what is refused leaves everything as it was.
Rule 2: what is refused, and in which words, is said in `lucky_transport.spec.actions`; here the part gets its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.actions import Bounds, check_actions
from lucky_transport.spec.batch_spec import BatchSpec, Part
from lucky_transport.spec.composite import Path, nested, place, tree_of, views
from lucky_transport.transport import Frame, Transport

__all__ = ["CompositeActions"]


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where one part of the actions is packed, and what its values must be."""

    name: str
    spec: BatchSpec  # of a batch whose action is this part alone
    bounds: Bounds
    rows: NDArray[Any]


class CompositeActions:
    """Steps `transport` with actions nested as its spec says; `out_of_bounds` counts values outside their bounds."""

    def __init__(self, transport: Transport, *, strict: bool) -> None:
        """`strict` refuses values out of bounds instead of counting them."""
        spec = transport.spec
        self.out_of_bounds = 0
        self._transport = transport
        self._strict = strict
        # rows of our own: a forked child must not write into the memory that its parent shares with the engine
        self._rows = np.zeros(spec.action_shape, np.uint8)
        rows = views(self._rows, spec.action_parts)
        self._slots = nested(tree_of("actions", spec.action_parts), lambda part: _slot(spec, part, rows[part.path]))

    def step(self, actions: Any, control: NDArray[np.uint8] | None = None) -> Frame:
        """Send one exchange's actions and return its frame, as `Transport.step`.

        `actions`: dicts and tuples nested like the action space, each array (num_envs, *shape); or
        `transport.actions` itself, whose parts were written in place and are not looked at. Raises TypeError for a
        wrong nest, ValueError / TypeError for a part as `check_actions` says.
        """
        if actions is self._transport.actions:
            return self._transport.step(actions, control)
        given: list[tuple[_Slot, Any]] = []
        _collect(self._slots, actions, (), given)
        checked = [(slot, check_actions(slot.spec, values, slot.name)) for slot, values in given]
        if self._strict:
            for slot, values in checked:
                slot.bounds.check(values, slot.name)
        for slot, values in checked:
            slot.rows[...] = values
        frame = self._transport.step(self._rows, control)
        self.out_of_bounds += sum([slot.bounds.count_outside(values) for slot, values in checked])
        return frame


def _slot(spec: BatchSpec, part: Part, rows: NDArray[Any]) -> _Slot:
    alone = replace(spec, action=part.array, action_parts=(), action_names=())
    return _Slot(place("actions", part.path), alone, Bounds(part.array), rows)


def _collect(slots: Any, actions: Any, at: Path, found: list[tuple[_Slot, Any]]) -> None:
    """Append each slot with the values given for it; raises TypeError where `actions` are nested otherwise."""
    if isinstance(slots, _Slot):
        found.append((slots, actions))
        return
    if isinstance(slots, dict):
        branches = cast("dict[str, Any]", slots)
        if not isinstance(actions, Mapping) or cast("Mapping[str, Any]", actions).keys() != branches.keys():
            raise _misfit(at, actions, f"a dict with the keys {list(branches)}")
        for key, branch in branches.items():
            _collect(branch, actions[key], (*at, key), found)
        return
    length = len(slots)
    if not isinstance(actions, (tuple, list)) or len(cast("tuple[Any, ...]", actions)) != length:
        raise _misfit(at, actions, f"a tuple of {length}")
    for number in range(length):
        _collect(slots[number], actions[number], (*at, number), found)


def _misfit(at: Path, actions: Any, expected: str) -> TypeError:
    found = type(actions).__name__
    if isinstance(actions, Mapping):
        found = f"a dict with the keys {list(cast('Mapping[Any, Any]', actions))}"
    elif isinstance(actions, (tuple, list)):
        found = f"a {found} of {len(cast('tuple[Any, ...]', actions))}"
    return TypeError(f"{place('actions', at)} is {found}, expected {expected}")
