"""Checks of a batch of actions.

Every transport calls these, so that all refuse the same actions with the same class and text; one with a native fast
path calls them when that path refuses. Values outside the bounds are legal: they are counted, not changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lucky_transport.errors import LocalProtocolError, SpecError, SpecTypeError
from lucky_transport.spec.array_spec import value_range
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec


def check_actions(spec: BatchSpec, actions: ArrayLike, name: str = "actions") -> NDArray[Any]:
    """Return `actions` as a C-contiguous array of the spec's dtype and shape (the same object where it already is).

    What lies on a GPU, of PyTorch or CuPy, is copied to the host first, after the work of the present stream.

    Raises SpecTypeError for what is no real number, SpecError for a wrong shape, for NaN or infinite values and for
    integers that the dtype cannot hold; both name the first offending place. `name` is what the text calls them.
    """
    try:
        array = np.asarray(on_host(actions))
    except ValueError as error:  # lists of several lengths
        raise SpecError(f"{name} are no array: {error}") from None
    wanted = np.dtype(spec.action.dtype)
    if array.dtype.kind not in "fiub":
        raise SpecTypeError(f"{name} have dtype {array.dtype}, expected real numbers that cast to {wanted}")
    if wanted.kind in "iub" and array.dtype.kind == "f":
        expected = f"integers ({wanted}): the action space is discrete"
        raise SpecTypeError(f"{name} have dtype {array.dtype}, expected {expected}")
    shape = spec.action_shape
    if array.shape != shape:
        raise SpecError(f"{name} have shape {array.shape}, expected {shape}{_first_difference(array.shape, shape)}")
    if array.dtype != wanted:
        if wanted.kind in "iub":
            _check_range(name, array, wanted)
        with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused below, by its place
            array = array.astype(wanted)
    array = np.require(array, requirements=("C", "A"))
    if wanted.kind == "f":
        finite = np.isfinite(array)
        if np.count_nonzero(finite) != finite.size:  # a fifth of what `all` takes for a few values
            at = _first(~finite)
            raise SpecError(
                f"{name} are not finite: {array[at]} at {list(at)} (env {at[0]}); nothing was sent to the engine"
            )
    return array


def on_host(actions: Any) -> Any:
    """Return what lies on a GPU as an array of this process, after the work of the present stream, else `actions`."""
    if not hasattr(actions, "__cuda_array_interface__"):
        return actions
    if hasattr(actions, "get"):  # CuPy's
        return actions.get()
    return actions.detach().cpu().numpy() if hasattr(actions, "detach") else np.asarray(actions)  # PyTorch's, JAX's


def _check_range(name: str, integers: NDArray[Any], wanted: np.dtype[Any]) -> None:
    """Raise SpecError for the first value that a cast to `wanted` would turn into another one."""
    least, most = value_range(wanted)
    outside = (integers < least) | (integers > most)
    if outside.any():
        at = _first(outside)
        raise SpecError(
            f"{name} do not fit {wanted}: {integers[at]} at {list(at)} (env {at[0]}); nothing was sent to the engine"
        )


def _first(true: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the place of the first True."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(true)), true.shape))


def _first_difference(got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if len(got) != len(expected):
        return f": {len(got)} axes instead of {len(expected)}"
    axis = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b)
    return f": axis {axis} has {got[axis]} instead of {expected[axis]}"


def check_control(spec: BatchSpec, control: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return `control` as contiguous uint8 (num_envs,).

    Raises SpecError for a wrong shape or dtype, LocalProtocolError for HOLD where the engine has no hold.
    """
    control = np.asarray(control)
    if control.dtype != np.uint8 or control.shape != (spec.num_envs,):
        raise SpecError(
            f"control is {control.dtype} {control.shape}, expected uint8 ({spec.num_envs},): one byte per env"
        )
    if not spec.hold and (control & 2).any():
        raise LocalProtocolError(
            f"engine {spec.engine!r} cannot hold envs while others step",
            backend=spec.engine,
            hint="use autoreset_mode=NEXT_STEP and reset all envs together",
        )
    return np.ascontiguousarray(control)


class Bounds:
    """Counts action values outside a spec's bounds; `low` and `high` have the spec's dtype, None where unbounded."""

    def __init__(self, spec: ArraySpec) -> None:
        dtype = np.dtype(spec.dtype)
        self.low = _of_dtype(spec.low, dtype, math.ceil, -math.inf)
        self.high = _of_dtype(spec.high, dtype, math.floor, math.inf)

    def count_outside(self, actions: NDArray[Any]) -> int:
        """Return how many values of `actions`, of the spec's dtype, lie below `low` or above `high`."""
        if self.low is None and self.high is None:
            return 0
        return int(np.count_nonzero(self._outside(actions)))

    def check(self, actions: NDArray[Any], name: str = "actions") -> None:
        """Raise SpecError naming the first value of a checked batch that lies outside the bounds."""
        if not self.count_outside(actions):
            return
        low = np.broadcast_to(np.asarray(-np.inf if self.low is None else self.low), actions.shape)
        high = np.broadcast_to(np.asarray(np.inf if self.high is None else self.high), actions.shape)
        at = _first(self._outside(actions))
        raise SpecError(
            f"{name} are out of bounds: {actions[at]} at {list(at)} (env {at[0]}), expected {low[at]} to {high[at]}; "
            f"nothing was sent to the engine"
        )

    def _outside(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values lie outside; at least one side is bounded. NaN bounds nothing."""
        if self.low is None:
            return actions > self.high
        if self.high is None:
            return actions < self.low
        return (actions < self.low) | (actions > self.high)


def _of_dtype(
    bound: Any, dtype: np.dtype[Any], rounded: Callable[[float], int], unbounded: float
) -> NDArray[Any] | None:
    """Return a spec's bound as an array of `dtype`: a comparison in any other type disagrees about the bound itself.

    Integer bounds are `rounded` into the bounds, and never leave the dtype's range; NaN becomes `unbounded`.
    """
    if bound is None:
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # what the dtype cannot hold becomes infinite, which bounds nothing
            return np.asarray(bound, np.float64).astype(dtype)
    least, most = value_range(dtype)

    def whole(value: float) -> int:
        if not isinstance(value, int) and not math.isfinite(value):
            value = unbounded if math.isnan(value) else value
            return least if value < 0 else most
        return min(max(rounded(value), least), most)

    values = np.asarray(bound, object)  # Python's integers: no other type holds those of int64 and of uint64
    return np.array([whole(value) for value in values.flat], dtype).reshape(values.shape)
