"""Gains that slots put over those of the actuators they claim.

An override counts in the units of the MJCF; the motor strength drawn for the env still scales it, because a weak motor
stays weak whatever its controller asks for. The nominal model is never written to: an env with overrides has a model of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import JointGainOverride
from lucky_transport_mujoco.bindings import Model
from lucky_transport_mujoco.slots import PolicyBinding

__all__ = ["FIELDS", "apply_gains", "problem"]

#: Field of an override -> (least, most, unit).
_LIMITS: dict[str, tuple[float, float, str]] = {
    "kp": (0.0, 1e4, "Nm/rad"),
    "kd": (0.0, 1e3, "Nm s/rad"),
    "effort_limit": (0.0, 1e3, "Nm"),
    "action_scale": (0.0, 10.0, "rad"),
    "default_pos": (-math.pi, math.pi, "rad"),
}

#: The fields of an override that hold numbers.
FIELDS = tuple(_LIMITS)


def problem(override: JointGainOverride) -> str:
    """Return what is wrong with the numbers of an override, "" when nothing is."""
    for name, (least, most, unit) in _LIMITS.items():
        value: float | None = getattr(override, name)
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            return f"{override.joint_name}: {name} {value}, expected {least:g} to {most:g} {unit}"
    return ""


def apply_gains(
    slots: Mapping[int, PolicyBinding],
    claims: NDArray[np.uint32],
    own_model: Callable[[], tuple[Model, NDArray[np.float64]]],
) -> bool:
    """Write the overrides of the joints that each slot drives; returns whether there were any.

    `own_model` gives the env's own model and the strength of its motors; called only if there is something to write.
    """
    wanted = [
        (joint, gain)
        for slot in slots.values()
        for joint, gain in slot.gains.items()
        if claims[joint] == slot.slot_id and not (gain.kp is gain.kd is gain.effort_limit is None)
    ]
    if not wanted:
        return False
    model, strength = own_model()
    for joint, gain in wanted:
        if gain.kp is not None:
            model.actuator_gainprm[joint, 0] = gain.kp * strength[joint]
            model.actuator_biasprm[joint, 1] = -gain.kp * strength[joint]
        if gain.kd is not None:
            model.actuator_biasprm[joint, 2] = -gain.kd * strength[joint]
        if gain.effort_limit is not None:
            limit = gain.effort_limit * strength[joint]
            model.actuator_forcerange[joint] = (-limit, limit)
    return True
