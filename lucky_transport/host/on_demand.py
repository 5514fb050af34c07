"""A device engine's arrays in the host's memory: written and read there for a driver that has them there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers, Engine


class OnHost:
    """Where a driver reads and writes: here, in its buffers. One that uses device memory overrides both."""

    def begin_step(self) -> bool:
        """Called before each step of the engine; True: the step's actions are in the buffers."""
        return True

    def end_step(self) -> bool:
        """Called after each step, also one that failed; True: the observations are read in the buffers."""
        return True


class OnDemand:
    """Steps an engine with a stream or with device memory that is filled on demand, in place of the engine itself.

    driver: what the present driver does; asked in every step.
    """

    def __init__(self, engine: Engine) -> None:
        self.driver = OnHost()
        self._engine = engine
        observations, actions = engine.device_observations, engine.device_actions
        self._to_host = observations.to_host if observations is not None else None
        self._from_host = actions.from_host if actions is not None else None
        self._is_behind = False  # the bound observations show an older frame than the device

    @staticmethod
    def is_for(engine: Engine) -> bool:
        """True for an engine that has to be stepped in this way."""
        observations = engine.device_observations
        on_demand = observations is not None and observations.to_host is not None
        return on_demand or engine.device_actions is not None or engine.device_stream is not None

    def bind(self, buffers: Buffers) -> None:
        """Bind the engine; later steps use these arrays."""
        self._engine.bind(buffers)
        self._buffers = buffers

    def bind_slot(self, buffers: Buffers) -> bool:
        """Take other observations; False for an engine that writes them itself."""
        if self._to_host is None:
            return False
        self._buffers = buffers
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        """Step the engine, with the actions where it reads them and the observations where they are read."""
        if self.driver.begin_step() and self._from_host is not None:
            self._from_host(self._buffers.actions)
        self._is_behind = True
        try:
            self._engine.step(control)
        finally:
            is_read_here = self.driver.end_step()
        if is_read_here:
            self.catch_up()

    def catch_up(self) -> None:
        """Have the bound observations show the last frame."""
        if self._is_behind and self._to_host is not None:
            self._to_host(self._buffers.observations)
        self._is_behind = False
