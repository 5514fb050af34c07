"""Random numbers, one stream per env.

An env draws from its own stream only, so what its neighbours do never changes its numbers. A new seed takes effect at
the env's next reset, never in the middle of an episode.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Streams"]


class Streams:
    """A generator per env; env i starts with seed + i."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self._generators = [np.random.default_rng(seed + env) for env in range(num_envs)]
        self._planned: dict[int, int] = {}

    def plan(self, env: int, seed: int) -> None:
        """From the next reset of `env` on its numbers follow from `seed`."""
        self._planned[env] = seed

    def begin(self, envs: Iterable[int]) -> None:
        """Start the planned seeds of `envs`, which are being reset."""
        if self._planned:
            for env in envs:
                seed = self._planned.pop(int(env), None)
                if seed is not None:
                    self._generators[env] = np.random.default_rng(seed)

    def uniform(self, envs: NDArray[np.intp], columns: int) -> NDArray[np.float64]:
        """Return float64 (len(envs), columns) in [0, 1), the next numbers of each env's stream."""
        out = np.empty((envs.size, columns))
        for row, env in zip(out, envs, strict=True):
            self._generators[env].random(out=row)
        return out

    def normal(self, envs: NDArray[np.intp], columns: int) -> NDArray[np.float64]:
        """Return float64 (len(envs), columns) of mean 0 and variance 1, the next numbers of each env's stream."""
        out = np.empty((envs.size, columns))
        for row, env in zip(out, envs, strict=True):
            self._generators[env].standard_normal(out=row)
        return out
