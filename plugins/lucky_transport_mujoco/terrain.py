"""The ground: "flat", "rough" (bumps up to 8 cm) or "slope" (uphill along x, up to 15 degrees).

Every model holds all terrains; choosing one changes numbers in it and never recompiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.bindings import Model, mj

NAMES = ("flat", "rough", "slope")
FLAT, ROUGH, SLOPE = range(3)

#: Angle of a slope of difficulty 1, in radians (15 degrees).
_STEEPEST_RAD = 0.26

#: Tallest bump at difficulty 1, in metres; equals the height of "bumps" in the MJCF.
_TALLEST_M = 0.08

#: Bumps are about this many samples wide: 0.8 m, wider than a foot and shorter than the robot's path.
_BUMP_SAMPLES = 4


def index(name: str) -> int:
    """Return the number of the terrain called `name` ("" is flat), or -1 when there is none."""
    return FLAT if not name else NAMES.index(name) if name in NAMES else -1


def geom(model: Model, name: str) -> int:
    """Return the number of the ground's geom called "floor" or "bumps"."""
    return int(mj.mj_name2id(model, mj.mjtObj.mjOBJ_GEOM, name))


def write_bumps(model: Model) -> None:
    """Fill the height field with smooth bumps that end at its border; the same in every process."""
    rows, columns = int(model.hfield_nrow[0]), int(model.hfield_ncol[0])
    coarse = np.random.default_rng(0).random((rows // _BUMP_SAMPLES + 1, columns // _BUMP_SAMPLES + 1))
    coarse[[0, -1]] = 0
    coarse[:, [0, -1]] = 0
    across = np.apply_along_axis(_stretch, 1, coarse, columns)
    model.hfield_data[:] = np.apply_along_axis(_stretch, 0, across, rows).ravel()


def _stretch(line: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.interp(np.linspace(0, line.size - 1, length), np.arange(line.size), line)


def put_under(model: Model, terrain: int, difficulty: float) -> None:
    """Give `model` the ground of that terrain. `difficulty` 0 to 1 scales the bumps or the angle; flat ignores it."""
    floor, bumps = geom(model, "floor"), geom(model, "bumps")
    half = 0.5 * _STEEPEST_RAD * difficulty if terrain == SLOPE else 0.0
    model.geom_quat[floor] = (np.cos(half), 0.0, -np.sin(half), 0.0)
    model.geom_conaffinity[bumps] = model.geom_conaffinity[floor] if terrain == ROUGH else 0
    model.hfield_size[0, 2] = max(_TALLEST_M * difficulty, 1e-4)  # MuJoCo wants a positive height


def angle(terrain: NDArray[np.int8], difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ground's slope in radians: float64 of the same shape, uphill along x."""
    return np.where(terrain == SLOPE, _STEEPEST_RAD * difficulty, 0.0)


def lift(terrain: NDArray[np.int8], difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much higher a robot must start so that no bump is inside it, in metres: float64, same shape."""
    return np.where(terrain == ROUGH, _TALLEST_M * difficulty, 0.0)
