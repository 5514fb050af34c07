"""Conversion between Gymnasium spaces and the arrays that travel: Dict and Tuple become parts of a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.composite import Part, Path, Tree, pack, place, tree_of

if TYPE_CHECKING:
    from gymnasium.spaces import Space

__all__ = ["array_of", "space_of"]


def array_of(what: str, space: Space[Any]) -> tuple[ArraySpec, tuple[Part, ...]]:
    """Return the array that travels for `space`, and its parts (none for a space of one array).

    Raises SpecError naming the place, `what["a"][0]`, and the space that cannot travel.
    """
    from gymnasium.spaces import Dict, Tuple

    if not isinstance(space, (Dict, Tuple)):
        return _leaf(what, (), space), ()
    array, parts, _ = pack([Part(path, _leaf(what, path, leaf)) for path, leaf in _leaves(what, (), space)])
    return array, parts


def _leaf(what: str, path: Path, space: Space[Any]) -> ArraySpec:
    try:
        return ArraySpec.of_space(space)
    except SpecError as error:
        raise SpecError(f"{place(what, path)}: {error}") from error


def _leaves(what: str, at: Path, space: Any) -> Iterator[tuple[Path, Space[Any]]]:
    """Yield the spaces of one array inside `space`, with their paths, in order."""
    from gymnasium.spaces import Dict, Tuple

    named = isinstance(space, Dict)
    if not named and not isinstance(space, Tuple):
        yield at, space
        return
    inner: Any = cast(Any, space).spaces
    branches: dict[Any, Any] = inner if named else dict(enumerate(cast("tuple[Any, ...]", inner)))
    if not branches:
        raise SpecError(f"{place(what, at)} is an empty {'Dict' if named else 'Tuple'}: nothing would travel")
    for key, branch in branches.items():
        if named and not isinstance(key, str):
            raise SpecError(f"{place(what, at)} has the key {key!r}; the keys of a Dict must be strings")
        yield from _leaves(what, (*at, key), branch)


def space_of(what: str, array: ArraySpec, parts: Sequence[Part]) -> Space[Any]:
    """Return the Gymnasium space of one env for what travels as `array` with these parts."""
    return _space(tree_of(what, parts)) if parts else array.space()


def _space(tree: Tree) -> Space[Any]:
    from gymnasium.spaces import Dict, Tuple

    if isinstance(tree, Part):
        return tree.array.space()
    if isinstance(tree, tuple):
        return Tuple([_space(branch) for branch in cast("tuple[Tree, ...]", tree)])
    # as pairs and unsorted: from a plain dict Gymnasium sorts the names, and would do so again for a batch
    space = Dict([(name, _space(branch)) for name, branch in cast("dict[str, Tree]", tree).items()])
    space.sort_keys = False
    return space
