"""An engine whose arrays are not float32: whatever assumes they are fails on it.

Each env is a dial. Action 0 turns it back by a notch, 1 leaves it, 2 turns it on. An episode terminates at the third
notch either way and is truncated after 12 steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward

_LAST_NOTCH = 3
_EPISODE_STEPS = 12


class DialEngine(Engine):
    """Discrete(3) actions; observations uint8 (2, 2): notches back, notches on, step, 255."""

    def __init__(self, num_envs: int = 1) -> None:
        self.spec = BatchSpec(
            engine="dial",
            num_envs=num_envs,
            observation=ArraySpec("uint8", (2, 2)),
            action=ArraySpec("int64", (), 0, 2, n=3),
            reward_terms=("turned",),
            termination_terms=("at_the_end", "time_out"),
            timeout_terms=("time_out",),
        )
        self._notch = np.zeros(num_envs, np.int64)
        self._ticks = np.zeros(num_envs, np.int64)
        self._buffers: Buffers

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def bind_slot(self, buffers: Buffers) -> bool:
        self._buffers = buffers
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if control is None:
            control = np.zeros(self.spec.num_envs, np.uint8)
        reset, stepped = (control & RESET) != 0, (control & (RESET | HOLD)) == 0
        turn = np.where(stepped, self._buffers.actions - 1, 0)
        self._notch = np.where(reset, 0, self._notch + turn)
        self._ticks = np.where(reset, 0, self._ticks + stepped)
        shown = (control & HOLD) == 0
        out = self._buffers
        out.observations[shown, 0, 0] = np.maximum(-self._notch, 0)[shown]
        out.observations[shown, 0, 1] = np.maximum(self._notch, 0)[shown]
        out.observations[shown, 1, 0] = self._ticks[shown]
        out.observations[shown, 1, 1] = 255
        out.signals[0, shown] = turn[shown]
        out.signals[1, shown] = (np.abs(self._notch) >= _LAST_NOTCH)[shown]
        out.signals[2, shown] = (self._ticks >= _EPISODE_STEPS)[shown]
        out.rewards[shown] = total_reward(out.signals, 1)[shown]
        out.terminated[shown] = out.signals[1, shown]
        out.truncated[shown] = out.signals[2, shown]
