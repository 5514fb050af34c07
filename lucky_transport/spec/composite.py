"""Observations and actions of several arrays: one record of bytes per env.

A `Part` is one array at a path of names and places: ("camera", "left") is `observation["camera"]["left"]`, ("arms", 0)
is `observation["arms"][0]`, () the observation itself. Where a spec has parts, the array that travels is uint8
(num_envs, row_bytes), and a row is a record in which each part lies at its offset.

A part starts on a 64-byte boundary of its row, parts lie in their order, info parts behind observation parts, and a row
is a multiple of 64 bytes, so that a C library can get the address of each part of each row. Transports carry the bytes
and do not know the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import ArraySpec, check_kinds

__all__ = [
    "Part",
    "Path",
    "Record",
    "Tree",
    "arrays",
    "check_parts",
    "flat",
    "nested",
    "pack",
    "place",
    "tree_of",
    "unpack",
    "views",
]

#: Where a part is: str for a name in a dict, int for a place in a tuple.
Path = tuple[str | int, ...]

#: Parts as they are nested: dicts and tuples with a `Part` at each end.
Tree = Any

#: Names in an info that mean something else; "_name" is the mask of "name".
_TAKEN = ("reward_terms", "termination_terms", "final_obs", "final_info")

_ALIGNMENT = 64
_DEEPEST = 32  # of a spec that a peer sent; no real space is nested as deep


@dataclass(frozen=True, slots=True)
class Part:
    """One array of a composite observation, action or info; `offset`: where it starts in the row, in bytes."""

    path: Path
    array: ArraySpec
    offset: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return {"path": list(self.path), "array": self.array.to_plain(), "offset": self.offset}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Part:
        """Return the part that `to_plain` wrote; raises as `ArraySpec.from_plain`."""
        check_kinds(plain, {"path": (list,), "array": (dict,), "offset": (int,)})
        if not all(type(key) in (str, int) for key in plain["path"]):
            raise TypeError(f"path is {plain['path']!r}")
        return cls(tuple(plain["path"]), ArraySpec.from_plain(plain["array"]), plain["offset"])


def place(what: str, path: Path) -> str:
    """Return how a part is spelled in Python: `observation["camera"][0]`."""
    return what + "".join(f"[{key}]" if isinstance(key, int) else f'["{key}"]' for key in path)


def pack(
    parts: Sequence[Part], info_parts: Sequence[Part] = ()
) -> tuple[ArraySpec, tuple[Part, ...], tuple[Part, ...]]:
    """Return the array that travels, and the parts and info parts with their offsets in a row of it.

    Raises SpecError when the paths do not make one nest of dicts and tuples.
    """
    offset = 0
    placed: list[Part] = []
    for part in (*parts, *info_parts):
        placed.append(replace(part, offset=offset))
        offset += _aligned(part.array.size_bytes)
    array = ArraySpec("uint8", (max(offset, _ALIGNMENT),))
    own, infos = tuple(placed[: len(parts)]), tuple(placed[len(parts) :])
    check_parts("spec", array, own, infos)
    return array, own, infos


def check_parts(what: str, array: ArraySpec, parts: tuple[Part, ...], info_parts: tuple[Part, ...] = ()) -> None:
    """Raise SpecError, naming `what`, unless `array` is a row that holds the parts, each at its own aligned place."""
    if array != ArraySpec("uint8", array.shape) or len(array.shape) != 1 or array.size % _ALIGNMENT:
        raise SpecError(f"{what}: with parts {array} travels, expected uint8 (row_bytes,), a multiple of {_ALIGNMENT}")
    end = 0
    for part in (*parts, *info_parts):
        if part.offset < end or part.offset % _ALIGNMENT or part.offset + part.array.size_bytes > array.size:
            raise SpecError(
                f"{place(what, part.path)} lies at byte {part.offset} ({part.array.size_bytes} bytes) of a row of "
                f"{array.size}, with {end} taken; pack() places parts"
            )
        end = part.offset + part.array.size_bytes
    tree_of(what, parts)
    if info_parts:
        _check_info(info_parts)


def _check_info(parts: Sequence[Part]) -> None:
    if not isinstance(tree_of("info", parts), dict):
        raise SpecError("info parts need names: their paths start with a string")
    for part in parts:
        names = [key for key in part.path if isinstance(key, str)]
        if names[0] in _TAKEN or any(name.startswith("_") for name in names):
            raise SpecError(
                f"{place('info', part.path)}: the name is taken; rename it ({', '.join(_TAKEN)}, and masks: _name)"
            )


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def tree_of(what: str, parts: Sequence[Part]) -> Tree:
    """Return the parts as they are nested; dicts have their keys in the order of the parts.

    Raises SpecError, naming `what` and the place, for paths that contradict each other.
    """
    return _tree(what, (), parts)


def _tree(what: str, at: Path, parts: Sequence[Part]) -> Tree:
    depth = len(at)
    if len(parts) == 1 and len(parts[0].path) == depth:
        return parts[0]
    if not parts:
        raise SpecError(f"{place(what, at)} has no parts, but is a row of them")
    if any(len(part.path) == depth for part in parts):
        raise SpecError(f"{place(what, at)} is named by {len(parts)} parts; each array needs a path of its own")
    if depth == _DEEPEST:
        raise SpecError(f"{place(what, at)} is nested deeper than {_DEEPEST} levels")
    below: dict[str | int, list[Part]] = {}
    for part in parts:
        below.setdefault(part.path[depth], []).append(part)
    keys = list(below)
    branches = {key: _tree(what, (*at, key), some) for key, some in below.items()}
    if keys == list(range(len(keys))):
        return tuple(branches.values())
    if not all(isinstance(key, str) for key in keys):
        raise SpecError(f"{place(what, at)} has parts {keys}: expected names, or places 0, 1, 2, ... in this order")
    return branches


def nested(tree: Tree, leaf: Callable[[Part], Any]) -> Any:
    """Return dicts and tuples nested like `tree`, with `leaf(part)` in the place of each part."""
    if isinstance(tree, dict):
        return {key: nested(branch, leaf) for key, branch in cast("dict[str, Tree]", tree).items()}
    if isinstance(tree, tuple):
        return tuple(nested(branch, leaf) for branch in cast("tuple[Tree, ...]", tree))
    return leaf(tree)


def flat(what: str, value: Any) -> dict[str, Any]:
    """Return what stands at the ends of nested dicts and tuples, by its place: `what["camera"][0]` -> value."""
    if isinstance(value, dict):
        branches = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, tuple):
        branches = list(enumerate(cast("tuple[Any, ...]", value)))
    else:
        return {what: value}
    table: dict[str, Any] = {}
    for key, branch in branches:
        table |= flat(place(what, (key,)), branch)
    return table


class Record:
    """How the rows of one array are read as parts; made once, used every step."""

    def __init__(self, parts: Sequence[Part], row_bytes: int) -> None:
        """`parts` lie in rows of `row_bytes` bytes, as `check_parts` demands."""
        self._paths = [part.path for part in parts]
        self._names = [str(number) for number in range(len(parts))]
        self._dtype = np.dtype(
            {
                "names": self._names,
                "formats": [(part.array.dtype, part.array.shape) for part in parts],
                "offsets": [part.offset for part in parts],
                "itemsize": row_bytes,
            }
        )
        self._rows: NDArray[np.uint8] | None = None
        self._views: Mapping[Path, NDArray[Any]] = {}

    def views(self, rows: NDArray[np.uint8]) -> Mapping[Path, NDArray[Any]]:
        """Return path -> view of each part: its dtype, (*leading axes of `rows`, *its shape).

        `rows`: uint8 (..., row_bytes), a row in one piece; what is written into a view is written into `rows`.
        """
        if rows is not self._rows:  # most transports show every frame in the same array
            records = rows.view(self._dtype)[..., 0]
            self._views = {path: records[name] for path, name in zip(self._paths, self._names, strict=True)}
            self._rows = rows
        return self._views


def arrays(rows: NDArray[Any], whole: ArraySpec, parts: Sequence[Part]) -> list[tuple[Path, ArraySpec, NDArray[Any]]]:
    """Return path, spec and view of each array in `rows`: of its parts, or of all of it, at (), where it has none."""
    if not parts:
        return [((), whole, rows)]
    found = views(rows, parts)
    return [(part.path, part.array, found[part.path]) for part in parts]


def views(array: NDArray[np.uint8], parts: Sequence[Part]) -> Mapping[Path, NDArray[Any]]:
    """Return path -> zero-copy view of each part in `array`, uint8 (..., row_bytes): its dtype, (..., *its shape)."""
    return Record(parts, array.shape[-1]).views(array)


def unpack(rows: NDArray[np.uint8], parts: Sequence[Part]) -> Any:
    """Return the parts in `rows`, uint8 (..., row_bytes), as dicts and tuples of zero-copy views."""
    found = views(rows, parts)
    return nested(tree_of("row", parts), lambda part: found[part.path])
