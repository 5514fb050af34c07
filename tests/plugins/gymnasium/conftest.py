"""Envs of our own, registered under `lucky_test/`, each odd in one way."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple


class Diary(gymnasium.Env[Any, Any]):
    """Writes down how it is called; keeps its last action, and spoils the array it came in."""

    observation_space = Box(-1, 1, (2,), np.float64)
    action_space = Box(-1, 1, (3,), np.float32)
    made: ClassVar[list[Diary]] = []

    def __init__(self, fail_at: int = 0, observation_shape: tuple[int, ...] = (2,), fail_close: bool = False) -> None:
        self.calls: list[Any] = []
        self.closed = False
        self.last_action: Any = None
        self._fail_at, self._shape, self._fail_close = fail_at, observation_shape, fail_close
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.calls.append(("reset", seed, options))
        return np.zeros(self._shape), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.calls.append("step")
        if len(self.calls) == self._fail_at:
            raise ZeroDivisionError("out of pins")
        self.last_action = action
        seen = action[:2].astype(np.float64)
        action += 1
        return seen, 0.1, False, False, {"note": "dropped"}

    def close(self) -> None:
        self.closed = True
        if self._fail_close:
            raise OSError("stuck")


class Spaces(gymnasium.Env[Any, Any]):
    """Has the spaces it is told to have; `differing` ones have others each time."""

    numbers = itertools.count(1)

    def __init__(self, observation: str = "box", action: str = "box", differing: bool = False) -> None:
        kinds = {
            "box": Box(-1, 1, (2,)),
            "dict": Dict({"a": Discrete(2)}),
            "tuple": Tuple([Discrete(2)]),
            "multi_discrete": MultiDiscrete([2, 3]),
        }
        self.observation_space, self.action_space = kinds[observation], kinds[action]
        if differing:
            self.observation_space = Box(-1, 1, (next(self.numbers),))


class Broken(gymnasium.Env[Any, Any]):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no wheels")


ENVS: Mapping[str, Any] = {f"lucky_test/{env.__name__}-v0": env for env in (Diary, Spaces, Broken)}


@pytest.fixture
def diaries() -> Generator[list[Diary]]:
    """Register the envs, and return the diaries that were made of them, in order."""
    Diary.made.clear()
    for name, entry in ENVS.items():
        gymnasium.register(name, entry, order_enforce=False)
    yield Diary.made
    for name in ENVS:
        del gymnasium.registry[name]
