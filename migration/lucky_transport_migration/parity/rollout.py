"""A seeded user of an env: random actions, and now and then a reset of all, of one or of some envs, with seeds, with
options, with both or with neither.

A move depends on the seed, the spec and which envs ended, never on a clock or a transport, so every member of a
comparison makes the same moves. Some envs are driven wildly (their actions keep pushing one way, beyond the bounds,
until the episode terminates) and some gently, so that episodes also live until they are truncated. The first episodes
are all gentle and run to the engine's time limit, so that all envs end in one step, if that is in the first quarter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import Path, arrays

_WILD = 3.0  # times the bounds: far enough outside to prove that such actions pass
_GENTLE = 0.1
_PUSH_STEPS = 25  # a push lasts so long before its direction is drawn anew
_RESETS_PER_RUN = 24
_REPEATS = 10  # every so many steps the actions are those of the step before
_KINDS: tuple[Literal["all", "one", "some"], ...] = ("one", "all", "some")
#: Added to seeds, in turn: a seed has 64 bits. Those of the first turn are 0.
_SEEDS = (0, 2**16, 2**32, 2**63)
#: After so many resets seeds come again, others between them.
_SEEDS_AGAIN = 12
#: How steps are made, in turn, every second one: see `step_answers`.
WAYS = ("async", "call", "float64", "beside", "in place", "strided", "foreign order", "whole numbers", "list", "thread")
#: What resets bring, in turn: whether seeds, whether options.
_EXTRAS = ((True, False), (False, True), (True, True), (False, False))


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One call of a user: a step with `actions`, or a reset of `mask` (bool (num_envs,)), perhaps with a `seed`, one or
    one per env, and `options`. way: how a step is made, "" = by `step`.

    `actions` are (num_envs, *action shape), packed where they have parts, by the way "float64" of that dtype
    or float16, and within the bounds where they are written in place: nobody looks at them then.
    """

    kind: Literal["step", "all", "one", "some"]
    actions: NDArray[Any]
    mask: NDArray[np.bool_]
    seed: int | list[int | None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    way: str = ""


class RolloutPlan:
    """Makes `steps` steps' worth of moves; the first one is a reset of all envs. options: whether resets have some.
    takes: what else they have, of `invalid_use.TAKEN`. ways: how steps are made, beside `step`.
    """

    def __init__(
        self,
        spec: BatchSpec,
        seed: int,
        steps: int,
        *,
        resets: bool = True,
        options: bool = False,
        takes: Collection[str] = (),
        ways: Collection[str] = (),
    ) -> None:
        self._spec = spec
        self._random = np.random.default_rng(seed)
        self._gap = max(2, steps // _RESETS_PER_RUN)
        limit = spec.attributes.get("max_episode_steps")
        self._together = limit + 3 if isinstance(limit, int) and (limit + 3) * 4 <= steps else 0
        self._resets = resets
        self._has_options = options
        self._takes = takes
        is_float = np.dtype(spec.action.dtype).kind == "f"
        self._ways = [way for way in ways if not spec.action_parts and (is_float or way != "float64")]
        self._steps = steps
        self._count = 0
        self._until_reset = 0
        self._nth_reset = 0
        self._seed = seed
        self._directions: dict[Path, NDArray[np.float64]] = {}
        self._all = np.ones(spec.num_envs, np.bool_)
        self._last: NDArray[Any] = np.empty(0, np.void)

    def next(self) -> RolloutStep:
        """Return the next move."""
        if self._nth_reset == 0:
            self._nth_reset, self._until_reset = 1, max(self._gap, self._together)
            return RolloutStep("all", self._actions(), self._all)
        if self._resets and self._until_reset == 0:
            gap = self._gap // (1 + self._reaches_all)
            self._until_reset = 1 + int(self._random.integers(gap // 2, gap + 1))
            return self._reset()
        self._until_reset -= 1
        way = self._ways[self._count // 2 % len(self._ways)] if self._ways and self._count % 2 else ""
        actions = self._actions(("float64", "float16")[self._count // 40 % 2] if way == "float64" else None)
        if self._count % _REPEATS == 0 and actions.dtype == self._last.dtype:
            actions = self._last.copy()
        self._last = actions
        if way == "in place" and actions.dtype.kind == "f":
            actions = np.clip(actions, *_float_range(self._spec.action), dtype=actions.dtype)
        return RolloutStep("step", actions, self._all, way=way)

    @property
    def _reaches_all(self) -> bool:
        """False between the first quarter and the last eighth: resets spare the upper half, so that some time out."""
        return self._count * 4 < self._steps or self._count * 8 >= self._steps * 7

    def _reset(self) -> RolloutStep:
        """Reset one, some or all, each in turn with nothing, a seed, options and both."""
        number, n = self._nth_reset, self._spec.num_envs
        self._nth_reset += 1
        kind = _KINDS[(number - 1) % len(_KINDS)]
        with_seed, with_options = _EXTRAS[(number - 1) // len(_KINDS) % len(_EXTRAS)]
        nth = (number - 1) % _SEEDS_AGAIN + (kind != "some")  # some envs have the seed of all again
        large = _SEEDS[nth % len(_SEEDS)]
        first = (self._seed + nth + (large if "large seeds" in self._takes else 0)) * bool(large)
        seed: int | list[int | None] | None = first if with_seed else None
        if with_seed and with_options:
            seed = [first if env % 2 == 0 else None for env in range(n)]
        options = self._options(number) if with_options else {}
        if kind == "all" and (self._reaches_all or n == 1):
            return RolloutStep("all", self._actions(), self._all, seed, options)
        mask = np.zeros(n, np.bool_)
        reach = n if self._reaches_all else max(1, n // 2)
        mask[self._random.integers(reach)] = True
        if kind == "one" or reach == 1:
            return RolloutStep("one", self._actions(), mask, seed, options)
        mask[:reach] |= self._random.random(reach) < 0.4
        return RolloutStep("some", self._actions(), mask, seed, options)

    def _options(self, number: int) -> dict[str, Any]:
        is_wide = number % 2 == 1 and "a wide contract" in self._takes
        noise = round(float(self._random.uniform(0.06, 0.3) if is_wide else self._random.uniform(0.01, 0.05)), 4)
        contract: dict[str, Any] = {"randomization": {"joint_position_noise": noise}} if self._has_options else {}
        is_other = number % 4 > 1 and "other options" in self._takes
        return {"noise": noise} if is_other else contract

    def _actions(self, dtype: str | None = None) -> NDArray[Any]:
        """Return one batch of actions, in the spec's dtype by default."""
        self._count += 1
        spec = self._spec
        actions = np.zeros(spec.action_shape, dtype or spec.action.dtype)
        for path, array, values in arrays(actions, spec.action, spec.action_parts):
            if values.dtype.kind == "f":
                values[...] = self._floats(path, array)
            else:
                values[...] = self._random.integers(*_integer_range(array), values.shape, endpoint=True)
        return actions

    def _floats(self, path: Path, array: ArraySpec) -> NDArray[np.float64]:
        n = self._spec.num_envs
        low, high = _float_range(array)
        column = (n, *(1,) * len(array.shape))
        if self._count % _PUSH_STEPS == 1:
            self._directions[path] = self._random.choice((-1.0, 1.0), column)
        wild = np.arange(n) % 2 == 0
        if n == 1:
            wild = np.array([self._count * 2 < self._steps])
        wild &= self._count > self._together
        amplitude = np.where(wild, _WILD, _GENTLE).reshape(column)
        unit = self._random.uniform(-1, 1, (n, *array.shape))
        unit = 0.5 * self._directions[path] * wild.reshape(column) + 0.5 * unit
        return (low + high) / 2 + unit * amplitude * (high - low) / 2


def _float_range(spec: ArraySpec) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds as arrays; an infinite one counts as 1 away from zero."""
    low = np.full(spec.shape, -1.0) if spec.low is None else np.broadcast_to(np.asarray(spec.low, float), spec.shape)
    high = np.full(spec.shape, 1.0) if spec.high is None else np.broadcast_to(np.asarray(spec.high, float), spec.shape)
    return np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)


def _integer_range(spec: ArraySpec) -> tuple[Any, Any]:
    """Return the inclusive bounds; integers stay inside them, since a discrete engine has no answer to others."""
    kind = np.dtype(spec.dtype)
    floor, ceiling = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    low = np.broadcast_to(np.asarray(floor if spec.low is None else spec.low), spec.shape)
    high = np.broadcast_to(np.asarray(ceiling if spec.high is None else spec.high), spec.shape)
    return low, high
