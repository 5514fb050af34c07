"""A device engine's observations in the host's memory: written when somebody reads them there, and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers, Engine

__all__ = ["OnDemand", "always"]


def always() -> bool:
    """Stand for a driver that reads every frame in its buffers."""
    return True


class OnDemand:
    """Steps an engine whose `DeviceObservations` have a `to_host`, in place of the engine itself.

    reads_here: whether the present driver reads observations in its buffers; asked in every step.
    """

    def __init__(self, engine: Engine, to_host: Callable[[NDArray[Any]], object]) -> None:
        self.reads_here: Callable[[], bool] = always
        self._engine = engine
        self._to_host = to_host
        self._is_behind = False  # the bound observations show an older frame than the device

    def bind(self, buffers: Buffers) -> None:
        """Bind the engine; the observations of later frames are written there."""
        self._engine.bind(buffers)
        self._observations = buffers.observations

    def bind_slot(self, buffers: Buffers) -> bool:
        """Take other observations; the engine itself writes none, so it always can."""
        self._observations = buffers.observations
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        """Step the engine, and write the observations where they are read."""
        self._is_behind = True
        self._engine.step(control)
        if self.reads_here():
            self.catch_up()

    def catch_up(self) -> None:
        """Have the bound observations show the last frame."""
        if self._is_behind:
            self._to_host(self._observations)
            self._is_behind = False
