"""The robot controllers, one per env, their motion graphs, and what moves a robot in a step without actions for it.

A controller costs nothing until a request names it, and nothing in a step until it drives something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import EntityId, MotionGraphInputValue, RobotControllerSummary, Vec3
from lucky_transport_mujoco.control.policies import STANDING_M, TROT_PHASE, Ease, Sense, leg_angles, swing, to_units
from lucky_transport_mujoco.control.slots import PolicyBinding, apply_gains, claims, new_slots
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


CROUCH, ALERT, GAIT, LEAN, BOW = range(1, 6)

#: Input id -> (name, field of `MotionGraphInputValue` that holds it). crouch: 0 to 1. alert: stands taller. gait: 0
#: none, 1 to 3 steps on the spot, quicker with each. lean: metres by which the trunk is shifted. bow: one second long.
INPUTS: dict[int, tuple[str, str]] = {
    CROUCH: ("crouch", "float_val"),
    ALERT: ("alert", "bool_val"),
    GAIT: ("gait", "int_val"),
    LEAN: ("lean", "vec3_val"),
    BOW: ("bow", "trigger"),
}

_BOW_S = 1.0
_STEPS_HZ = 0.75


def _initial() -> dict[int, MotionGraphInputValue]:
    values = {"float_val": 0.0, "bool_val": False, "int_val": 0, "vec3_val": Vec3(), "trigger": False}
    return {number: MotionGraphInputValue(**{kind: values[kind]}) for number, (_, kind) in INPUTS.items()}


@dataclass(slots=True)
class MotionGraph:
    """One robot's graph. inputs: by id, kept while the graph is inactive; a reset leaves them and ends a bow."""

    ease: Ease
    active: bool = False
    inputs: dict[int, MotionGraphInputValue] = field(default_factory=_initial)
    _bow_ends_s: float = 0.0

    def fire(self) -> None:
        """Pull the trigger: the bow begins with the next tick."""
        self.inputs[BOW] = MotionGraphInputValue(trigger=True)
        self._bow_ends_s = self.ease.seconds + _BOW_S

    def begin(self) -> None:
        """Begin anew from the pose the robot has by then."""
        self.ease.begin()
        self._bow_ends_s = 0.0
        self.inputs[BOW] = MotionGraphInputValue(trigger=False)

    def pose(self) -> NDArray[np.float64]:
        """Return the joint angles wanted now, float64 (12,)."""
        seconds, inputs = self.ease.seconds, self.inputs
        left_s = self._bow_ends_s - seconds
        if left_s <= 0:
            inputs[BOW] = MotionGraphInputValue(trigger=False)
        feet = np.zeros((4, 3))
        steps = min(max(inputs[GAIT].int_val or 0, 0), 3)
        if steps:
            feet += swing((TROT_PHASE + _STEPS_HZ * steps * seconds) % 1.0, np.zeros((4, 2)), 0.03)
        lean = inputs[LEAN].vec3_val or Vec3()
        feet -= np.clip([lean.x, lean.y, lean.z], -0.06, 0.06)
        feet[:, 2] -= STANDING_M + (0.03 if inputs[ALERT].bool_val else 0.0)
        feet[:, 2] += 0.1 * float(np.clip(inputs[CROUCH].float_val or 0.0, 0.0, 1.0))
        feet[:2, 2] += 0.08 * np.sin(np.pi * np.clip(left_s / _BOW_S, 0, 1))
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
        """Put the changed claims and gains of `controller` in force and tell its watchers; ends each change."""
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


class Held:
    """Controls set by hand: they hold in steps without actions, until one with actions or a reset."""

    def __init__(self, num_envs: int, joint_home: NDArray[np.float64]) -> None:
        self._home = joint_home
        self._values = np.zeros((num_envs, joint_home.size), np.float32)
        self._set = np.zeros((num_envs, joint_home.size), np.bool_)
        self._any = False

    def put(self, env: int, actuator: int, control: float) -> None:
        """Hold this control, in radians, for an actuator of `env`."""
        home = self._home[actuator : actuator + 1]
        self._values[env, actuator] = to_units(np.array([control]), home)[0]
        self._set[env, actuator] = True
        self._any = True

    def drop(self, envs: NDArray[np.intp], which: NDArray[np.bool_]) -> None:
        """Hold nothing any more in `envs[which]`."""
        if self._any:
            self._set[envs[which]] = False
            self._any = bool(self._set.any())

    def fill(self, env: int, action: NDArray[np.float32]) -> None:
        """Put what is held for `env` into its action (nu,)."""
        if self._any:
            np.copyto(action, self._values[env], where=self._set[env])


class Driving:
    """Fills the actions of envs that have none.

    From strong to weak, per joint: the slot that claims it, the motion graph, a control set by hand, a zero. All
    of them become actions in the engine's units.
    """

    def __init__(self, robot: Robot, physics: Physics, controllers: Controllers) -> None:
        self.held = Held(len(physics.models), robot.joint_home)
        self._robot = robot
        self._physics = physics
        self._controllers = controllers

    def fill(self, env: int, action: NDArray[np.float32], *, takes_over: bool) -> None:
        """Replace `action`, float32 (nu,), by what drives the robot of `env` in this step.

        `takes_over`: an agent drove it until now, so policies begin anew from where the agent left it.
        """
        action[:] = 0
        self.held.fill(env, action)
        if env in self._controllers.driving:
            controller = self._controllers.of(env)
            if takes_over:
                controller.begin()
            self._drive(controller, action)

    def sense(self, env: int) -> Sense:
        """Return what a policy of `env` sees now, without time and commands."""
        one, robot, physics = slice(env, env + 1), self._robot, self._physics
        motion = Motion.of(physics.qpos[one], physics.qvel[one], robot.joint_home, np.zeros(1))
        return Sense(
            0.0,
            {},
            motion.lin_vel[0],
            motion.ang_vel[0],
            motion.gravity[0],
            motion.joint_pos[0],
            motion.joint_vel[0],
            robot.joint_home,
        )

    def _drive(self, controller: Controller, action: NDArray[np.float32]) -> None:
        sense = self.sense(controller.env)
        graph = controller.graph
        if graph.active:
            found = sense.joint_home + sense.joint_pos
            action[:] = to_units(graph.ease.towards(graph.pose(), found), sense.joint_home)
            graph.ease.tick(found)
        for slot in controller.slots.values():
            if slot.active and slot.policy is not None:
                np.copyto(action, slot.run(slot.policy, sense), where=controller.claims == slot.slot_id)
