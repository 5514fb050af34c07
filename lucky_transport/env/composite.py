"""Composite spaces of an env: nested actions packed into the rows that travel, rows unpacked into nested observations.

The errors for wrong actions come from `lucky_transport.spec.actions`; they name the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecTypeError
from lucky_transport.spec.actions import Bounds, check_actions
from lucky_transport.spec.batch_spec import BatchSpec, Part
from lucky_transport.spec.composite import Path, Record, flat, nested, place, tree_of, unpack, views


@dataclass(frozen=True, slots=True)
class _ActionPart:
    """Where one part of the actions is packed, and what its values must be."""

    name: str
    spec: BatchSpec  # of a batch whose action is this part alone
    bounds: Bounds
    rows: NDArray[Any]


class CompositeActions:
    """Packs actions nested as a spec says; `out_of_bounds` counts values outside their bounds."""

    def __init__(self, spec: BatchSpec, written_in_place: NDArray[Any] | None, *, strict: bool) -> None:
        """written_in_place: rows that a caller may pass as they are. `strict` refuses values out of bounds instead of
        counting them.
        """
        self.out_of_bounds = 0
        self._written_in_place = written_in_place
        self._strict = strict
        # private rows: a forked child must not write into the memory that its parent shares with the engine
        self._rows = np.zeros(spec.action_shape, np.uint8)
        rows = views(self._rows, spec.action_parts)
        self._parts = nested(
            tree_of("actions", spec.action_parts), lambda part: _action_part(spec, part, rows[part.path])
        )

    def packed(self, actions: Any) -> NDArray[Any]:
        """Return the rows of `actions`, (num_envs, row bytes), valid until the next call.

        `actions`: dicts and tuples nested like the action space, each array (num_envs, *shape); or
        the rows that are written in place, which are not checked.

        Raises SpecTypeError for a wrong nest, and SpecError for a part of a wrong shape or dtype or with NaN
        or infinite values.
        """
        if self._written_in_place is not None and actions is self._written_in_place:
            return self._written_in_place
        given: list[tuple[_ActionPart, Any]] = []
        _collect(self._parts, actions, (), given)
        # every part is checked before the first is packed, so that refused actions change nothing
        checked = [(part, check_actions(part.spec, values, part.name)) for part, values in given]
        if self._strict:
            for part, values in checked:
                part.bounds.check(values, part.name)
        for part, values in checked:
            part.rows[...] = values
        self.out_of_bounds += sum([part.bounds.count_outside(values) for part, values in checked])
        return self._rows


def _action_part(spec: BatchSpec, part: Part, rows: NDArray[Any]) -> _ActionPart:
    alone = replace(spec, action=part.array, action_parts=(), action_names=())
    return _ActionPart(place("actions", part.path), alone, Bounds(part.array), rows)


def _collect(parts: Any, actions: Any, at: Path, found: list[tuple[_ActionPart, Any]]) -> None:
    """Append each part with the values given for it; raises SpecTypeError where `actions` are nested otherwise."""
    if isinstance(parts, _ActionPart):
        found.append((parts, actions))
        return
    if isinstance(parts, dict):
        branches = cast("dict[str, Any]", parts)
        if not isinstance(actions, Mapping) or cast("Mapping[str, Any]", actions).keys() != branches.keys():
            raise _misfit(at, actions, f"a dict with the keys {list(branches)}")
        for key, branch in branches.items():
            _collect(branch, actions[key], (*at, key), found)
        return
    length = len(parts)
    if not isinstance(actions, (tuple, list)) or len(cast("tuple[Any, ...]", actions)) != length:
        raise _misfit(at, actions, f"a tuple of {length}")
    for number in range(length):
        _collect(parts[number], actions[number], (*at, number), found)


def _misfit(at: Path, actions: Any, expected: str) -> SpecTypeError:
    found = type(actions).__name__
    if isinstance(actions, Mapping):
        found = f"a dict with the keys {list(cast('Mapping[Any, Any]', actions))}"
    elif isinstance(actions, (tuple, list)):
        found = f"a {found} of {len(cast('tuple[Any, ...]', actions))}"
    return SpecTypeError(f"{place('actions', at)} is {found}, expected {expected}")


class CompositeObservations:
    """Reads the observations of one spec with parts."""

    def __init__(self, spec: BatchSpec) -> None:
        self._tree = tree_of("observation", spec.observation_parts)
        self._record = Record(spec.observation_parts, spec.observation.size)

    def view(self, rows: NDArray[np.uint8]) -> Any:
        """Return dicts and tuples of views, each (num_envs, *shape), of `rows`, uint8 (num_envs, row_bytes).

        A view has the row's stride, and is read-only where `rows` is.
        """
        found = self._record.views(rows)
        return nested(self._tree, lambda part: found[part.path])

    def copy(self, rows: NDArray[np.uint8]) -> Any:
        """Return dicts and tuples of contiguous copies, each (num_envs, *shape), which belong to the caller."""
        found = self._record.views(rows)
        return nested(self._tree, lambda part: found[part.path].copy())


def observation_fields(spec: BatchSpec, rows: NDArray[Any], name: str = "observations") -> dict[str, NDArray[Any]]:
    """Return the arrays in a frame's observations by the names that reports use: `name`, or, where they have parts,
    `observation["camera"]` and so on, and `info["lives"]` for the info parts; all are views of `rows`.
    """
    if not spec.observation_parts:
        return {name: rows}
    infos = flat("info", unpack(rows, spec.info_parts)) if spec.info_parts else {}
    return flat("observation", unpack(rows, spec.observation_parts)) | infos


#: Takes actions as the caller passed them and returns an array that the transport takes.
Preparation = Callable[[Any], NDArray[Any]]


def preparation(spec: BatchSpec, composite: CompositeActions | None, *, strict: bool) -> Preparation | None:
    """Return what is done with actions, None for nothing.

    composite: packs those of a spec with parts. strict: values out of bounds are refused.
    """
    if composite is not None:
        return composite.packed
    return partial(_checked, spec, Bounds(spec.action)) if strict else None


def _checked(spec: BatchSpec, bounds: Bounds, actions: Any) -> NDArray[Any]:
    """Return the actions as the spec has them; raises SpecError for others, also out of bounds."""
    checked = check_actions(spec, actions)
    bounds.check(checked)
    return checked


def prepared_after(wait: Callable[[], object], prepared: Preparation | None) -> Preparation:
    """Return what does as `prepared` and calls `wait` when the actions are found good, right before the exchange."""
    return partial(_prepared_after, wait, prepared)


def _prepared_after(wait: Callable[[], object], prepared: Preparation | None, actions: Any) -> NDArray[Any]:
    if prepared is not None:
        actions = prepared(actions)
    wait()
    return actions
