"""A Gymnasium env with arrays of every kind, for libraries made of it: `gymnasium:kinds:kinds/Kinds-v0`.

What it shows follows from its last action and its ticks alone; an episode has five steps and is truncated.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class Kinds(gymnasium.Env[Any, Any]):
    """See the module."""

    def __init__(self) -> None:
        self.observation_space = Dict(
            {
                "wide": Box(-np.inf, np.inf, (2,), np.float64),
                "few": Box(0, 9, (3,), np.int8),
                "many": Box(0, 60000, (), np.uint16),
                "level": Discrete(9, start=-4),
                "digits": MultiDiscrete([5, 7], start=[1, 1]),
                "switches": MultiBinary(3),
                "deep": Dict({"pair": Tuple([Box(0, 255, (2,), np.uint8), Discrete(3)])}),
            }
        )
        self.action_space = Dict({"force": Box(-1, 1, (2,), np.float64), "turn": Discrete(3, start=-1)})
        self._ticks = 0

    def _observation(self, force: Any, turn: int) -> dict[str, Any]:
        t = self._ticks
        return {
            "wide": np.array([t + 0.25, float(force[0])]),
            "few": np.array([t, 9, 0], np.int8),
            "many": np.array(50000 + t, np.uint16),
            "level": np.int64(turn - 3),
            "digits": np.array([1 + t % 5, 7]),
            "switches": np.array([1, 0, t % 2], np.int8),
            "deep": {"pair": (np.array([t, 255], np.uint8), np.int64(t % 3))},
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._ticks = 0
        return self._observation(np.zeros(2), 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._ticks += 1
        seen = self._observation(action["force"], int(action["turn"]))
        return seen, float(action["force"][1]), False, self._ticks >= 5, {}


gymnasium.register("kinds/Kinds-v0", "kinds:Kinds")
