"""MuJoCo's Python bindings.

Their compiled parts ship no type stubs; this module is the only one that has to know, and the only one that imports
mujoco. `mj` is the package itself.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import mujoco
from mujoco.rollout import Rollout

__all__ = ["Data", "Model", "Rollout", "mj"]

mj: Any = mujoco

#: `mujoco.MjModel` and `mujoco.MjData`.
Model: TypeAlias = Any
Data: TypeAlias = Any
