"""What the services may see of the engine, and what they keep in it.

A service reads or writes a world between two steps only: in a handler, or inside `call.between_steps()`. What it
changes takes effect in the next step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_mujoco.bindings import Data, Model, mj
from lucky_transport_mujoco.control.controllers import Controllers, Driving, env_of_robot, robot_entity
from lucky_transport_mujoco.physics import Physics
from lucky_transport_mujoco.randomization import Randomization
from lucky_transport_mujoco.robot import Robot
from lucky_transport_mujoco.tasks.velocity import Task

__all__ = ["SHOWN", "MujocoWorlds", "env_of_robot", "robot_entity"]  # entity ids: see controllers.py

#: The env whose world the scene, cameras and viewport show; per-robot methods reach every env.
SHOWN = 0


class MujocoWorlds:
    """The worlds of a batch, one per env.

    ctrl: float64 (num_envs, nu), the actuators' controls (position targets in radians) as last set. actions: float32
    (num_envs, nu), as last taken. frames: int64 (num_envs,), control steps since the engine started. agent_drives: bool
    (num_envs,), the last step came with actions from outside, so an agent owns the robot: until a step without, a
    reset, or a change of the driver. commands: float64 (num_envs, 3), the commanded velocity of the task. All change
    with the next step.

    simulation_mode: 0 realtime, 1 deterministic, 2 fast. playing: the scene is in play mode. drawings: what debug
    drawing keeps. None of these changes what is simulated.

    controllers: the robots' policies and motion graphs. driving: what moves a robot without actions.
    """

    def __init__(
        self,
        spec: BatchSpec,
        task: Task,
        robot: Robot,
        physics: Physics,
        randomization: Randomization,
        commands: NDArray[np.float64],
    ) -> None:
        self.spec = spec
        self.task = task
        self.robot = robot
        self.physics = physics
        self.randomization = randomization
        self.commands = commands
        self.controllers = Controllers(robot, randomization)
        self.driving = Driving(robot, physics, self.controllers)
        self.num_envs = spec.num_envs
        self.ctrl = np.tile(robot.joint_home, (spec.num_envs, 1))
        self.actions = np.zeros((spec.num_envs, robot.nu), np.float32)
        self.frames = np.zeros(spec.num_envs, np.int64)
        self.agent_drives = np.zeros(spec.num_envs, np.bool_)
        self.simulation_mode = 1
        self.playing = True
        self.drawings: list[Any] = []
        self._scratch: Data | None = None

    def model_of(self, env: int = SHOWN) -> Model:
        """Return the `mujoco.MjModel` that `env` is simulated with at present; not to be written to."""
        return self.physics.models[env]

    def qpos(self, env: int = SHOWN) -> NDArray[np.float64]:
        """Return float64 (nq,), live; writing to it moves the robot."""
        return self.physics.qpos[env]

    def qvel(self, env: int = SHOWN) -> NDArray[np.float64]:
        """Return float64 (nv,), live; writing to it changes the velocities."""
        return self.physics.qvel[env]

    def time(self, env: int = SHOWN) -> float:
        """Return the simulated seconds of `env`."""
        return float(self.physics.times[env])

    def frame_number(self, env: int = SHOWN) -> int:
        """Return the number of control steps of `env` since the engine started; a reset ticks, and so counts too."""
        return int(self.frames[env])

    def data_of(self, env: int = SHOWN) -> Data:
        """Return a `mujoco.MjData` in the present state of `env`, positions of all bodies, cameras and lights computed;
        the next call overwrites it.
        """
        model = self.model_of(env)
        if self._scratch is None:
            self._scratch = mj.MjData(model)
        data: Data = self._scratch
        data.time = self.time(env)
        data.qpos[:] = self.qpos(env)
        data.qvel[:] = self.qvel(env)
        data.ctrl[:] = self.ctrl[env]
        mj.mj_kinematics(model, data)
        mj.mj_comPos(model, data)
        mj.mj_camlight(model, data)
        return data
