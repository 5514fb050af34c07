"""The motion graph of a robot: poses and small moves that play while no policy and no agent drives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import MotionGraphInputValue, Vec3
from lucky_transport_mujoco.control import gait
from lucky_transport_mujoco.control.gait import Ease

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
_STEPS_HZ = 1.5
_PHASE = np.array([0.0, 0.5, 0.5, 0.0])


def _initial() -> dict[int, MotionGraphInputValue]:
    return {
        CROUCH: MotionGraphInputValue(float_val=0.0),
        ALERT: MotionGraphInputValue(bool_val=False),
        GAIT: MotionGraphInputValue(int_val=0),
        LEAN: MotionGraphInputValue(vec3_val=Vec3()),
        BOW: MotionGraphInputValue(trigger=False),
    }


@dataclass(slots=True)
class MotionGraph:
    """One robot's graph. inputs: by id, kept while the graph is inactive; a reset leaves them and ends a bow."""

    ease: Ease
    active: bool = False
    inputs: dict[int, MotionGraphInputValue] = field(default_factory=_initial)
    _bow_began_s: float = -1.0

    def fire(self) -> None:
        """Pull the trigger: the bow begins with the next tick."""
        self.inputs[BOW] = MotionGraphInputValue(trigger=True)

    def begin(self) -> None:
        """Begin anew from the pose the robot has by then."""
        self.ease.begin()
        self._bow_began_s = -1.0
        self.inputs[BOW] = MotionGraphInputValue(trigger=False)

    def pose(self) -> NDArray[np.float64]:
        """Return the joint angles wanted now, float64 (12,); a pulled trigger begins its bow."""
        seconds, inputs = self.ease.seconds, self.inputs
        if inputs[BOW].trigger and self._bow_began_s < 0:
            self._bow_began_s = seconds
        height = gait.STANDING_M - 0.1 * float(np.clip(inputs[CROUCH].float_val or 0.0, 0.0, 1.0))
        if inputs[ALERT].bool_val:
            height += 0.03
        feet = np.zeros((4, 3))
        steps = min(max(inputs[GAIT].int_val or 0, 0), 3)
        if steps:
            feet += gait.swing((_PHASE + _STEPS_HZ * steps * 0.5 * seconds) % 1.0, np.zeros((4, 2)), 0.03)
        lean = inputs[LEAN].vec3_val or Vec3()
        feet -= np.clip([lean.x, lean.y, lean.z], -0.06, 0.06)
        feet[:, 2] -= height
        feet[:2, 2] += 0.08 * self._bowed(seconds)
        return gait.angles(feet)

    def _bowed(self, seconds: float) -> float:
        """Return how deep the bow is now, 0 to 1."""
        if self._bow_began_s < 0:
            return 0.0
        share = (seconds - self._bow_began_s) / _BOW_S
        if share < 1:
            return float(np.sin(np.pi * share))
        self._bow_began_s = -1.0
        self.inputs[BOW] = replace(self.inputs[BOW], trigger=False)
        return 0.0
