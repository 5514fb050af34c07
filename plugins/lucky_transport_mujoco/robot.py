"""The robot as compiled from its MJCF: names, sizes, limits and the pose it stands in.

The compiled model is shared by all envs and never written to after `load`; code that varies it copies it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.bindings import Model, mj

NAME = "quadruped"

#: Physics steps per control step: 4 x 5 ms = 50 Hz, what quadruped policies run at.
SUBSTEPS = 4

_FULL_PHYSICS = mj.mjtState.mjSTATE_FULLPHYSICS


@dataclass(frozen=True, slots=True)
class Robot:
    """The compiled model and what follows from it.

    home: float64 (nstate,), the standing pose as MuJoCo's full physics state: time, qpos, qvel. joint_home: float64
    (nu,), the actuated joints of it. joint_low, joint_high: float64 (nu,), their limits in radians. step_s: seconds of
    one control step.
    """

    model: Model
    home: NDArray[np.float64]
    joint_home: NDArray[np.float64]
    joint_low: NDArray[np.float64]
    joint_high: NDArray[np.float64]
    joint_names: tuple[str, ...]
    actuator_names: tuple[str, ...]
    body_names: tuple[str, ...]
    sensor_names: tuple[str, ...]
    step_s: float

    @property
    def nq(self) -> int:
        """Generalised positions: base position (3), base orientation w x y z (4), joint angles."""
        return int(self.model.nq)

    @property
    def nv(self) -> int:
        """Generalised velocities: base linear (3, world), base angular (3, base), joint velocities."""
        return int(self.model.nv)

    @property
    def nu(self) -> int:
        """Actuators, one per joint and in the joints' order."""
        return int(self.model.nu)


def _names(model: Model, kind: object, count: int) -> tuple[str, ...]:
    return tuple(mj.mj_id2name(model, kind, index) for index in range(count))


@cache
def load() -> Robot:
    """Return the robot; compiled once per process."""
    text = files("lucky_transport_mujoco").joinpath("quadruped.xml").read_text(encoding="utf-8")
    model = mj.MjModel.from_xml_string(text)
    _let_frames_move(model)
    terrain.write_bumps(model)
    terrain.put_under(model, terrain.FLAT, 0.0)
    data = mj.MjData(model)
    mj.mj_resetDataKeyframe(model, data, mj.mj_name2id(model, mj.mjtObj.mjOBJ_KEY, "home"))
    home = np.empty(mj.mj_stateSize(model, _FULL_PHYSICS))
    mj.mj_getState(model, data, home, _FULL_PHYSICS)
    if home.size != 1 + model.nq + model.nv:
        raise RuntimeError(f"{NAME}: physics state of {home.size} numbers, expected time, qpos and qvel only")
    hinges = slice(1, model.njnt)  # joint 0 is the free joint of the base
    return Robot(
        model=model,
        home=home,
        joint_home=data.qpos[7:].copy(),
        joint_low=model.jnt_range[hinges, 0].copy(),
        joint_high=model.jnt_range[hinges, 1].copy(),
        joint_names=_names(model, mj.mjtObj.mjOBJ_JOINT, model.njnt)[hinges],
        actuator_names=_names(model, mj.mjtObj.mjOBJ_ACTUATOR, model.nu),
        body_names=_names(model, mj.mjtObj.mjOBJ_BODY, model.nbody)[1:],
        sensor_names=_names(model, mj.mjtObj.mjOBJ_SENSOR, model.nsensor),
        step_s=float(model.opt.timestep) * SUBSTEPS,
    )


def _let_frames_move(model: Model) -> None:
    """Make MuJoCo read the frames that randomisation moves.

    The compiler marks frames that coincide with their body's ("sameframe"), and the engine then skips them: a tilted
    floor or a shifted centre of mass would have no effect. MuJoCo 4 corrects the marks itself, MuJoCo 3 does not.
    """
    for body in (0, mj.mj_name2id(model, mj.mjtObj.mjOBJ_BODY, "trunk")):
        model.body_sameframe[body] = 0
        model.geom_sameframe[model.geom_bodyid == body] = 0
        model.site_sameframe[model.site_bodyid == body] = 0
