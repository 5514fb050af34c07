"""Envs stepped on their own, as `VectorEnv.send` and `recv` do it: autoreset, and batches of those that ended.

The rules are those of `step`, env by env. What `step` does for the whole batch is done here for the rows of a batch of
`k` envs, by the same code with a spec of `k` envs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from lucky_transport.deadline import Deadline
from lucky_transport.engine import RESET, Buffers
from lucky_transport.env.autoreset import NotSteppable, state_error
from lucky_transport.env.composite import CompositeActions, Preparation, preparation
from lucky_transport.env.results import RewardFunction, StepResults
from lucky_transport.errors import TransportError
from lucky_transport.independent import SentEnvs, batch_of
from lucky_transport.transport import Frame, Transport

__all__ = ["AsyncSteps", "EnvBatch"]

#: For so many sizes of batches the names of the info and the like are kept.
_SIZES = 64


class EnvBatch(NamedTuple):
    """What `recv` returns: a row for each env that ended its step. All arrays are copies and belong to the caller.

    env_ids: int32 (k,), ascending. observations: spec dtype (k, *shape), nested where the spec has parts. rewards:
    float32 (k,). terminated, truncated: bool (k,). info: as of `step`, with columns (k,).
    """

    env_ids: NDArray[np.int32]
    observations: Any
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    info: dict[str, Any]


class AsyncSteps:
    """The envs under way of one env. ended: bool (num_envs,), those that wait for their reset."""

    def __init__(
        self,
        transport: Transport,
        mode: AutoresetMode,
        neutral_actions: NDArray[Any],
        *,
        reward_fn: RewardFunction | None,
        strict: bool,
    ) -> None:
        spec = transport.spec
        self._transport, self._spec, self._mode = transport, spec, mode
        self._neutral = neutral_actions
        self.ended = np.zeros(spec.num_envs, np.bool_)
        self.out_of_bounds = 0  # of parts of actions
        self._sent = SentEnvs(spec, transport.name)
        self._ready = np.zeros(spec.num_envs, np.bool_)  # received from the transport, and not returned yet
        self._stepped = np.zeros(spec.num_envs, np.bool_)  # by what was sent last; False: reset
        self._last = np.zeros(spec.num_envs, np.bool_)  # SAME_STEP: `_lasts` has the row of the episode's end
        self._lasts = Buffers.allocate(spec)

        def of_rows(rows: int) -> tuple[Preparation | None, CompositeActions | None, StepResults]:
            few = batch_of(spec, rows)
            composite = CompositeActions(few, None, strict=strict) if spec.action_parts else None
            results = StepResults(few, copy=bool(spec.observation_parts), reward_fn=reward_fn)
            return preparation(few, composite, strict=strict), composite, results

        self._of_rows: Callable[[int], tuple[Preparation | None, CompositeActions | None, StepResults]]
        self._of_rows = lru_cache(_SIZES)(of_rows)

    @property
    def under_way(self) -> int:
        """How many envs were sent and not returned."""
        return self._sent.count

    @property
    def is_whole(self) -> bool:
        """True while each env under way is still to come."""
        return self._transport.envs_under_way + np.count_nonzero(self._ready) == self._sent.count

    def check_least(self, least: int) -> None:
        """Raise SpecError and LocalProtocolError as `recv` does."""
        self._sent.check_least(least)

    def send(self, actions: Any, env_ids: ArrayLike | None) -> None:
        """Begin a step of these envs, a reset of those that ended where the mode says so; see `VectorEnv.send`."""
        ids = self._sent.check_ids(env_ids)
        waiting = self.ended[ids]
        if self._mode is AutoresetMode.DISABLED and waiting.any():
            among = np.zeros_like(self.ended)
            among[ids] = waiting
            raise state_error("send", NotSteppable.ENDED, among, backend=self._transport.name)
        prepare, composite, _ = self._of_rows(ids.size)
        prepared = actions if prepare is None else prepare(actions)
        self._transport.send_envs(prepared, ids, waiting.astype(np.uint8) * np.uint8(RESET))
        if composite is not None:
            self.out_of_bounds += composite.out_of_bounds
            composite.out_of_bounds = 0
        self._sent.mask[ids] = True
        self._stepped[ids] = ~waiting
        self.ended[ids] = False

    def recv(self, least: int, deadline: Deadline | None) -> EnvBatch:
        """Return the envs that ended their steps, at least so many of those under way; see `VectorEnv.recv`."""
        while (missing := least - int(np.count_nonzero(self._ready))) > 0:
            self._take(*self._transport.recv_envs(missing, deadline))
        ids = np.flatnonzero(self._ready).astype(np.int32)
        self._ready[ids] = self._sent.mask[ids] = False
        return self._batch(ids)

    def _take(self, ids: NDArray[np.int32], frame: Frame) -> None:
        """Have these envs ready, but for those that SAME_STEP resets first: their last rows are kept."""
        if self._mode is AutoresetMode.SAME_STEP and not self._spec.resets_itself:
            ended = ids[((frame.terminated[ids] | frame.truncated[ids]) != 0) & ~self._last[ids]]
            if ended.size:
                _copy_rows(frame, self._lasts, ended)
                self._last[ended] = True
                codes = np.full(ended.size, RESET, np.uint8)
                self._transport.send_envs(self._neutral[ended], ended, codes)
                ids = np.setdiff1d(ids, ended)
        self._ready[ids] = True
        self._shown = frame

    def _batch(self, ids: NDArray[np.int32]) -> EnvBatch:
        results = self._of_rows(ids.size)[2]
        rows = _rows(self._shown, ids)
        last = self._last[ids]
        lasts = _rows(self._lasts, ids) if last.any() else rows
        for name in ("rewards", "terminated", "truncated"):
            getattr(rows, name)[last] = getattr(lasts, name)[last]
        rows.signals[:, last] = lasts.signals[:, last]
        terminated, truncated = rows.terminated.astype(np.bool_), rows.truncated.astype(np.bool_)
        stepped = self._stepped[ids]
        all_stepped = None if stepped.all() else stepped
        info: dict[str, Any] = results.columns.info(rows.signals, all_stepped)
        if lasts is not rows:
            info |= results.final(lasts, rows.signals, last)
        info |= results.info_parts(rows)
        rewards = results.rewards(rows.rewards, rows.signals, all_stepped)
        if self._mode is not AutoresetMode.SAME_STEP:
            self.ended[ids] = terminated | truncated
        self._last[ids] = False
        return EnvBatch(ids, results.observations(rows), rewards, terminated, truncated, info)

    def drain(self) -> None:
        """Wait until no env is under way; how their steps ended does not matter. Raises PeerTimeout, PeerDied."""
        while left := self._transport.envs_under_way:
            try:
                self._transport.recv_envs(left)
            except TransportError:  # of an env that failed, else nothing was received
                if self._transport.envs_under_way == left:
                    raise
        for mask in (self._sent.mask, self._ready, self._last, self.ended):
            mask[:] = False


def _rows(frame: Frame | Buffers, ids: NDArray[np.int32]) -> Frame:
    """Return copies of these rows."""
    return Frame(
        frame.observations[ids],
        frame.rewards[ids],
        frame.terminated[ids],
        frame.truncated[ids],
        frame.signals[:, ids],
    )


def _copy_rows(frame: Frame, to: Buffers, ids: NDArray[np.int32]) -> None:
    for name in ("observations", "rewards", "terminated", "truncated"):
        getattr(to, name)[ids] = getattr(frame, name)[ids]
    to.signals[:, ids] = frame.signals[:, ids]
