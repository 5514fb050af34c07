"""The robot controllers, one per env, their motion graphs, and what moves a robot in a step without actions for it.

A controller costs nothing until a request names it, and nothing in a step until it drives something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import EntityId, MotionGraphInputValue, RobotControllerSummary
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD, STANDING_M, Ease, Sense, leg_angles, to_units
from lucky_transport_mujoco.control.slots import PolicyBinding, claims, new_slots, put_gains
from lucky_transport_mujoco.physics import Motion, Physics
from lucky_transport_mujoco.randomization import Randomization
from lucky_transport_mujoco.robot import Robot

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


CROUCH, BOW = 1, 5

#: The inputs of a graph: id -> (name, fields of a value that it takes, its own first). crouch: 0 to 1. bow: one second
#: long.
INPUTS: dict[int, tuple[str, tuple[str, ...]]] = {
    CROUCH: ("crouch", ("float_val", "int_val")),
    BOW: ("bow", ("trigger",)),
}

_BOW_S = 1.0


@dataclass(slots=True)
class MotionGraph:
    """One robot's graph. crouch: kept while the graph is inactive; a reset leaves it and ends a bow."""

    ease: Ease
    active: bool = False
    crouch: float = 0.0
    _bow_ends_s: float = 0.0

    def value(self, number: int) -> MotionGraphInputValue:
        """Return the value of an input."""
        if number == CROUCH:
            return MotionGraphInputValue(float_val=self.crouch)
        return MotionGraphInputValue(trigger=self._bow_ends_s > self.ease.seconds)

    def fire(self) -> None:
        """Pull the trigger: the bow begins with the next tick."""
        self._bow_ends_s = self.ease.seconds + _BOW_S

    def begin(self) -> None:
        """Begin anew from the pose the robot has by then."""
        self.ease.begin()
        self._bow_ends_s = 0.0

    def pose(self) -> NDArray[np.float64]:
        """Return the joint angles wanted now, float64 (12,)."""
        left = np.clip((self._bow_ends_s - self.ease.seconds) / _BOW_S, 0, 1)
        feet = np.zeros((4, 3))
        feet[:, 2] = 0.1 * np.clip(self.crouch, 0.0, 1.0) - STANDING_M
        feet[:2, 2] += 0.08 * np.sin(np.pi * left)
        return leg_angles(feet)


class Controller:
    """One robot's controller. claims: uint32 (nu,), the slot that drives each joint, 0 where none does."""

    def __init__(self, env: int, robot: Robot) -> None:
        self.env = env
        self.slots: dict[int, PolicyBinding] = new_slots(robot.step_s)
        self.graph = MotionGraph(Ease(robot.step_s))
        self.claims: NDArray[np.uint32] = np.zeros(robot.nu, np.uint32)
        self._robot = robot
        self._watchers: dict[int, deque[RobotControllerSummary]] = {}

    def begin(self) -> None:
        """Let slots and graph begin anew, from the pose the robot has by then."""
        for slot in self.slots.values():
            slot.begin()
        self.graph.begin()

    def summary(self) -> RobotControllerSummary:
        """Describe the controller as it is."""
        slots = [slot.summary(self._robot.joint_names) for slot in self.slots.values()]
        return RobotControllerSummary(EntityId(robot_entity(self.env)), f"agent_{self.env}", self.graph.active, slots)

    def watch(self) -> deque[RobotControllerSummary]:
        """Return what gets a summary after every change from now on, until `unwatch`."""
        watch: deque[RobotControllerSummary] = deque(maxlen=_BACKLOG)
        self._watchers[id(watch)] = watch
        return watch

    def unwatch(self, watch: deque[RobotControllerSummary]) -> None:
        """Tell it of no more changes; from any thread."""
        self._watchers.pop(id(watch), None)

    def refresh(self) -> None:
        """Work out the claims again and tell the watchers."""
        self.claims = claims(self.slots, self._robot.nu)
        for watch in tuple(self._watchers.values()):
            watch.append(self.summary())


class Controllers:
    """The controllers of a batch. driving: envs in which a slot or a motion graph drives a joint."""

    def __init__(self, robot: Robot, randomization: Randomization) -> None:
        self.driving: set[int] = set()
        self._robot = robot
        self._randomization = randomization
        self._known: dict[int, Controller] = {}

    def of(self, env: int) -> Controller:
        """Return the controller of `env`."""
        controller = self._known.get(env)
        if controller is None:  # setdefault: a handler that runs inline may ask at the same time
            controller = self._known.setdefault(env, Controller(env, self._robot))
        return controller

    def changed(self, controller: Controller) -> None:
        """Put the changed claims and gains of `controller` in force and tell its watchers; ends each change."""
        controller.refresh()
        env, drives = controller.env, controller.graph.active or controller.claims.any()
        (self.driving.add if drives else self.driving.discard)(env)
        self._randomization.restore(env)
        self._put_gains(controller)

    def reset(self, envs: Iterable[int]) -> None:
        """`envs` were reset, with new parameters: their policies begin anew, and gains are put over the parameters."""
        for env in envs if self._known else ():
            known = self._known.get(int(env))
            if known is not None:
                known.begin()
                self._put_gains(known)

    def _put_gains(self, controller: Controller) -> None:
        """Write the overrides of the joints that each slot drives into the model of the env."""
        wanted = [
            (joint, gain)
            for slot in controller.slots.values()
            for joint, gain in slot.gains.items()
            if controller.claims[joint] == slot.slot_id and not (gain.kp is gain.kd is gain.effort_limit is None)
        ]
        if wanted:
            model, strength = self._randomization.own_model(controller.env)
            for joint, gain in wanted:
                put_gains(model, joint, gain, float(strength[joint]))


class Driving:
    """Fills the actions of envs that have none.

    From strong to weak, per joint: the slot that claims it, the motion graph, a control set by hand, a zero. All
    of them become actions in the engine's units.
    """

    def __init__(self, robot: Robot, physics: Physics, controllers: Controllers) -> None:
        self._held = np.full((len(physics.models), robot.nu), np.nan, np.float32)  # NaN: nothing
        self._robot = robot
        self._physics = physics
        self._controllers = controllers

    def hold(self, env: int, actuator: int, control: float) -> None:
        """Hold a control, in radians, in steps without actions, until one with actions or a reset."""
        self._held[env, actuator] = (control - self._robot.joint_home[actuator]) / ACTION_SCALE_RAD

    def release(self, envs: NDArray[np.intp]) -> None:
        """Hold nothing any more in these envs."""
        self._held[envs] = np.nan

    def fill(self, env: int, action: NDArray[np.float32], *, takes_over: bool) -> None:
        """Replace `action`, float32 (nu,), by what drives the robot of `env` in this step.

        `takes_over`: an agent drove it until now, so policies begin anew from where the agent left it.
        """
        action[:] = np.nan_to_num(self._held[env])
        if env not in self._controllers.driving:
            return
        controller, sense = self._controllers.of(env), self.sense(env)
        if takes_over:
            controller.begin()
        graph = controller.graph
        if graph.active:
            action[:] = to_units(graph.ease.towards(graph.pose(), sense.joints), sense.joint_home)
            graph.ease.tick(sense.joints)
        for slot in controller.slots.values():
            if slot.active and slot.policy is not None:
                np.copyto(action, slot.run(slot.policy, sense), where=controller.claims == slot.slot_id)

    def sense(self, env: int) -> Sense:
        """Return what a policy of `env` sees now, without time and commands."""
        one, home, physics = slice(env, env + 1), self._robot.joint_home, self._physics
        motion = Motion.of(physics.qpos[one], physics.qvel[one], home, np.zeros(1))
        return Sense(0.0, {}, motion.lin_vel[0], motion.ang_vel[0], motion.gravity[0], physics.qpos[env, 7:], home)
