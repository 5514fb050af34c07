"""What a SimulationContract may hold, and what is drawn by it at a reset: physical parameters and the starting state.

One row per field has unit, limits and nominal value; checking, drawing and the capability manifest read it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.messages import SimulationContract
from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import Data, Model, mj
from lucky_transport_mujoco.physics import Physics, product, rotation
from lucky_transport_mujoco.robot import Robot

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


#: The body that carries everything else; body 0 is the world.
_TRUNK = 1


@dataclass(frozen=True, slots=True)
class Parameters:
    """The physical parameters of each env, one row per env, written at its reset.

    friction, restitution: float64 (n,), coefficients. mass_scale: float64 (n,), factor. com_offset: float64 (n, 3),
    metres. motor_strength: float64 (n, nu), factor. motor_offset: float64 (n, nu), radians. terrain: int8 (n,), index
    into `terrain.NAMES`. difficulty: float64 (n,).
    """

    friction: NDArray[np.float64]
    restitution: NDArray[np.float64]
    mass_scale: NDArray[np.float64]
    com_offset: NDArray[np.float64]
    motor_strength: NDArray[np.float64]
    motor_offset: NDArray[np.float64]
    terrain: NDArray[np.int8]
    difficulty: NDArray[np.float64]

    @classmethod
    def nominal(cls, num_envs: int, nu: int) -> Parameters:
        """Return the parameters of the model as it is."""
        return cls(
            friction=np.ones(num_envs),
            restitution=np.zeros(num_envs),
            mass_scale=np.ones(num_envs),
            com_offset=np.zeros((num_envs, 3)),
            motor_strength=np.ones((num_envs, nu)),
            motor_offset=np.zeros((num_envs, nu)),
            terrain=np.zeros(num_envs, np.int8),
            difficulty=np.zeros(num_envs),
        )

    def in_nominal_model(self, envs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return bool (len(envs),): whose parameters the nominal model has (motor offsets are not in a model)."""
        return (
            (self.friction[envs] == 1)
            & (self.restitution[envs] == 0)
            & (self.mass_scale[envs] == 1)
            & (self.com_offset[envs] == 0).all(axis=1)
            & (self.motor_strength[envs] == 1).all(axis=1)
            & (self.terrain[envs] == terrain.FLAT)
        )


def between(limits: Sequence[float], uniform: NDArray[np.float64], nominal: float) -> NDArray[np.float64]:
    """Return `uniform` in [0, 1) stretched over [low, high]; `nominal` everywhere when there are no limits."""
    if not limits:
        return np.full(uniform.shape, nominal)
    low, high = limits
    return low + (high - low) * uniform


class Randomization:
    """Draws parameters and starting states into the physics. `contract` holds from the next resets on.

    Parameters are drawn from nominal values, never from the last episode's. Every reset takes the same amount of random
    numbers, so a contract changes the size of what is drawn, not the sequence. An env has a model of its own (90 kB,
    half a millisecond) from its first reset that changes the physics; until then it shares the nominal one.
    """

    def __init__(self, robot: Robot, physics: Physics, streams: RandomStreams, contract: SimulationContract) -> None:
        num_envs = len(physics.models)
        self.contract = contract
        self.parameters = Parameters.nominal(num_envs, robot.nu)
        self._robot = robot
        self._physics = physics
        self._streams = streams
        self._own: dict[int, Model] = {}
        self._scratch: Data | None = None

    def reset(self, envs: NDArray[np.intp]) -> None:
        """Give `envs` new parameters and put their robots into new starting states."""
        nu = self._robot.nu
        self._draw_parameters(envs, self._streams.uniform(envs, 6 + 2 * nu))
        nominal = self.parameters.in_nominal_model(envs)
        for env, shared in zip(envs, nominal, strict=True):
            self._physics.models[env] = self._robot.model if shared else self._own_model(int(env))
        self._draw_state(envs, self._streams.normal(envs, 6 + 2 * nu))

    def restore(self, env: int) -> None:
        """Simulate `env` with its parameters again, and with nothing else that was put over them."""
        shared = bool(self.parameters.in_nominal_model(np.array([env]))[0])
        self._physics.models[env] = self._robot.model if shared else self._own_model(env)

    def own_model(self, env: int) -> tuple[Model, NDArray[np.float64]]:
        """Give `env` a model of its own, with its parameters and nothing else in it.

        Returns the model, to be written to, and the strength of the env's motors in it, float64 (nu,).
        """
        model = self._physics.models[env] = self._own_model(env)
        return model, self.parameters.motor_strength[env]

    def stand(self, env: int) -> None:
        """Put the robot of `env` into the standing pose on its ground, at rest and at time 0; draws nothing."""
        self._draw_state(np.array([env]), np.zeros((1, 6 + 2 * self._robot.nu)))

    def _draw_parameters(self, envs: NDArray[np.intp], uniform: NDArray[np.float64]) -> None:
        contract, drawn, nu = self.contract, self.parameters, self._robot.nu
        drawn.friction[envs] = between(contract.friction_range, uniform[:, 0], 1)
        drawn.restitution[envs] = between(contract.restitution_range, uniform[:, 1], 0)
        drawn.mass_scale[envs] = between(contract.mass_scale_range, uniform[:, 2], 1)
        drawn.com_offset[envs] = between(contract.com_offset_range, uniform[:, 3:6], 0)
        drawn.motor_strength[envs] = between(contract.motor_strength_range, uniform[:, 6 : 6 + nu], 1)
        drawn.motor_offset[envs] = between(contract.motor_offset_range, uniform[:, 6 + nu :], 0)
        drawn.terrain[envs] = terrain.index(contract.terrain_type)
        drawn.difficulty[envs] = contract.terrain_difficulty

    def _own_model(self, env: int) -> Model:
        """Return the env's own model, with its parameters written to it."""
        base = self._robot.model
        own = self._own.get(env)
        if own is None:
            own = self._own[env] = copy.copy(base)
        drawn = self.parameters
        strength = drawn.motor_strength[env]
        own.geom_friction[:, 0] = base.geom_friction[:, 0] * drawn.friction[env]
        own.geom_solref[:] = _contact(base.geom_solref, float(drawn.restitution[env]))
        own.body_mass[:] = base.body_mass * drawn.mass_scale[env]
        own.body_inertia[:] = base.body_inertia * drawn.mass_scale[env]
        own.body_ipos[_TRUNK] = base.body_ipos[_TRUNK] + drawn.com_offset[env]
        own.actuator_gainprm[:, 0] = base.actuator_gainprm[:, 0] * strength
        own.actuator_biasprm[:, 1:3] = base.actuator_biasprm[:, 1:3] * strength[:, None]
        own.actuator_forcerange[:] = base.actuator_forcerange * strength[:, None]
        terrain.put_under(own, int(drawn.terrain[env]), float(drawn.difficulty[env]))
        if self._scratch is None:
            self._scratch = mj.MjData(base)
        mj.mj_setConst(own, self._scratch)  # masses are also in derived constants, which the solver reads
        return own

    def _draw_state(self, envs: NDArray[np.intp], normal: NDArray[np.float64]) -> None:
        """Put robots into the standing pose plus noise, with all feet above their ground."""
        contract, robot, drawn = self.contract, self._robot, self.parameters
        joints = 6 + robot.nu
        kind, difficulty = drawn.terrain[envs], drawn.difficulty[envs]
        slope = terrain.angle(kind, difficulty)
        place = normal[:, :3] * np.asarray(contract.pose_position_noise or (0.0, 0.0, 0.0))
        height = robot.home[3] + np.abs(place[:, 2]) + terrain.lift(kind, difficulty)
        uphill = np.zeros((envs.size, 3))
        uphill[:, 1] = -slope
        qpos = np.empty((envs.size, robot.nq))
        qpos[:, 0] = np.cos(slope) * place[:, 0] - np.sin(slope) * height
        qpos[:, 1] = place[:, 1]
        qpos[:, 2] = np.sin(slope) * place[:, 0] + np.cos(slope) * height
        qpos[:, 3:7] = product(rotation(uphill), rotation(normal[:, 3:6] * contract.pose_orientation_noise))
        noisy = robot.joint_home + normal[:, 6:joints] * contract.joint_position_noise
        qpos[:, 7:] = np.clip(noisy, robot.joint_low, robot.joint_high)
        qvel = np.zeros((envs.size, robot.nv))
        qvel[:, 6:] = normal[:, joints:] * contract.joint_velocity_noise
        self._physics.put(envs, qpos, qvel)


def _contact(nominal: NDArray[np.float64], restitution: float) -> NDArray[np.float64]:
    """Return the `solref` (time constant, damping ratio) of contacts that give back this part of the impact speed.

    A damped spring with ratio z returns exp(-pi z / sqrt(1 - z^2)). The time constant grows as the ratio shrinks, so
    that the spring stays as stiff as it was: a stiffer one could not be integrated in steps of 5 ms.
    """
    if restitution == 0:
        return nominal
    log = math.log(restitution)
    ratio = -log / math.hypot(math.pi, log)
    return nominal * np.array([1 / ratio, ratio])


class RandomStreams:
    """A generator per env, so that no env changes another's numbers; env i starts with seed + i."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self._generators = [np.random.default_rng(seed + env) for env in range(num_envs)]
        self._planned: dict[int, int] = {}

    def plan(self, env: int, seed: int) -> None:
        """From the next reset of `env` on its numbers follow from `seed`."""
        self._planned[env] = seed

    def begin(self, envs: Iterable[int]) -> None:
        """Start the planned seeds of `envs`, which are being reset."""
        if self._planned:
            for env in envs:
                seed = self._planned.pop(int(env), None)
                if seed is not None:
                    self._generators[env] = np.random.default_rng(seed)

    def uniform(self, envs: NDArray[np.intp], columns: int) -> NDArray[np.float64]:
        """Return float64 (len(envs), columns) in [0, 1), the next numbers of each env's stream."""
        out = np.empty((envs.size, columns))
        for row, env in zip(out, envs, strict=True):
            self._generators[env].random(out=row)
        return out

    def normal(self, envs: NDArray[np.intp], columns: int) -> NDArray[np.float64]:
        """Return float64 (len(envs), columns) of mean 0 and variance 1, the next numbers of each env's stream."""
        out = np.empty((envs.size, columns))
        for row, env in zip(out, envs, strict=True):
            self._generators[env].standard_normal(out=row)
        return out
