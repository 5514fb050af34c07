"""N independent worlds of one robot, advanced together by MuJoCo's thread pool, and their motion seen from the base.

A step starts from a world's state and model alone, so a trajectory depends neither on the number of threads nor on
which worlds are advanced together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import SpecError
from lucky_transport_mujoco.bindings import Rollout, mj
from lucky_transport_mujoco.robot import SUBSTEPS, Robot

#: Speeds (m/s, rad/s) and positions (m) that no sound simulation of this robot reaches. Far below MuJoCo's own limit
#: of 1e10, at which it prints a warning and writes MUJOCO_LOG.TXT into the working directory.
_TOO_FAST = 1e3
FARTHEST_M = 1e6


class Physics:
    """The worlds. `models[i]` is what world i is simulated with: replace it, or write to it if it is the world's own.

    qpos: float64 (num_envs, nq), qvel: float64 (num_envs, nv), views of the state: writing to them moves the robots.
    times: float64 (num_envs,), simulated seconds of each world, a view of the state too.
    torques: float64 (num_envs, nu), what the motors gave in the last physics step, in Nm.
    """

    def __init__(self, robot: Robot, num_envs: int, threads: int = 0) -> None:
        """`threads` 0 takes one per processor this process may use; there are never more threads than processors.

        Raises SpecError for a negative number.
        """
        if threads < 0:
            raise SpecError(f"threads {threads}: expected 0 (one per processor) or more")
        allowed = len(os.sched_getaffinity(0))
        self.threads = min(threads or allowed, os.cpu_count() or 1, num_envs)
        self.models = [robot.model] * num_envs
        self._home = robot.home
        self._limits = np.concatenate([[np.inf], np.full(robot.nq, FARTHEST_M), np.full(robot.nv, _TOO_FAST)])
        self._state = np.tile(robot.home, (num_envs, 1))
        self.times = self._state[:, 0]
        self.qpos = self._state[:, 1 : 1 + robot.nq]
        self.qvel = self._state[:, 1 + robot.nq :]
        self.torques = np.zeros((num_envs, robot.nu))
        self._controls = np.empty((num_envs, SUBSTEPS, robot.nu))
        self._states = np.empty((num_envs, SUBSTEPS, robot.home.size))
        self._sensors = np.empty((num_envs, SUBSTEPS, robot.nu))
        self._data = [mj.MjData(robot.model) for _ in range(self.threads)]
        self._rollout = Rollout(nthread=self.threads if self.threads > 1 else 0)

    def put(self, envs: NDArray[np.intp], qpos: NDArray[np.float64], qvel: NDArray[np.float64]) -> None:
        """Put the robots of `envs` into these states, at time 0."""
        self._state[envs, 0] = 0
        self.qpos[envs] = qpos
        self.qvel[envs] = qvel
        self.torques[envs] = 0

    def advance(self, envs: NDArray[np.intp], targets: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Advance the worlds `envs` (ascending) by one control step towards `targets`, float64 (len(envs), nu).

        Returns bool (len(envs),): which of them diverged. These stand in the home pose again, so that no value that
        is not finite goes any further.
        """
        count = envs.size
        states, sensors = self._states[:count], self._sensors[:count]
        controls = self._controls[:count]
        controls[:] = targets[:, None]
        all_worlds = count == len(self.models)
        self._rollout.rollout(
            self.models if all_worlds else [self.models[env] for env in envs],
            self._data,
            self._state[envs],
            controls,
            skip_checks=True,
            nstep=SUBSTEPS,
            state=states,
            sensordata=sensors,
        )
        last = states[:, -1]
        # NaN counts as diverged, because every comparison with it is False
        diverged: NDArray[np.bool_] = np.logical_not((np.abs(last) < self._limits).all(axis=1))
        self._state[envs] = last
        self.torques[envs] = sensors[:, -1]
        if diverged.any():
            lost = envs[diverged]
            self._state[lost] = self._home
            self.torques[lost] = 0
        return diverged

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()


_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Motion:
    """The motion of k robots seen from their bases; all float64.

    lin_vel (k, 3) in m/s, ang_vel (k, 3) in rad/s, gravity (k, 3) as unit vector: all in the base's frame. joint_pos
    (k, nu) in radians from the standing pose, joint_vel (k, nu) in rad/s. height (k,): of the base above the ground's
    plane, in metres.
    """

    lin_vel: _Array
    ang_vel: _Array
    gravity: _Array
    joint_pos: _Array
    joint_vel: _Array
    height: _Array

    @classmethod
    def of(cls, qpos: _Array, qvel: _Array, joint_home: _Array, slope: _Array) -> Motion:
        """Return the motion in states qpos (k, nq), qvel (k, nv) on grounds of these slopes (k,) in radians."""
        quat = qpos[:, 3:7]
        return cls(
            lin_vel=rotated_back(quat, qvel[:, :3]),
            ang_vel=qvel[:, 3:6],
            gravity=_down(quat),
            joint_pos=qpos[:, 7:] - joint_home,
            joint_vel=qvel[:, 6:],
            height=np.cos(slope) * qpos[:, 2] - np.sin(slope) * qpos[:, 0],
        )


def _cross(a: _Array, b: _Array) -> _Array:
    """`np.cross` row by row, without its 20 us of dispatch."""
    out = np.empty(a.shape)
    out[:, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
    out[:, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
    out[:, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return out


def rotated_back(quat: _Array, vector: _Array) -> _Array:
    """Return the world's vectors (k, 3) in the frames that unit quaternions (k, 4; w x y z) turn the world into."""
    axis = quat[:, 1:]
    twice = 2 * _cross(axis, vector)
    return vector - quat[:, :1] * twice + _cross(axis, twice)


def _down(quat: _Array) -> _Array:
    """Return the world's downward unit vector in the frames of `quat` (k, 4): minus the last row of their matrices."""
    w, x, y, z = quat.T
    out = np.empty((w.size, 3))
    out[:, 0] = 2 * (w * y - x * z)
    out[:, 1] = -2 * (y * z + w * x)
    out[:, 2] = 2 * (x * x + y * y) - 1
    return out


def rotation(vector: _Array) -> _Array:
    """Return the unit quaternions (k, 4) that turn about `vector` (k, 3) by its length in radians."""
    angle = np.sqrt((vector * vector).sum(axis=1))
    out = np.empty((angle.size, 4))
    out[:, 0] = np.cos(0.5 * angle)
    out[:, 1:] = vector * (0.5 * np.sinc(angle / (2 * np.pi)))[:, None]  # sin(a/2)/a, also at a = 0
    return out


def product(a: _Array, b: _Array) -> _Array:
    """Return the quaternions (k, 4) that turn by `b` and then by `a`."""
    out = np.empty(a.shape)
    out[:, 0] = a[:, 0] * b[:, 0] - (a[:, 1:] * b[:, 1:]).sum(axis=1)
    out[:, 1:] = a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + _cross(a[:, 1:], b[:, 1:])
    return out
