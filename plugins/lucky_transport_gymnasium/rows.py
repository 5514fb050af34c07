"""One env's observation and reward written into its row of a batch, and its action read from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers
from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.casting import fitting
from lucky_transport.spec.composite import Part, Path, arrays, nested, place, tree_of

__all__ = ["Rows"]

_REWARD = ArraySpec("float32")


class Rows:
    """The rows of `buffers`, as the envs of a batch see them."""

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self._spec, self._buffers = spec, buffers
        self._observations = arrays(buffers.observations, spec.observation, spec.observation_parts)
        taken = arrays(buffers.actions, spec.action, spec.action_parts)
        self._actions = {path: view for path, _, view in taken}
        self._tree = tree_of("action", spec.action_parts or [Part((), spec.action)])

    def write_observation(self, index: int, observation: Any) -> None:
        """Show `observation`, nested as the env's space, in row `index`; raises SpecError for what does not fit."""
        for path, array, rows in self._observations:
            name = place("observation", path)
            rows[index] = self._fitting(index, name, self._at(index, observation, path), array, "its observation_space")

    def write_reward(self, index: int, reward: Any) -> None:
        """Make `reward` that of row `index`; raises SpecError for what is no real number."""
        out = self._buffers
        out.signals[0, index] = out.rewards[index] = self._fitting(index, "reward", reward, _REWARD, "the frame")

    def _fitting(self, index: int, name: str, value: Any, array: ArraySpec, says: str) -> NDArray[Any]:
        if np.shape(value) != array.shape:  # NumPy would silently stretch it over the row
            raise self._misfit(index, name, f"shape {np.shape(value)}, {says} says {array.shape}")
        try:
            return fitting(value, array.dtype)
        except ValueError as error:
            raise self._misfit(index, name, f"{error}, {says} says {array.dtype}") from error

    def _at(self, index: int, observation: Any, path: Path) -> Any:
        for depth, key in enumerate(path):
            try:
                observation = observation[key]
            except (KeyError, IndexError, TypeError) as error:
                at = place("observation", path[:depth])
                raise self._misfit(index, at, f"no {key!r}, which its observation_space has") from error
        return observation

    def _misfit(self, index: int, name: str, what: str) -> SpecError:
        return SpecError(
            f"{self._spec.engine}: env {index}: {name} has {what}",
            backend="gymnasium",
            hint="mend the env; gymnasium.utils.env_checker.check_env(env) shows where",
        )

    def read_action(self, index: int) -> Any:
        """Return the action of env `index`, nested as its space: an int for a Discrete, else an array of its own."""
        return nested(self._tree, lambda part: self._read(part, index))

    def _read(self, part: Part, index: int) -> Any:
        row = self._actions[part.path][index]
        return int(row) if part.array.n else row.copy()  # an env may keep its action; the buffer is the driver's
