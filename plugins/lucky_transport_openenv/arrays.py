"""Rows of arrays as JSON, and their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, Part
from lucky_transport.spec.casting import fitting
from lucky_transport.spec.composite import arrays, nested, place, tree_of, views


def observation_schema(spec: BatchSpec) -> dict[str, Any]:
    """Return the JSON schema of one env's observation."""
    return row_schema(spec.observation, spec.observation_parts, spec.observation_names)


def row_schema(array: ArraySpec, parts: Sequence[Part], names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of one env's row. names: of its elements, in order."""
    if parts:
        return _tree_schema(tree_of("row", parts))
    schema = _array_schema(array)
    if names:
        schema["description"] = f"in this order: {', '.join(names)}"
    return schema


def _tree_schema(tree: Any) -> dict[str, Any]:
    if isinstance(tree, Part):
        return _array_schema(tree.array)
    if isinstance(tree, tuple):
        items = [_tree_schema(one) for one in cast("tuple[Any, ...]", tree)]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    properties = {str(name): _tree_schema(one) for name, one in cast("dict[str, Any]", tree).items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array_schema(array: ArraySpec) -> dict[str, Any]:
    kind = np.dtype(array.dtype).kind
    schema: dict[str, Any] = {"type": "boolean" if kind == "b" else "integer" if kind in "iu" else "number"}
    for key, bound in (("minimum", array.low), ("maximum", array.high)):
        if kind != "b" and isinstance(bound, int | float) and np.isfinite(bound):
            schema[key] = bound
    for extent in reversed(array.shape):
        schema = {"type": "array", "items": schema, "minItems": extent, "maxItems": extent}
    return schema


def observation_of(spec: BatchSpec, row: NDArray[Any]) -> Any:
    """Return one env's observation as JSON values."""
    if not spec.observation_parts:
        return row.tolist()
    found = views(row, spec.observation_parts)
    return _listed(nested(tree_of("row", spec.observation_parts), lambda part: found[part.path].tolist()))


def _listed(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _listed(one) for name, one in cast("dict[str, Any]", tree).items()}
    return [_listed(one) for one in cast("tuple[Any, ...]", tree)] if isinstance(tree, tuple) else tree


def write_action(spec: BatchSpec, row: NDArray[Any], action: Any) -> None:
    """Write JSON values into `row`, (1, *action shape), one env's row of actions.

    Raises ValueError or TypeError for a wrong shape or kind, and, where the action has parts, for what is out of
    bounds.
    """
    for path, array, view in arrays(row, spec.action, spec.action_parts):
        name = place("action", path)
        value: Any = action
        for key in path:
            if not isinstance(value, Mapping if isinstance(key, str) else list):
                raise TypeError(f"{name}: expected {'an object' if isinstance(key, str) else 'a list'} around it")
            try:
                value = cast("Any", value)[key]
            except (KeyError, IndexError):
                raise ValueError(f"{name} is missing") from None
        _write(array, name, value, view)
        if path:
            Bounds(array).check(view, name)


def _write(array: ArraySpec, name: str, value: Any, view: NDArray[Any]) -> None:
    try:
        given = fitting(value, array.dtype)
    except ValueError as error:
        raise TypeError(f"{name}: {error}, expected {array.dtype}") from None
    if given.shape != array.shape:
        raise ValueError(f"{name} has shape {given.shape}, expected {array.shape}")
    view[0] = given
    if not np.isfinite(view).all():
        raise ValueError(f"{name} is not finite")
