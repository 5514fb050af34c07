"""The robot controllers, one per env: slots, motion graph, who drives which joint, and who watches.

A controller costs nothing until it is asked for, and nothing in a step until it drives something. A caller that changes
a controller calls `changed`, which puts claims and gains in force and tells the watchers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import EntityId, RobotControllerSummary
from lucky_transport_mujoco.ease import Ease
from lucky_transport_mujoco.gains import apply_gains
from lucky_transport_mujoco.motion_graph import MotionGraph
from lucky_transport_mujoco.randomization import Randomization
from lucky_transport_mujoco.robot import Robot
from lucky_transport_mujoco.slots import PolicyBinding, claims, new_slots

__all__ = ["Controller", "ControllerSubscription", "Controllers", "env_of_robot", "robot_entity"]

#: Entity ids of robots: this, and one more for each env. Other entities have smaller ids.
_FIRST_ROBOT = 1_000_000

#: Changes a watcher may be behind; earlier ones are forgotten.
_BACKLOG = 1024


def robot_entity(env: int) -> int:
    """Return the entity id of the robot of `env`."""
    return _FIRST_ROBOT + env


def env_of_robot(entity: int, num_envs: int) -> int:
    """Return the env of the robot with that entity id, -1 when no robot has it."""
    env = entity - _FIRST_ROBOT
    return env if 0 <= env < num_envs else -1


class ControllerSubscription:
    """The changes of a controller that a watcher has not seen yet."""

    def __init__(self) -> None:
        self._changes: deque[RobotControllerSummary] = deque(maxlen=_BACKLOG)

    def note(self, state: RobotControllerSummary) -> None:
        """The controller has changed to this state."""
        self._changes.append(state)

    def take(self) -> list[RobotControllerSummary]:
        """Return the states since the last call, in order."""
        return [self._changes.popleft() for _ in range(len(self._changes))]


class Controller:
    """One robot's controller. claims: uint32 (nu,), the slot that drives each joint, 0 where none does."""

    def __init__(self, env: int, robot: Robot) -> None:
        self.env = env
        self.slots: dict[int, PolicyBinding] = new_slots(robot.step_s)
        self.graph = MotionGraph(Ease(robot.step_s))
        self.claims: NDArray[np.uint32] = np.zeros(robot.nu, np.uint32)
        self._robot = robot
        self._watchers: set[ControllerSubscription] = set()

    @property
    def drives(self) -> bool:
        """True when a slot or the motion graph drives a joint."""
        return self.graph.active or bool(self.claims.any())

    def begin(self) -> None:
        """Let slots and graph begin anew, from the pose the robot has by then."""
        for slot in self.slots.values():
            slot.begin()
        self.graph.begin()

    def summary(self) -> RobotControllerSummary:
        """Describe the controller as it is."""
        slots = [slot.summary(self._robot.joint_names) for slot in self.slots.values()]
        return RobotControllerSummary(EntityId(robot_entity(self.env)), f"agent_{self.env}", self.graph.active, slots)

    def watch(self) -> ControllerSubscription:
        """Return what gets a summary after every change from now on, until `unwatch`."""
        watch = ControllerSubscription()
        self._watchers.add(watch)
        return watch

    def unwatch(self, watch: ControllerSubscription) -> None:
        """Tell it of no more changes; from any thread."""
        self._watchers.discard(watch)

    def refresh(self) -> None:
        """Work out the claims again and tell the watchers."""
        self.claims = claims(self.slots, self._robot.nu)
        for watch in tuple(self._watchers):
            watch.note(self.summary())


class Controllers:
    """The controllers of a batch. driving: envs in which a slot or a motion graph drives a joint."""

    def __init__(self, robot: Robot, randomization: Randomization, num_envs: int) -> None:
        self.num_envs = num_envs
        self.driving: set[int] = set()
        self._robot = robot
        self._randomization = randomization
        self._known: dict[int, Controller] = {}
        self._with_gains: set[int] = set()

    def of(self, env: int) -> Controller:
        """Return the controller of `env`."""
        controller = self._known.get(env)
        if controller is None:  # setdefault: a handler that runs inline may ask at the same time
            controller = self._known.setdefault(env, Controller(env, self._robot))
        return controller

    def claims(self, env: int) -> NDArray[np.uint32]:
        """Return uint32 (nu,): the id of the slot that drives each joint of `env`, 0 where none does."""
        known = self._known.get(env)
        return np.zeros(self._robot.nu, np.uint32) if known is None else known.claims

    def changed(self, controller: Controller) -> None:
        """Put in force what was changed in `controller`, and tell its watchers."""
        controller.refresh()
        env = controller.env
        (self.driving.add if controller.drives else self.driving.discard)(env)
        self._put_gains(controller)

    def reset(self, envs: Iterable[int]) -> None:
        """`envs` were reset, with new parameters: their policies begin anew, and gains are put over the parameters."""
        if not self._known:
            return
        for env in envs:
            known = self._known.get(int(env))
            if known is not None:
                known.begin()
                self._with_gains.discard(known.env)
                self._put_gains(known)

    def _put_gains(self, controller: Controller) -> None:
        env = controller.env
        if env in self._with_gains:
            self._randomization.restore(env)
            self._with_gains.discard(env)
        if apply_gains(controller.slots, controller.claims, lambda: self._randomization.own_model(env)):
            self._with_gains.add(env)
