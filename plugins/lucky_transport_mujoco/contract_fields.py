"""What a SimulationContract may hold: one row per field with unit, limits and nominal value.

Checking, drawing and the capability manifest read this table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lucky_transport.messages import SimulationContract
from lucky_transport_mujoco import terrain

#: In force until a client sends a contract: enough noise that no two episodes are alike, on nominal physics.
DEFAULTS = SimulationContract(
    joint_position_noise=0.05,
    joint_velocity_noise=0.1,
    vel_command_x_range=[-0.5, 1.0],
    vel_command_y_range=[-0.4, 0.4],
    vel_command_yaw_range=[-0.8, 0.8],
    vel_command_resampling_time_range=[10.0, 10.0],
    vel_command_standing_probability=0.1,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One field of a contract. `kind`: "noise" (standard deviation), "range" ([low, high], uniform) or "value".

    `count` is how many numbers a list holds (0: the field is one number), `least` and `most` its legal values,
    `nominal` what holds when it is not drawn, `target` what it changes in the simulation.
    """

    name: str
    kind: str
    count: int
    least: float
    most: float
    unit: str
    nominal: float
    target: str
    summary: str


#: A contract replaces the one before as a whole. What it leaves empty or 0 is not drawn and stays nominal; only a
#: velocity command is always drawn: its empty ranges mean those of `DEFAULTS`.
QUANTITIES: tuple[Quantity, ...] = tuple(
    Quantity(*row)
    for row in (
        ("pose_position_noise", "noise", 3, 0, 1, "m", 0, "qpos[0:3]", "base position; upwards only along z"),
        ("pose_orientation_noise", "noise", 0, 0, 1, "rad", 0, "qpos[3:7]", "base orientation, about each axis"),
        ("joint_position_noise", "noise", 0, 0, 1, "rad", 0, "qpos[7:]", "joint angles, within their limits"),
        ("joint_velocity_noise", "noise", 0, 0, 20, "rad/s", 0, "qvel[6:]", "joint velocities"),
        ("friction_range", "range", 2, 0, 5, "coefficient", 1, "geom_friction", "sliding friction of all contacts"),
        ("restitution_range", "range", 2, 0, 0.95, "coefficient", 0, "geom_solref", "bounce of all contacts"),
        ("mass_scale_range", "range", 2, 0.2, 5, "factor", 1, "body_mass", "mass and inertia of the whole robot"),
        ("com_offset_range", "range", 2, -0.2, 0.2, "m", 0, "body_ipos", "centre of mass of the trunk, per axis"),
        ("motor_strength_range", "range", 2, 0, 3, "factor", 1, "actuator_gainprm", "gain and torque limit, per motor"),
        ("motor_offset_range", "range", 2, -0.5, 0.5, "rad", 0, "ctrl", "error of the position target, per motor"),
        ("push_interval_range", "range", 2, 0.02, 1e4, "s", 0, "qvel[0:2]", "time between two pushes"),
        ("push_velocity_range", "range", 2, -5, 5, "m/s", 0, "qvel[0:2]", "speed a push adds, in any direction"),
        ("terrain_difficulty", "value", 0, 0, 1, "", 0, "hfield_size, geom_quat", "height of bumps, angle of slope"),
        ("vel_command_x_range", "range", 2, -5, 5, "m/s", 0, "velocity_command", "commanded forward velocity"),
        ("vel_command_y_range", "range", 2, -5, 5, "m/s", 0, "velocity_command", "commanded velocity to the left"),
        ("vel_command_yaw_range", "range", 2, -10, 10, "rad/s", 0, "velocity_command", "commanded turning rate"),
        ("vel_command_resampling_time_range", "range", 2, 0.02, 1e4, "s", 0, "velocity_command", "time of one command"),
        ("vel_command_standing_probability", "value", 0, 0, 1, "", 0, "velocity_command", "share of commands to stand"),
    )
)

#: Relative room at a limit: 0.2 as float32 is 0.2000000030.
_ROUNDING = 1e-6


def rounded(contract: SimulationContract) -> SimulationContract:
    """Return a copy of `contract` with every number as float32, so that it means the same with and without a wire."""
    changes: dict[str, Any] = {}
    for item in fields(contract):
        value = getattr(contract, item.name)
        if isinstance(value, list):
            changes[item.name] = [float(np.float32(number)) for number in value]
        elif not isinstance(value, str):
            changes[item.name] = float(np.float32(value))
    return replace(contract, **changes)


def findings(contract: SimulationContract) -> list[str]:
    """Return everything that is wrong with `contract`, a sentence each with field, value and what is expected."""
    found = [text for quantity in QUANTITIES if (text := _finding(quantity, getattr(contract, quantity.name)))]
    if bool(contract.push_interval_range) != bool(contract.push_velocity_range):
        found.append(
            f"push_interval_range {contract.push_interval_range} and push_velocity_range "
            f"{contract.push_velocity_range}: a push needs both"
        )
    if terrain.index(contract.terrain_type) < 0:
        found.append(f"terrain_type {contract.terrain_type!r}: this engine has {', '.join(terrain.NAMES)}")
    return found


def _finding(quantity: Quantity, value: float | Sequence[float]) -> str:
    values = list(value) if isinstance(value, Sequence) else [value]
    name, unit = quantity.name, f" {quantity.unit}" if quantity.unit else ""
    if quantity.count and len(values) not in (0, quantity.count):
        shape = "[low, high]" if quantity.kind == "range" else f"{quantity.count} numbers"
        return f"{name} {values}: expected {shape}, or an empty list"
    least, most = quantity.least - _ROUNDING * abs(quantity.least), quantity.most + _ROUNDING * abs(quantity.most)
    if not all(math.isfinite(v) and least <= v <= most for v in values):
        return f"{name} {value}: expected numbers from {quantity.least:g} to {quantity.most:g}{unit}"
    if quantity.kind == "range" and values and values[0] > values[1]:
        return f"{name} {values}: low exceeds high; swap them"
    return ""
