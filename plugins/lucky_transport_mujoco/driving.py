"""What moves a robot in a step that brings no actions for it.

From strong to weak, per joint: actions of a group set for this step (`action_groups`), the slot that claims it, the
motion graph, a control set by hand (`Held`), and at last the engine's default, a zero.

A step with actions is exactly what these say, whatever is active here: training is never changed by a slot. Everything
here ends up as an action, in the engine's units, and takes the same way from there on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.controllers import Controller, Controllers
from lucky_transport_mujoco.motion import Motion
from lucky_transport_mujoco.physics import Physics
from lucky_transport_mujoco.policies import Sense, to_units
from lucky_transport_mujoco.robot import Robot

__all__ = ["Driving", "Held"]


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
    """Fills the actions of envs that have none."""

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
