"""Frames by turns in several observation slots, so that the last frame stays readable while the next is written.

An engine that can writes each slot in place (`Engine.bind_slot`); for every other one the host copies the observations
into the slot after the step. A device engine's arrays are written and read in the host's memory for a driver that has
them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, Buffers, Engine


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


@dataclass(frozen=True, slots=True)
class ObservationSlots:
    """A driver's slots. buffers: one per slot, alike but for their observations. turn: the slot of the next frame."""

    buffers: Sequence[Buffers]
    turn: Callable[[], int]


class SlotWriter:
    """Binds an engine to a driver's slots. step: the engine's; the slot whose turn it is shows the frame afterwards."""

    def __init__(self, engine: Engine | OnDemand, slots: ObservationSlots) -> None:
        """The first slot shows the last frame."""
        self._slots = slots.buffers
        self._turn = slots.turn
        self._engine_step = engine.step
        self._bind_slot = engine.bind_slot
        #: Those that show the last frame.
        self.buffers = first = slots.buffers[0]
        engine.bind(first)
        self.step: Callable[[NDArray[np.uint8] | None], None] = self._step_in_place
        if not (_speaks_for_itself(engine) and engine.bind_slot(first)):
            self.buffers = replace(first, observations=first.observations.copy())
            engine.bind(self.buffers)
            self.step = self._step_and_copy

    def _step_in_place(self, control: NDArray[np.uint8] | None) -> None:
        buffers, last = self._slots[self._turn()], self.buffers
        if control is not None and buffers is not last:  # the same after an exchange that gave no frame
            held = (control & HOLD) != 0
            buffers.observations[held] = last.observations[held]
        self._bind_slot(buffers)
        self._engine_step(control)
        self.buffers = buffers

    def _step_and_copy(self, control: NDArray[np.uint8] | None) -> None:
        self._engine_step(control)
        np.copyto(self._slots[self._turn()].observations, self.buffers.observations)


def _speaks_for_itself(engine: Engine | OnDemand) -> bool:
    """True when `bind_slot` knows the engine's `bind` and `step`: those of a subclass may rely on more than it says."""
    if {"bind", "step"} & getattr(engine, "__dict__", {}).keys():
        return False
    for cls in type(engine).__mro__:
        if "bind_slot" in vars(cls):
            return True
        if "bind" in vars(cls) or "step" in vars(cls):
            return False
    return False
