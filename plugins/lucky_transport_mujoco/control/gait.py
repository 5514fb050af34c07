"""Leg kinematics and timing of the built-in policies and of the motion graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

#: Length of thigh and of calf, in metres.
_LINK_M = 0.2

#: From hip to foot in the standing pose, in metres: thigh 0.8 rad, calf -1.6 rad.
STANDING_M = 2 * _LINK_M * float(np.cos(0.8))

#: How far a foot can be from its hip, in metres: the calf's limits are 0.6 and 2.7 rad.
_NEAREST_M, _FURTHEST_M = 2 * _LINK_M * float(np.cos(1.34)), 2 * _LINK_M * float(np.cos(0.31))

#: Where the legs are attached, seen from the trunk's centre: float64 (4, 2), x and y of FL, FR, RL, RR in metres.
HIPS: _Array = np.array([[0.18, 0.13], [0.18, -0.13], [-0.18, 0.13], [-0.18, -0.13]])


#: Of a trot: diagonal legs together.
TROT_PHASE: _Array = np.array([0.0, 0.5, 0.5, 0.0])


def angles(feet: _Array) -> _Array:
    """Return the joint angles, float64 (12,), that put the feet (4, 3) there; what is out of reach is pulled closer.

    Angles follow the MJCF: 0 is a leg straight down, hips turn about x, thighs and calves about y. Feet are in metres
    from their hip's pitch axis: x forward, y left, z up (below the hip z is negative).
    """
    x, y, z = feet.T
    roll = np.clip(np.arctan2(y, -z), -0.6, 0.6)
    reach = np.clip(np.sqrt(x * x + z * z), _NEAREST_M, _FURTHEST_M)
    half_knee = np.arccos(reach / (2 * _LINK_M))
    out = np.empty((4, 3))
    out[:, 0] = roll
    out[:, 1] = np.arctan2(-x, -z) + half_knee
    out[:, 2] = -2 * half_knee
    return out.ravel()


def leg_lengths(joints: _Array) -> _Array:
    """Return how far each foot is from its hip at these joint angles (12,): float64 (4,), metres."""
    return 2 * _LINK_M * np.cos(0.5 * joints.reshape(4, 3)[:, 2])


def lifts(knees: _Array) -> _Array:
    """Return how much closer to its hip than in the standing pose each foot is, in metres, at these knee angles."""
    return STANDING_M - 2 * _LINK_M * np.cos(0.5 * knees)


def swing(phase: _Array, stride: _Array, lift_m: float) -> _Array:
    """Return the feet (4, 3), relative to where they stand, of legs in these phases (4,) of a trot, 0 to 1.

    The first half of the phase is on the ground, where the foot goes back by its stride (4, 2); in the second half it
    goes forward through the air, `lift_m` high in the middle.
    """
    along = np.where(phase < 0.5, 0.5 - 2 * phase, -0.5 * np.cos(2 * np.pi * (phase - 0.5)))
    out = np.zeros((4, 3))
    out[:, :2] = along[:, None] * stride
    out[:, 2] = np.where(phase < 0.5, 0.0, lift_m * np.sin(2 * np.pi * (phase - 0.5)))
    return out


#: Seconds within which a joint is brought from where it is to where it is wanted.
_EASE_S = 0.3


class Ease:
    """The clock of a policy or motion graph, and the pose it began with."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._start: NDArray[np.float64] | None = None
        self._ticks = 0

    @property
    def seconds(self) -> float:
        """Simulated seconds since the beginning."""
        return self._ticks * self._step_s

    def begin(self) -> None:
        """Begin anew, with the pose of the next tick."""
        self._start = None
        self._ticks = 0

    def tick(self, found: NDArray[np.float64]) -> None:
        """One step has been driven from the pose `found`."""
        if self._start is None:
            self._start = found.copy()
        self._ticks += 1

    def towards(self, wanted: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the joint angles for this tick, float64 (12,); `found` is the present pose. Changes nothing."""
        start = found if self._start is None else self._start
        share = min(self.seconds / _EASE_S, 1.0)
        return start + share * (wanted - start)
