"""MuJoCo's Python bindings, imported here only: their compiled parts ship no type stubs."""

from __future__ import annotations

from typing import Any, TypeAlias

import mujoco
from mujoco.rollout import Rollout

__all__ = ["Data", "Model", "Rollout", "mj"]

mj: Any = mujoco

#: `mujoco.MjModel` and `mujoco.MjData`.
Model: TypeAlias = Any
Data: TypeAlias = Any
