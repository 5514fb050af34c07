"""One env's observation written into its row of a batch, and its action read from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lucky_transport.engine import Buffers
from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part, Path, arrays, nested, place, tree_of

__all__ = ["Rows"]


class Rows:
    """The rows of `buffers`, as the envs of a batch see them."""

    def __init__(self, spec: BatchSpec, buffers: Buffers) -> None:
        self._spec = spec
        self._observations = arrays(buffers.observations, spec.observation, spec.observation_parts)
        taken = arrays(buffers.actions, spec.action, spec.action_parts)
        self._actions = {path: view for path, _, view in taken}
        self._tree = tree_of("action", spec.action_parts or [Part((), spec.action)])

    def write_observation(self, index: int, observation: Any) -> None:
        """Show `observation`, nested as the env's space, in row `index`; raises SpecError for what does not fit."""
        for path, array, rows in self._observations:
            value = self._at(observation, path)
            if np.shape(value) != array.shape:  # NumPy would silently stretch it over the row
                raise self._misfit(path, f"shape {np.shape(value)}, its observation_space says {array.shape}")
            rows[index] = value

    def _at(self, observation: Any, path: Path) -> Any:
        for depth, key in enumerate(path):
            try:
                observation = observation[key]
            except (KeyError, IndexError, TypeError) as error:
                raise self._misfit(path[:depth], f"no {key!r}, which its observation_space has") from error
        return observation

    def _misfit(self, path: Path, what: str) -> SpecError:
        return SpecError(
            f"{self._spec.engine}: {place('observation', path)} has {what}",
            backend="gymnasium",
            hint="mend the env; gymnasium.utils.env_checker.check_env(env) shows where",
        )

    def read_action(self, index: int) -> Any:
        """Return the action of env `index`, nested as its space: an int for a Discrete, else an array of its own."""
        return nested(self._tree, lambda part: self._read(part, index))

    def _read(self, part: Part, index: int) -> Any:
        row = self._actions[part.path][index]
        return int(row) if part.array.n else row.copy()  # an env may keep its action; the buffer is the driver's
