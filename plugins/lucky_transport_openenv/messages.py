"""Messages and rows of arrays as JSON, and their schemas: what an agent reads and writes.

Members of an enum are their names. A message within itself ends the schema of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.json_codec import JsonStyle
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.array_spec import fitting
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, Part
from lucky_transport.spec.composite import arrays, nested, place, tree_of, views

_SCALARS: dict[str, dict[str, Any]] = {
    "f32": {"type": "number"},
    "f64": {"type": "number"},
    "i32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "u32": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    "u64": {"type": "integer", "minimum": 0},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


def schema_of(cls: type[Any], above: tuple[type[Any], ...] = ()) -> dict[str, Any]:
    """Return the JSON schema of a message class. above: the messages that it is a field of."""
    schema: dict[str, Any] = {"type": "object"}
    text = (cls.__doc__ or "").strip()
    if text and not text.startswith(f"{cls.__name__}("):  # a dataclass without a docstring shows its signature
        schema["description"] = " ".join(text.split())
    if cls in above:
        return schema
    properties = {field.name: _field_schema(field, (*above, cls)) for field in fields_of(cls)}
    return {**schema, "properties": properties, "additionalProperties": False}


def _field_schema(field: Field, above: tuple[type[Any], ...]) -> dict[str, Any]:
    if field.message is not None:
        one = schema_of(field.message, above)
    elif field.enum is not None:
        one = {"type": "string", "enum": list(field.enum.__members__)}
    else:
        one = dict(_SCALARS[field.kind])
    if field.shape == "list":
        return {"type": "array", "items": one}
    if field.shape == "map":
        return {"type": "object", "additionalProperties": one}
    return one


_STYLE = JsonStyle()


def plain_of(message: Any) -> dict[str, Any]:
    """Return a message as JSON values."""
    return _STYLE.codec_of(type(message)).plain(message)


def message_of(cls: type[Any], values: Any) -> Any:
    """Return the message that JSON values describe. Raises EncodeError with the path of what is wrong."""
    return _STYLE.codec_of(cls).message(values)


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
