"""One array per env: its dtype, shape and bounds, and the Gymnasium space that it stands for.

Bounds travel as JSON, which has no infinity: None stands for "unbounded".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lucky_transport.errors import SpecError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

#: The element types that a segment, a message and a NumPy view can share without conversion.
DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")

#: Gymnasium spaces that are an array of integers with bounds, but no Box.
_KINDS = ("", "MultiDiscrete", "MultiBinary")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array per env: `dtype`, `shape` (without the batch axis) and bounds.

    `low` / `high` are None (unbounded), a number for all elements, or a nested list of `shape`. `n` is the number of
    values of a Discrete space, 0 for any other. Its `shape` is `()`, its `low` the start, 0 where it is None, and its
    `high` the last value, also where it is None. `kind` is "MultiDiscrete" or "MultiBinary" where the space is one of
    these, "" for a Box or a Discrete.
    """

    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    low: Any = None
    high: Any = None
    n: int = 0
    kind: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise SpecError(f"dtype {self.dtype!r} cannot travel; expected one of {', '.join(DTYPES)}")
        if any(extent < 1 for extent in self.shape):
            raise SpecError(f"shape {self.shape} has an empty axis; every extent must be at least 1")
        if self.kind not in _KINDS:
            raise SpecError(f"kind {self.kind!r}: expected one of {', '.join(map(repr, _KINDS))}")
        if self.n and self.low is None:
            object.__setattr__(self, "low", 0)
        if self.n and self.high is None:
            object.__setattr__(self, "high", (self.low or 0) + self.n - 1)
        if self.kind:
            _check_integers(self)
        elif self.low is not None and self.high is not None:
            _check_order(self)

    @property
    def size(self) -> int:
        """Elements per env."""
        return math.prod(self.shape)

    @property
    def itemsize_bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def size_bytes(self) -> int:
        """Bytes per env."""
        return self.size * self.itemsize_bytes

    def space(self) -> Space[Any]:
        """Return the Gymnasium space of one env."""
        from gymnasium.spaces import Box, MultiBinary, MultiDiscrete

        if self.n:
            return _discrete(self.n, int(self.low), self.dtype)
        if self.kind == "MultiBinary":
            return MultiBinary(self.shape[0] if len(self.shape) == 1 else self.shape)
        dtype = np.dtype(self.dtype)
        floor, ceiling = value_range(dtype)
        low = np.broadcast_to(np.asarray(floor if self.low is None else self.low, dtype), self.shape)
        high = np.broadcast_to(np.asarray(ceiling if self.high is None else self.high, dtype), self.shape)
        if self.kind == "MultiDiscrete":
            values: Any = high.astype(np.int64) - low + 1
            return MultiDiscrete(values, dtype=dtype.type, start=low)  # pyright: ignore[reportArgumentType]
        return Box(low, high, shape=self.shape, dtype=dtype.type)  # pyright: ignore[reportArgumentType]

    @classmethod
    def of_space(cls, space: Space[Any]) -> ArraySpec:
        """Return the spec of a Box, Discrete, MultiDiscrete or MultiBinary space.

        Raises SpecError for any other space, by its name.
        """
        from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

        known = cast(Any, space)  # Gymnasium's arrays are partly untyped
        dtype = np.dtype(known.dtype).name if known.dtype is not None else ""
        match space:
            case Discrete():
                return cls(dtype, (), int(known.start), int(known.start + known.n - 1), int(known.n))
            case MultiDiscrete():
                shape, high = _shape(known), known.start + known.nvec - 1
                return cls(dtype, shape, _bound(known.start, shape), _bound(high, shape), kind="MultiDiscrete")
            case MultiBinary():
                return cls(dtype, _shape(known), 0, 1, kind="MultiBinary")
            case Box():
                shape = _shape(known)
                return cls(dtype, shape, _bound(known.low, shape, -math.inf), _bound(known.high, shape, math.inf))
            case _:
                raise SpecError(
                    f"{type(space).__name__} spaces cannot travel yet",
                    hint="wrap the env so that it has Box, Discrete, MultiDiscrete or MultiBinary spaces "
                    "(gymnasium.wrappers.FlattenObservation)",
                )

    def to_plain(self) -> dict[str, Any]:
        """Return the spec as JSON values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["shape"] = list(self.shape)
        plain["low"], plain["high"] = _finite(self.low), _finite(self.high)
        if not self.kind:
            del plain["kind"]  # the JSON of a spec without it stays as it was
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ArraySpec:
        """Return the spec that `to_plain` wrote; unknown keys and kinds of a newer peer are ignored.

        Raises SpecError, TypeError, ValueError, KeyError or AttributeError for anything else.
        """
        known = {f.name for f in fields(cls)}
        values = {key: value for key, value in plain.items() if key in known}
        check_kinds(values, _VALUE_KINDS)
        if not all(type(extent) is int for extent in values["shape"]):
            raise TypeError(f"shape is {values['shape']!r}")
        values["shape"] = tuple(values["shape"])
        for key, unbounded in (("low", -math.inf), ("high", math.inf)):
            if isinstance(values.get(key), list):
                values[key] = _infinite(values[key], unbounded)
                np.broadcast_to(np.asarray(values[key], np.float64), values["shape"])  # raises when it does not fit
        if values.get("kind") not in _KINDS:
            values.pop("kind", None)
        return cls(**values)


#: What JSON values of a spec may be; a peer's text is not to be trusted.
_VALUE_KINDS: dict[str, tuple[type, ...]] = {
    "dtype": (str,),
    "shape": (list,),
    "low": (int, float, bool, list, type(None)),
    "high": (int, float, bool, list, type(None)),
    "n": (int,),
    "kind": (str,),
}


def check_kinds(values: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Raise TypeError for the first value of a wrong kind; True is no number."""
    for key, allowed in kinds.items():
        value = values.get(key)
        if key in values and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise TypeError(f"{key} is {value!r}")


def _check_integers(spec: ArraySpec) -> None:
    """Raise SpecError unless a MultiDiscrete or MultiBinary spec has integers, and bounds in order that fit them."""
    low, high = np.asarray(spec.low), np.asarray(spec.high)
    fits = np.dtype(spec.dtype).kind in "iu" and low.dtype.kind in "iu" and high.dtype.kind in "iu"
    if fits:
        limits = np.iinfo(spec.dtype)
        fits = not ((low < limits.min) | (high > limits.max) | (low > high)).any()
    if not fits:
        raise SpecError(f"a {spec.kind} of {spec.dtype} with bounds {spec.low!r} to {spec.high!r} is none")
    if spec.kind == "MultiBinary" and (spec.dtype, spec.low, spec.high) != ("int8", 0, 1):
        raise SpecError(f"a MultiBinary is int8 from 0 to 1, not {spec.dtype} from {spec.low!r} to {spec.high!r}")


def _check_order(spec: ArraySpec) -> None:
    """Raise SpecError when a low bound is above its high bound; bounds that fit no shape are refused elsewhere."""
    try:
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), spec.shape) for bound in (spec.low, spec.high))
    except ValueError:
        return
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        at = crossed[0]
        raise SpecError(f"low {low.flat[at]} is above high {high.flat[at]} at element {at}; swap them")


def _discrete(n: int, start: int, dtype: str) -> Space[Any]:
    from gymnasium.spaces import Discrete

    if dtype != "int64":
        try:
            return Discrete(n, start=start, dtype=np.dtype(dtype).type)  # pyright: ignore[reportArgumentType]
        except TypeError:  # an older Gymnasium's Discrete is int64 always; its values are the same
            pass
    return Discrete(n, start=start)


def _shape(space: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in space.shape)


def value_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a dtype."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    if dtype.kind == "b":
        return 0, 1
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _bound(value: Any, shape: tuple[int, ...], default: float = math.nan) -> Any:
    """Return a bound as a scalar where all elements share it, None where that is `default`, else as a nested list."""
    array = np.broadcast_to(np.asarray(value), shape)
    if array.size == 0:
        return None
    first = array.flat[0].item()
    if (array == first).all():
        return None if first == default else first
    return array.tolist()


def _finite(bound: Any) -> Any:
    """Return a bound with None for each infinite element."""
    if isinstance(bound, list):
        return [_finite(element) for element in cast(list[Any], bound)]
    return None if isinstance(bound, float) and math.isinf(bound) else bound


def _infinite(bound: Any, unbounded: float) -> Any:
    """Undo `_finite` in a nested list."""
    if isinstance(bound, list):
        return [_infinite(element, unbounded) for element in cast(list[Any], bound)]
    return unbounded if bound is None else bound


def fitting(value: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return `value` as an array whose values may be written into one of `dtype`.

    NumPy's `same_kind` rule decides, so float64 may become float32. Beyond it integers have to be in the range of
    `dtype`, and Python's own, which have no dtype, need nothing else; a finite value stays finite. Raises ValueError
    that says the first value that does not fit, its dtype and its place: "254.7 (float64) at [1]".
    """
    array, wanted = np.asarray(value), np.dtype(dtype)
    if not array.size or np.can_cast(array.dtype, wanted, "safe"):
        return array
    is_of_kind = np.can_cast(array.dtype, wanted, "same_kind")
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        is_of_kind |= not isinstance(value, np.ndarray | np.generic)
        least, most = value_range(wanted)
        bad = (array < least) | (array > most)
    elif array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            cast = array.astype(wanted)
            bad = np.isfinite(array) & ~np.isfinite(cast) if is_of_kind else cast != array
    else:
        bad = np.zeros(array.shape, np.bool_)
    if is_of_kind and not bad.any():
        return array
    at = [int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape)]
    raise ValueError(f"{array[tuple(at)]} ({array.dtype}){f' at {at}' if at else ''}")
