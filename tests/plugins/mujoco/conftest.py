"""A batch of robots behind a host, as every transport drives them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from lucky_transport import messages as m
from lucky_transport.api import make_engine
from lucky_transport.engine import HOLD, RESET, TICK
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.testing.suite import open_reference
from lucky_transport.transport import Frame, Stream

#: The policy slots of a robot, and the entity of agent_0's.
TROT, SWAY = 1, 2
ROBOT = m.EntityId(1_000_000)

#: Method by request; of several that take the same, the last.
UNARY = {row.request: row for row in METHODS if row.stream is None}


class Robots:
    """An engine and a client of it. Actions default to zeros: stand still."""

    def __init__(self, num_envs: int, options: dict[str, Any], variant: str = "quadruped") -> None:
        self.engine: Any = make_engine(f"mujoco:{variant}", num_envs, **options)
        self._ends = ExitStack()
        self.client = self._ends.enter_context(open_reference(self.engine))
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

    def ask(self, request: Any) -> Any:
        """Call the one method that takes such a request."""
        return self.client.call(UNARY[type(request)], request)

    def change(self, request: Any) -> None:
        """Call the one method that takes such a request; it must be done."""
        answer = self.ask(request)
        assert answer.success, answer.message

    def camera(self, name: str = "front", **changes: Any) -> Any:
        """Return the request that changes this camera's configuration so."""
        config = self.ask(m.GetCameraConfigRequest(name=name)).config
        return m.SetCameraConfigRequest(name=name, config=replace(config, **changes))

    def beams(self, **changes: Any) -> Any:
        """Return the request that changes the beam layout of lidar 0 so."""
        config = asdict(self.call("LidarService/GetLidarConfig", m.LidarSensorRequest(0)))
        wanted = {item.name for item in fields(m.SetLidarConfigRequest)}
        return m.SetLidarConfigRequest(**{key: value for key, value in config.items() if key in wanted} | changes)

    def returns(self, **changes: Any) -> Any:
        """Return the request that changes the lidar's return model so; what tells "not given" from 0 is not given."""
        present = asdict(self.ask(m.GetLidarReturnParamsRequest()))
        needed = {item.name for item in fields(m.SetLidarReturnParamsRequest) if item.default is not None}
        given: dict[str, Any] = {name: value for name, value in present.items() if name in needed}
        return m.SetLidarReturnParamsRequest(**given | changes)

    def state(self) -> Any:
        """Ask for the whole state of the shown world."""
        return self.ask(m.GetFullStateRequest(True, True, True)).state

    def still(self) -> Robots:
        """Put the robots into the standing pose, without noise and without commands."""
        self.randomize()
        self.reset()
        return self

    def activate(self, slot: int, env: int = 0, *, active: bool = True, joints: Sequence[str] = ()) -> None:
        """Activate a slot of an env's robot, or the contrary, driving these joints only where some are named."""
        robot = m.EntityId(ROBOT.id + env)
        if joints:
            self.change(m.SetPolicyDrivenJointsRequest(robot, slot, list(joints)))
        self.change(m.SetPolicyActiveRequest(robot, slot, active))

    def command(self, slot: int, number: int, value: float) -> None:
        """Set a float command of agent_0's robot."""
        self.change(m.SetPolicyCommandFloatRequest(ROBOT, slot, number, value))

    def last_action(self, slot: int) -> Any:
        """Ask for the last action of a policy of agent_0's robot."""
        return self.ask(m.GetPolicyLastActionRequest(ROBOT, slot))

    def randomize(self, **contract: Any) -> Any:
        """Send a SimulationContract of these fields."""
        return self.call("BatchService/SetResetOptions", m.SetResetOptionsRequest(m.SimulationContract(**contract)))

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
        self._ends.close()


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


@pytest.fixture
def single(robots: Callable[..., Robots]) -> Robots:
    """One robot."""
    return robots(1)


@pytest.fixture
def standing(single: Robots) -> Robots:
    """One robot in the standing pose, without noise and without commands."""
    return single.still()


@pytest.fixture
def pair(robots: Callable[..., Robots]) -> Robots:
    """Two robots."""
    return robots(2)
