"""A batch of robots behind a host, as every transport drives them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from lucky_transport.api import make_engine
from lucky_transport.engine import HOLD, RESET, TICK
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import SetResetOptionsRequest, SimulationContract
from lucky_transport.messages.methods import method
from lucky_transport.transport import Frame, Stream


class Robots:
    """An engine and a client of it. Actions default to zeros: stand still."""

    def __init__(self, num_envs: int, options: dict[str, Any], variant: str = "quadruped") -> None:
        self.engine: Any = make_engine(f"mujoco:{variant}", num_envs, **options)
        self.host = Host(self.engine)
        self.client = InprocTransport(self.host)
        self.spec = self.client.spec

    def step(self, actions: ArrayLike = 0.0, control: NDArray[np.uint8] | None = None) -> Frame:
        """Do one exchange; `actions` are broadcast over the batch."""
        batch = np.array(np.broadcast_to(np.asarray(actions, np.float32), self.spec.action_shape))
        return self.client.step(batch, control)

    def reset(self, *envs: int) -> Frame:
        """Reset these envs (none named: all), hold the others."""
        control = np.full(self.spec.num_envs, HOLD if envs else RESET, np.uint8)
        control[list(envs)] = RESET
        return self.step(control=control)

    def tick(self, count: int = 1) -> Frame:
        """Step all envs without actions, this many times."""
        control = np.full(self.spec.num_envs, TICK, np.uint8)
        for _ in range(count - 1):
            self.step(control=control)
        return self.step(control=control)

    def stream(self, name: str, request: Any) -> Stream:
        """Open a stream, "Service/Method"."""
        return self.client.stream(method(name), request)

    def call(self, name: str, request: Any) -> Any:
        """Call a typed method, "Service/Method"."""
        return self.client.call(method(name), request)

    def randomize(self, **contract: Any) -> Any:
        """Send a SimulationContract of these fields."""
        return self.call("BatchService/SetResetOptions", SetResetOptionsRequest(SimulationContract(**contract)))

    def term(self, frame: Frame, name: str) -> NDArray[np.float32]:
        """Return the signal row of a reward or termination term."""
        return frame.signals[(*self.spec.reward_terms, *self.spec.termination_terms).index(name)]

    def seen(self, frame: Frame, name: str) -> NDArray[np.float32]:
        """Return an observation term: float32 (num_envs, elements)."""
        start = 0
        for term, size in self.spec.observation_terms:
            if term == name:
                return frame.observations[:, start : start + size].copy()
            start += size
        raise KeyError(name)

    def close(self) -> None:
        """End client and engine."""
        self.client.close()
        self.host.close()


@pytest.fixture
def robots() -> Generator[Callable[..., Robots]]:
    """Return `robots(num_envs, variant, **engine_options)`; everything it made is closed at the end."""
    made: list[Robots] = []

    def make(num_envs: int = 4, variant: str = "quadruped", **options: Any) -> Robots:
        made.append(Robots(num_envs, options, variant))
        return made[-1]

    yield make
    for each in made:
        each.close()
