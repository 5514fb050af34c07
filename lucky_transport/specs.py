"""What one batch consists of: sizes, dtypes, names.

Rule 1: a `BatchSpec` is all that a client has to know of an engine before the first exchange; it travels as JSON.
Rule 2: an observation or an action is one array per env; spaces that are more than that are refused by name.
Rule 3: the total reward is defined here, once, for engines, clients and parity checks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

__all__ = ["ArraySpec", "BatchSpec", "total_reward"]

#: The element types that a segment, a message and a NumPy view can share without conversion.
DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def _bound(value: Any, shape: tuple[int, ...], default: float) -> Any:
    """Return a bound as a scalar where all elements share it, else as a nested list; JSON has no infinity."""
    if value is None:
        return None
    array = np.broadcast_to(np.asarray(value), shape)
    if array.size == 0:
        return None
    first = array.flat[0].item()
    if (array == first).all():
        return None if isinstance(first, float) and math.isinf(first) and first == default else first
    return array.tolist()


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array per env: `dtype`, `shape` (without the batch axis) and bounds.

    `low` / `high` are None (unbounded), a number for all elements, or a nested list of `shape`. `n` is the number of
    values of a Discrete space (then `shape` is `()` and `low` its start), 0 for a Box.
    """

    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    low: Any = None
    high: Any = None
    n: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise SpecError(f"dtype {self.dtype!r} cannot travel; expected one of {', '.join(DTYPES)}")
        if any(extent < 1 for extent in self.shape):
            raise SpecError(f"shape {self.shape} has an empty axis; every extent must be at least 1")

    @property
    def size(self) -> int:
        """Elements per env."""
        return math.prod(self.shape)

    @property
    def itemsize_bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    def space(self) -> Space[Any]:
        """Return the Gymnasium space of one env."""
        from gymnasium.spaces import Box, Discrete

        if self.n:
            return Discrete(self.n, start=int(self.low or 0))
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            floor, ceiling = -np.inf, np.inf
        elif dtype.kind == "b":
            floor, ceiling = 0, 1
        else:
            floor, ceiling = np.iinfo(dtype).min, np.iinfo(dtype).max
        low = np.broadcast_to(np.asarray(floor if self.low is None else self.low, dtype), self.shape)
        high = np.broadcast_to(np.asarray(ceiling if self.high is None else self.high, dtype), self.shape)
        return Box(low, high, shape=self.shape, dtype=dtype.type)  # pyright: ignore[reportArgumentType]

    @classmethod
    def of_space(cls, space: Space[Any]) -> ArraySpec:
        """Return the spec of a Box or Discrete space.

        Raises SpecError for any other space, by its name.
        """
        from gymnasium.spaces import Box, Discrete

        if isinstance(space, Discrete):
            return cls("int64", (), int(space.start), int(space.start + space.n - 1), int(space.n))
        if isinstance(space, Box):
            box = cast(Any, space)  # its arrays are partly untyped
            return cls(
                np.dtype(box.dtype).name,
                tuple(int(extent) for extent in box.shape),
                _bound(box.low, box.shape, -math.inf),
                _bound(box.high, box.shape, math.inf),
            )
        raise SpecError(
            f"{type(space).__name__} spaces cannot travel yet",
            hint="wrap the env so that it has Box or Discrete spaces (gymnasium.wrappers.FlattenObservation)",
        )


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Everything fixed about a batch of `num_envs` envs that step together.

    `reward_terms` and `termination_terms` name the rows of a frame's `signals`, in that order; `timeout_terms` are
    those termination terms that truncate. `observation_names` / `action_names` name the flat elements (empty: unnamed).
    `observation_terms` are (name, elements) in order, `action_groups` (name, indices into the flat action).
    `step_s` is the simulated time of one step in seconds (0: unknown). `reset_ticks` is 1 for an engine that cannot
    show a reset observation without one tick. `attributes` are JSON values for `VectorEnv.get_attr`.
    """

    engine: str
    num_envs: int
    observation: ArraySpec
    action: ArraySpec
    reward_terms: tuple[str, ...] = ("reward",)
    termination_terms: tuple[str, ...] = ()
    timeout_terms: tuple[str, ...] = ()
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    observation_terms: tuple[tuple[str, int], ...] = ()
    action_groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    reset_ticks: int = 0
    hold: bool = True
    step_s: float = 0.0
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise SpecError(f"num_envs {self.num_envs}: expected at least 1")
        if not self.reward_terms:
            raise SpecError("a batch needs at least one reward term")
        if not 0 <= self.step_s < math.inf:
            raise SpecError(f"step_s {self.step_s}: expected seconds >= 0")
        if self.reset_ticks not in (0, 1):
            raise SpecError(f"reset_ticks {self.reset_ticks}: expected 0 or 1")
        for names, size, what in (
            (self.observation_names, self.observation.size, "observation_names"),
            (self.action_names, self.action.size, "action_names"),
        ):
            if names and len(names) != size:
                raise SpecError(f"{what} has {len(names)} names for {size} elements")

    @property
    def num_terms(self) -> int:
        """Rows of a frame's signals: reward terms, then termination terms."""
        return len(self.reward_terms) + len(self.termination_terms)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of a batch of observations."""
        return (self.num_envs, *self.observation.shape)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of a batch of actions."""
        return (self.num_envs, *self.action.shape)

    def to_json(self) -> str:
        """Return the spec as JSON with sorted keys (equal specs give equal text)."""
        return json.dumps(self._plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def _plain(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        for key in ("observation", "action"):
            spec: ArraySpec = plain[key]
            plain[key] = {f.name: getattr(spec, f.name) for f in fields(spec)}
            plain[key]["low"], plain[key]["high"] = _finite(spec.low), _finite(spec.high)
        plain["attributes"] = dict(self.attributes)
        return plain

    @classmethod
    def from_json(cls, text: str | bytes) -> BatchSpec:
        """Return the spec that `to_json` wrote.

        Raises SpecError when the text is no such JSON; unknown keys (of a newer peer) are ignored.
        """
        try:
            plain = json.loads(text, parse_constant=_refuse_constant)
            known = {f.name for f in fields(cls)}
            values: dict[str, Any] = {k: v for k, v in plain.items() if k in known}
            _check_kinds(values, _BATCH_KINDS)
            for key in ("observation", "action"):
                values[key] = _array_spec(values[key])
            for key in ("reward_terms", "termination_terms", "timeout_terms", "observation_names", "action_names"):
                if key in values:
                    values[key] = tuple(str(name) for name in values[key])
            if "observation_terms" in values:
                values["observation_terms"] = tuple(
                    (str(name), int(size)) for name, size in values["observation_terms"]
                )
            if "action_groups" in values:
                groups = values["action_groups"]
                values["action_groups"] = tuple((str(name), tuple(int(i) for i in at)) for name, at in groups)
            return cls(**values)
        except SpecError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise SpecError(f"the peer's batch spec is malformed: {type(error).__name__}: {error}") from error


def _array_spec(plain: dict[str, Any]) -> ArraySpec:
    known = {f.name for f in fields(ArraySpec)}
    values = {k: v for k, v in plain.items() if k in known}
    _check_kinds(values, _ARRAY_KINDS)
    if not all(type(extent) is int for extent in values["shape"]):
        raise TypeError(f"shape is {values['shape']!r}")
    values["shape"] = tuple(values["shape"])
    for key, unbounded in (("low", -math.inf), ("high", math.inf)):
        if isinstance(values.get(key), list):
            values[key] = _infinite(values[key], unbounded)
            np.broadcast_to(np.asarray(values[key], np.float64), values["shape"])  # raises when it does not fit
    return ArraySpec(**values)


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python's JSON reader would let pass."""
    raise ValueError(f"{name} is not JSON")


#: What JSON values of a spec may be; a peer's text is not to be trusted.
_BATCH_KINDS: dict[str, tuple[type, ...]] = {
    "engine": (str,),
    "num_envs": (int,),
    "reset_ticks": (int,),
    "hold": (bool,),
    "step_s": (int, float),
    "attributes": (dict,),
    **dict.fromkeys(("reward_terms", "termination_terms", "timeout_terms", "observation_names"), (list,)),
    **dict.fromkeys(("action_names", "observation_terms", "action_groups"), (list,)),
}
_ARRAY_KINDS: dict[str, tuple[type, ...]] = {
    "dtype": (str,),
    "shape": (list,),
    "low": (int, float, bool, list, type(None)),
    "high": (int, float, bool, list, type(None)),
    "n": (int,),
}


def _check_kinds(values: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Raise TypeError for the first value of a wrong kind; True is no number."""
    for key, allowed in kinds.items():
        value = values.get(key)
        if key in values and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise TypeError(f"{key} is {value!r}")


def _finite(bound: Any) -> Any:
    """Return a bound with None for each infinite element, because JSON has no infinity."""
    if isinstance(bound, list):
        return [_finite(element) for element in cast(list[Any], bound)]
    return None if isinstance(bound, float) and math.isinf(bound) else bound


def _infinite(bound: Any, unbounded: float) -> Any:
    """Undo `_finite` in a nested list."""
    if isinstance(bound, list):
        return [_infinite(element, unbounded) for element in cast(list[Any], bound)]
    return unbounded if bound is None else bound


def total_reward(
    signals: NDArray[np.float32], num_reward_terms: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the sum of the reward rows: float32 (num_envs,), added one row after the other in manifest order.

    The order matters: float32 addition is not associative, and engine, client and parity check must agree bit for bit.
    `signals` is float32 (terms, num_envs), reward rows first. Written into `out` when given.
    """
    if out is None:
        out = np.empty(signals.shape[1:], np.float32)
    np.copyto(out, signals[0])
    for row in range(1, num_reward_terms):
        np.add(out, signals[row], out)
    return out
