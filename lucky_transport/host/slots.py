"""Frames by turns in several observation slots, so that the last frame stays readable while the next is written.

An engine that can writes each slot in place (`Engine.bind_slot`); for every other one the host copies the observations
into the slot after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, Buffers, Engine
from lucky_transport.host.on_demand import OnDemand


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
