"""The contract of a way to draw, and what comes out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lucky_transport_mujoco.stage import Eye

__all__ = ["RenderResult", "Renderer"]


@dataclass(slots=True)
class RenderResult:
    """Pixels, top row first; what was not asked for is empty.

    colour: uint8 (height, width, 3), RGB. depth: float32 (height, width), metres along the line of sight's axis, inf
    where nothing is.
    """

    colour: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 0, 3), np.uint8))
    depth: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))


class Renderer(ABC):
    """Draws what its stage shows; made, used and closed in one thread. `name` says how, for the log."""

    name: str

    @abstractmethod
    def shoot(self, eye: Eye, width: int, height: int, *, colour: bool, depth: bool) -> RenderResult:
        """Return what `eye` sees, in pixels of the renderer's own: new arrays, never written to again."""

    @abstractmethod
    def close(self) -> None:
        """Release what the renderer holds."""
