"""Holodeck's actions, float32 vectors, as actions of our engines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import arrays

__all__ = ["ActionRows"]


class ActionRows:
    """Turns agents' vectors into a batch of actions. `size`: values that one env takes.

    An env's action is its agent's vector as far as it goes, the parts of a composite action one after the other.
    Integers are rounded and kept within the space; NaN and infinity count as 0.

    rows: per env the memory of its agent's vector, float32 (size,) as bytes; what is not written is 0.
    """

    def __init__(self, spec: BatchSpec, actions: NDArray[Any]) -> None:
        self._arrays = [(array, rows) for _, array, rows in arrays(actions, spec.action, spec.action_parts)]
        self.size = sum(array.size for array, _ in self._arrays)
        self.is_choice = len(self._arrays) == 1 and bool(self._arrays[0][0].n)
        self._vectors = np.zeros((spec.num_envs, self.size), np.float32)
        self.rows = [row.data.cast("B") for row in self._vectors]

    def clear(self) -> None:
        """Make all vectors 0."""
        self._vectors[:] = 0

    def convert(self) -> None:
        """Make the vectors the actions of their envs."""
        vectors = self._vectors
        if not np.isfinite(vectors).all():
            np.nan_to_num(vectors, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        at = 0
        for array, rows in self._arrays:
            rows[...] = _fitting(array, vectors[:, at : at + array.size].reshape(rows.shape))
            at += array.size

    def choose(self, env: int, choice: int) -> None:
        """Make `choice`, counted from 0, the action of `env`, where the action is one of a number of choices."""
        array, rows = self._arrays[0]
        rows[env] = int(array.low or 0) + min(choice, array.n - 1)


def _fitting(array: ArraySpec, values: NDArray[np.float32]) -> NDArray[Any]:
    """Return `values` (num_envs, *shape) in the dtype and, for whole numbers, within the bounds of `array`."""
    dtype = np.dtype(array.dtype)
    if dtype.kind == "f":
        return values
    if dtype.kind == "b":
        return values > 0.5
    limits = np.iinfo(dtype)
    low = limits.min if array.low is None else np.asarray(array.low)
    high = limits.max if array.high is None else np.asarray(array.high)
    return np.clip(np.rint(values.astype(np.float64)), low, high).astype(dtype)
