"""A pole on a cart, balanced by pushes to the left or right, with optional wind.

Physics after Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control
problems" (1983): explicit Euler steps of 20 ms. A world is over when the pole leans by more than 12 degrees, when the
cart is further than 2.4 m from the middle, or after `max_ticks`.

All values are Python floats, so that equal seeds and commands give equal bits everywhere; only a batch's row is rounded
to float32. Wind is a function of seed and tick alone: neither commands nor restarts of other worlds shift it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine_options import check_numbers, check_options, unknown_variant
from lucky_transport.messages.scalars import F64
from lucky_transport.sessions.batch import WorldsEngine
from lucky_transport.spec.batch_spec import ArraySpec
from lucky_transport.world import World, WorldBatch, WorldProgress, Worlds

_GRAVITY = 9.8  # m/s2
_POLE_KG = 0.1
_TOTAL_KG = 1.0 + _POLE_KG
_HALF_POLE_M = 0.5
_PUSH_N = 10.0
_TICK_S = 0.02
_TRACK_M = 2.4
_LEAN_RAD = math.radians(12)
_START = 0.05  # the start values are drawn from [-_START, _START]
_MAX_TICKS = 500


@dataclass(slots=True)
class CartPoleCommand:
    """A push of 10 N for one tick, to the right or else to the left."""

    move_right: bool = False


@dataclass(slots=True)
class CartPoleState:
    """Cart: m and m/s from the middle of the track, right positive. Pole: rad and rad/s from upright, clockwise
    positive. score: ticks that the pole was up.
    """

    cart_position: F64 = 0.0
    cart_velocity: F64 = 0.0
    pole_angle: F64 = 0.0
    pole_angular_velocity: F64 = 0.0
    score: F64 = 0.0


class CartPoleWorld(World):
    """One cart. initial_angle: rad, None draws the whole start from the seed. wind: the strongest gust, in N."""

    def __init__(
        self,
        seed: int | None = None,
        *,
        initial_angle: float | None = None,
        wind: float = 0.0,
        max_ticks: int = _MAX_TICKS,
    ) -> None:
        self._initial_angle = initial_angle
        self._wind = wind
        self._max_ticks = max_ticks
        self.restart(seed)

    def restart(self, seed: int | None) -> bool:
        self._random = random.Random(seed)
        start = [self._random.uniform(-_START, _START) for _ in range(4)]
        if self._initial_angle is not None:
            start = [0.0, 0.0, self._initial_angle, 0.0]
        self._x, self._v, self._angle, self._spin = start
        self._push = 0.0
        self.ticks, self.is_over, self.result, self.score = 0, False, "", 0.0
        return True

    def act(self, actions: Sequence[CartPoleCommand]) -> None:
        if actions:
            self._push = _PUSH_N if actions[-1].move_right else -_PUSH_N

    def tick(self) -> Sequence[str]:
        force, self._push = self._push, 0.0
        if self._wind:
            force += self._random.uniform(-self._wind, self._wind)
        self._swing(force)
        self.ticks += 1
        if abs(self._angle) > _LEAN_RAD:
            self.result = "fell"
        elif abs(self._x) > _TRACK_M:
            self.result = "left_track"
        else:
            self.score += 1.0
            if self.ticks >= self._max_ticks:
                self.result = "time_out"
        self.is_over = bool(self.result)
        return (self.result, "game_over") if self.is_over else ()

    def _swing(self, force: float) -> None:
        """One Euler step under a horizontal force on the cart, in N."""
        sine, cosine = math.sin(self._angle), math.cos(self._angle)
        drive = (force + _POLE_KG * _HALF_POLE_M * self._spin * self._spin * sine) / _TOTAL_KG
        torque = _GRAVITY * sine - cosine * drive
        spin_up = torque / (_HALF_POLE_M * (4.0 / 3.0 - _POLE_KG * cosine * cosine / _TOTAL_KG))
        speed_up = drive - _POLE_KG * _HALF_POLE_M * spin_up * cosine / _TOTAL_KG
        self._x += _TICK_S * self._v
        self._v += _TICK_S * speed_up
        self._angle += _TICK_S * self._spin
        self._spin += _TICK_S * spin_up

    def observe(self) -> CartPoleState:
        return CartPoleState(self._x, self._v, self._angle, self._spin, self.score)


class CartPoleBatch(WorldBatch):
    """A cart as a row: position, velocity, angle, angular velocity; action 0 pushes left, 1 right."""

    observation = ArraySpec("float32", (4,))
    action = ArraySpec("int64", (), 0, 1, 2)
    reward_terms = ("upright",)
    termination_terms = ("fell", "left_track", "time_out")
    timeout_terms = ("time_out",)

    def write(
        self, message: Any, progress: WorldProgress, gained: float, row: NDArray[Any], signals: NDArray[np.float32]
    ) -> None:
        state: CartPoleState = message
        row[:] = (state.cart_position, state.cart_velocity, state.pole_angle, state.pole_angular_velocity)
        signals[0] = gained
        for index, name in enumerate(self.termination_terms, start=1):
            signals[index] = progress.result == name

    def actions(self, row: NDArray[Any]) -> list[Any]:
        return [CartPoleCommand(bool(row))]


#: Option of a world -> what its value may be.
_OPTIONS: dict[str, type] = {"initial_angle": float, "wind": float, "max_ticks": int}


class CartPoleWorlds(Worlds):
    """Carts on a flat track. Options: those of `CartPoleWorld`."""

    maps = ("flat",)
    action = CartPoleCommand
    observation = CartPoleState
    events = ("fell", "left_track", "time_out", "game_over")
    tick_s = _TICK_S
    batch = CartPoleBatch()
    options = tuple(_OPTIONS)

    def check(self, options: Mapping[str, Any]) -> None:
        check_numbers(options, _OPTIONS)

    def create(self, map_name: str, seed: int | None, options: Mapping[str, Any]) -> CartPoleWorld:
        self.check(options)
        return CartPoleWorld(seed, **options)


def make_engine(variant: str = "", num_envs: int = 1, *, seed: int | None = None, **options: Any) -> WorldsEngine:
    """Return an engine of carts; options as for `CartPoleWorlds`. Raises UnknownName, ConfigError, SpecError."""
    if variant:
        raise unknown_variant("cartpole", variant, ())
    check_options("cartpole", options, _OPTIONS)
    return WorldsEngine(CartPoleWorlds(), "cartpole", num_envs, seed=seed or 0, options=options)
