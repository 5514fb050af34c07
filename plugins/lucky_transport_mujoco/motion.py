"""How robots move, seen from their own bases: the quantities that observations, rewards and terminations are made of.

Every function works row by row; a row's result does not depend on the other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Motion", "product", "rotated_back", "rotation"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Motion:
    """The motion of k robots; all float64.

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
