"""The toy engine with observations, actions and infos of many kinds: it tests how a transport carries parts.

    observation["point"]             float32 (obs_size,)    the point itself
    observation["camera"]["left"]    uint8 (4, 6, 3)        an image as bright as the point's first element
    observation["camera"]["right"]   uint8 (4, 6, 3)        its negative
    observation["arms"]              float64 (2,), MultiBinary(3), Discrete(4)      the last action
    action["push"]                   float32 (act_size,)    as the toy's
    action["gears"]                  MultiDiscrete([2, 3]), action["buttons"] MultiBinary(3), action["mode"] Discrete(4)
    info["distance"]                 float32                from the middle; info["clock"]["ticks"] int64 since a reset

Points, rewards and episodes are those of the toy engine. `make_engine` makes it and all other toys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler, StreamHandler
from lucky_transport.engine_options import check_options, option_names, unknown_variant
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport.spec.composite import Part, Record, pack

_IMAGE = ArraySpec("uint8", (4, 6, 3))
_BUTTONS = ArraySpec("int8", (3,), 0, 1, kind="MultiBinary")
_MODE = ArraySpec("int64", (), 0, 3, n=4)
_INFOS = (Part(("distance",), ArraySpec("float32")), Part(("clock", "ticks"), ArraySpec("int64")))


class CompositeToyEngine(Engine):
    """A toy engine with composite spaces; `options` are those of `ToyEngine`."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        self._toy = ToyEngine(num_envs, **options)
        self._inner = Buffers.allocate(self._toy.spec)
        self._toy.bind(self._inner)
        self.spec = _spec(self._toy.spec)
        self._shown = Record((*self.spec.observation_parts, *self.spec.info_parts), self.spec.observation.size)
        self._taken = Record(self.spec.action_parts, self.spec.action.size)
        self._ticks = np.zeros(num_envs, np.int64)
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        return self._toy.services

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return self._toy.streams

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        actions = self._taken.views(self._buffers.actions)
        self._inner.actions[:] = actions[("push",)] + np.float32(0.1) * actions[("gears",)].sum(axis=1)[:, None]
        self._toy.step(control)
        reset = np.zeros(self.spec.num_envs, np.bool_) if control is None else (control & RESET) != 0
        moved = np.ones(self.spec.num_envs, np.bool_) if control is None else (control & HOLD) == 0
        self._ticks[moved] += 1
        self._ticks[reset] = 0
        self._show(moved, actions, reset)

    def _show(self, moved: NDArray[np.bool_], actions: Mapping[Any, NDArray[Any]], reset: NDArray[np.bool_]) -> None:
        """Write the rows of the envs that moved; the action of a reset env is not shown."""
        inner, outer = self._inner, self._buffers
        for name in ("rewards", "terminated", "truncated"):
            getattr(outer, name)[moved] = getattr(inner, name)[moved]
        outer.signals[:, moved] = inner.signals[:, moved]
        point = inner.observations
        light = np.clip((point[:, 0] + 1) * 127, 0, 255).astype(np.uint8)
        shown = {
            name: np.where(_like(reset, actions[name,]), 0, actions[name,]) for name in ("gears", "buttons", "mode")
        }
        values: dict[Any, Any] = {
            ("point",): point,
            ("camera", "left"): light[:, None, None, None],
            ("camera", "right"): (255 - light)[:, None, None, None],
            ("arms", 0): shown["gears"] * 0.5,
            ("arms", 1): shown["buttons"],
            ("arms", 2): shown["mode"],
            ("distance",): np.abs(point[:, 0]),
            ("clock", "ticks"): self._ticks,
        }
        for path, array in self._shown.views(outer.observations).items():
            mask = _like(moved, array)
            np.copyto(array, values[path], where=mask, casting="same_kind")

    def close(self) -> None:
        self._toy.close()


def _like(mask: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of envs with as many axes as `array`."""
    return mask.reshape(-1, *(1,) * (array.ndim - 1))


def _spec(toy: BatchSpec) -> BatchSpec:
    parts = (
        Part(("point",), toy.observation),
        Part(("camera", "left"), _IMAGE),
        Part(("camera", "right"), _IMAGE),
        Part(("arms", 0), ArraySpec("float64", (2,), 0.0, 1.0)),
        Part(("arms", 1), _BUTTONS),
        Part(("arms", 2), _MODE),
    )
    gears = ArraySpec("int64", (2,), 0, [1, 2], kind="MultiDiscrete")
    pushes = (
        Part(("push",), toy.action),
        Part(("gears",), gears),
        Part(("buttons",), _BUTTONS),
        Part(("mode",), _MODE),
    )
    observation, observation_parts, info_parts = pack(parts, _INFOS)
    action, action_parts, _ = pack(pushes)
    return replace(
        toy,
        observation=observation,
        action=action,
        observation_names=(),
        action_names=(),
        observation_parts=observation_parts,
        action_parts=action_parts,
        info_parts=info_parts,
    )


def make_engine(variant: str = "", num_envs: int = 1, **options: Any) -> Engine:
    """Return a toy engine; `variant` is "" or "idle" or "copy" (the benchmark engines), or "composite" for one whose
    observations and actions have parts.
    """
    if variant not in ("", "idle", "copy", "composite"):
        raise unknown_variant("toy", variant, ("idle", "copy", "composite"))
    check_options("toy", options, option_names(ToyEngine))
    if variant in ("idle", "copy"):
        options.update(idle=True, copy_frame=variant == "copy")
    try:
        return CompositeToyEngine(num_envs, **options) if variant == "composite" else ToyEngine(num_envs, **options)
    except TypeError as error:
        raise SpecError(f"toy engine: {error}", hint="see ToyEngine for its options") from error
