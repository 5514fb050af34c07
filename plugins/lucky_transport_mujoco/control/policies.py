"""The policies that slots can hold, `trot` and `sway`, and the kinematics of the legs they move.

They are analytic and without state or random numbers, so runs repeat bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


def leg_angles(feet: _Array) -> _Array:
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


#: Joint offset of an action of 1: half a radian reaches any gait and no joint limit.
ACTION_SCALE_RAD = 0.5


@dataclass(frozen=True, slots=True)
class Sense:
    """What a policy sees of its robot. seconds: since it began. commands: by name.

    lin_vel, ang_vel, gravity: float64 (3,), base frame. joints, joint_home: float64 (12,), where they are and the
    standing pose.
    """

    seconds: float
    commands: Mapping[str, float]
    lin_vel: _Array
    ang_vel: _Array
    gravity: _Array
    joints: _Array
    joint_home: _Array


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy: which joints it drives (indices), its commands, the observation terms it reads and its function.

    commands: the values they begin with, by name; the first has id 1. One that begins with a bool is a bool. A value is
    kept as set; the policy limits it. `act` returns float64 (12,), joint angles in radians; those of other joints do
    not count.
    """

    policy_id: str
    joints: tuple[int, ...]
    commands: Mapping[str, float]
    observations: tuple[str, ...]
    act: Callable[[Sense], _Array]

    @property
    def descriptor_path(self) -> str:
        """The path by which slots are given this policy."""
        return f"policies/quadruped_{self.policy_id}.policy"


def to_units(joints: _Array, joint_home: _Array) -> NDArray[np.float32]:
    """Return joint angles as actions: float32, units of `ACTION_SCALE_RAD` from the standing pose."""
    return ((joints - joint_home) / ACTION_SCALE_RAD).astype(np.float32)


def _limited(sense: Sense, name: str, least: float, most: float) -> float:
    return float(np.clip(sense.commands[name], least, most))


def _levelling(sense: Sense) -> _Array:
    """Return how much longer each leg must be, float64 (4,) in metres, to bring a tilted trunk back to level."""
    return 0.5 * (HIPS[:, 0] * sense.gravity[0] + HIPS[:, 1] * sense.gravity[1])


def _feet(height: float | _Array) -> _Array:
    """Return feet straight below their hips, float64 (4, 3)."""
    feet = np.zeros((4, 3))
    feet[:, 2] = -height
    return feet


_PERIOD_S = 0.4
_LIFT_M = 0.06
#: What is added to the forward speed, because the servos follow late and so push the trunk back.
_LAG_M_S = 0.1


def _trot(sense: Sense) -> _Array:
    """Walk: stance feet go back at the wanted speed, corrected by the speed that is measured."""
    if sense.commands["SetStandStill"]:
        return leg_angles(_feet(STANDING_M + _levelling(sense)))
    forward, left = _LAG_M_S + _limited(sense, "SetVx", -0.6, 0.8), _limited(sense, "SetVy", -0.3, 0.3)
    turning = _limited(sense, "SetYawRate", -1.0, 1.0)
    turning += 0.3 * (turning - float(sense.ang_vel[2]))
    speed = np.empty((4, 2))
    speed[:, 0] = forward + 0.4 * (forward - sense.lin_vel[0]) - turning * HIPS[:, 1]
    speed[:, 1] = left + 0.4 * (left - sense.lin_vel[1]) + turning * HIPS[:, 0]
    phase = (TROT_PHASE + sense.seconds / _PERIOD_S) % 1.0
    feet = swing(phase, 0.5 * _PERIOD_S * speed, _LIFT_M)
    return leg_angles(feet + _feet(STANDING_M + _levelling(sense)))


def _sway(sense: Sense) -> _Array:
    """Lean from side to side in the hips."""
    joints = sense.joint_home.copy()
    if sense.commands["SetEnabled"]:
        swing = 2 * np.pi * _limited(sense, "SetFrequency", 0.0, 3.0) * sense.seconds
        joints[0::3] += _limited(sense, "SetAmplitude", -0.4, 0.4) * np.sin(swing)
    return joints


_BODY = ("base_lin_vel", "base_ang_vel", "projected_gravity")

POLICIES = (
    Policy(
        "trot", tuple(range(12)), {"SetVx": 0.0, "SetVy": 0.0, "SetYawRate": 0.0, "SetStandStill": False}, _BODY, _trot
    ),
    Policy("sway", (0, 3, 6, 9), {"SetAmplitude": 0.2, "SetFrequency": 0.5, "SetEnabled": True}, (), _sway),
)
