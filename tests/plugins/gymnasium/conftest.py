"""Envs of our own, registered under `lucky_test/`, each odd in one way."""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

from lucky_transport.spec.composite import flat


class Diary(gymnasium.Env[Any, Any]):
    """Writes down how it is called; keeps its last action, and spoils the array it came in."""

    observation_space = Box(-1, 1, (2,), np.float64)
    action_space = Box(-1, 1, (3,), np.float32)
    made: ClassVar[list[Diary]] = []
    threads: ClassVar[set[int]] = set()

    def __init__(
        self,
        fail_at: int = 0,
        observation_shape: tuple[int, ...] = (2,),
        fail_close: bool = False,
        reward: Any = 0.1,
    ) -> None:
        self.calls: list[Any] = []
        self.closed = False
        self.last_action: Any = None
        self._fail_at, self._shape, self._fail_close, self._reward = fail_at, observation_shape, fail_close, reward
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.calls.append(("reset", seed, options))
        return np.zeros(self._shape), {"fresh": True}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.calls.append("step")
        self.threads.add(threading.get_ident())
        if len(self.calls) == self._fail_at:
            raise ZeroDivisionError("out of pins")
        self.last_action = action
        seen = action[:2].astype(np.float64)
        action += 1
        return seen, self._reward, False, False, {"note": "dropped"}

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
            "gears": MultiDiscrete([2, 3]),
            "lamps": MultiBinary([2, 2]),
            "text": Text(4),
            "graph": Graph(Discrete(3), None),
            "sequence": Sequence(Discrete(3)),
            "deep_text": Dict({"a": Tuple([Discrete(2), Text(4)])}),
            "empty": Dict({"a": Tuple([])}),
            "numbered": Dict({1: Discrete(2)}),  # pyright: ignore[reportArgumentType]
        }
        self.observation_space, self.action_space = kinds[observation], kinds[action]
        if differing:
            self.observation_space = Box(-1, 1, (next(self.numbers),))


class Patchwork(gymnasium.Env[Any, Any]):
    """Has spaces of every kind that travels, and answers by what it was told: any wrong bit changes all that follows.

    `lacks` is a key of the observation that it leaves out, `stretches` makes one part of another shape, `replaces` are
    a key, or two, and what is shown there. It spoils the actions it is given.
    """

    def __init__(self, lacks: str = "", stretches: bool = False, replaces: tuple[Any, Any] | None = None) -> None:
        self.observation_space = Dict(
            {
                "camera": Dict({"left": Box(0, 255, (2, 3, 3), np.uint8), "right": Box(0, 255, (1, 1), np.uint16)}),
                "arms": Tuple(
                    [Box(-1, 1, (2,), np.float64), Discrete(3, start=-1), Tuple([Box(-np.inf, np.inf, (1,))])]
                ),
                "gears": MultiDiscrete(np.array([[2, 3], [4, 5]])),
                "buttons": MultiBinary(4),
                "lamps": MultiBinary([2, 2]),
            }
        )
        self.action_space = Tuple(
            [
                Dict({"push": Box(-1, 1, (3,)), "mode": Discrete(4, start=1), "lift": Box(-9, 9, (2, 2), np.int16)}),
                MultiDiscrete([2, 3], start=[0, -1]),
                MultiBinary(3),
            ]
        )
        self._lacks, self._stretches, self._replaces = lacks, stretches, replaces

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observation(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        digest = zlib.crc32(b"".join(np.asarray(part).tobytes() for part in flat("action", action).values()))
        action[0]["push"] += 1
        return self._observation(digest), digest % 100 / 10, digest % 5 == 0, digest % 7 == 0, {}

    def _observation(self, digest: int) -> Any:
        self.observation_space.seed(digest ^ int(self.np_random.integers(1 << 31)))
        observation = self.observation_space.sample()
        if self._stretches:
            observation["camera"]["right"] = np.zeros(())
        if self._replaces:
            (*outer, key), value = self._replaces
            (observation[outer[0]] if outer else observation)[key] = value
        return {key: part for key, part in observation.items() if key != self._lacks}


class Broken(gymnasium.Env[Any, Any]):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no wheels")


ENVS: Mapping[str, Any] = {f"lucky_test/{env.__name__}-v0": env for env in (Diary, Spaces, Patchwork, Broken)}


@pytest.fixture
def diaries() -> Generator[list[Diary]]:
    """Register the envs, and return the diaries that were made of them, in order."""
    Diary.made.clear()
    Diary.threads.clear()
    for name, entry in ENVS.items():
        gymnasium.register(name, entry, order_enforce=False)
    yield Diary.made
    for name in ENVS:
        del gymnasium.registry[name]
