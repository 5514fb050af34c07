"""What a step returns, made from a frame: copies or views, rewards, flags and info.

`StepResults` is the reference. A plain step, in which every env stepped and none ended, is most of them: the native
module makes the same arrays and the same info in one call, three times as fast (`PlainResults`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import native
from lucky_transport.env.composite import CompositeObservations
from lucky_transport.env.infos import Info, InfoParts, TermColumns
from lucky_transport.errors import SpecError
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame

#: Computes the reward, float (num_envs,), from the signals: term name -> float32 (num_envs,).
RewardFunction = Callable[[dict[str, NDArray[np.float32]]], NDArray[Any]]

#: What a step returns: observations, rewards, terminated, truncated, info.
StepResult = tuple[Any, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class StepResults:
    """Makes the results of one env's steps. columns: its infos.

    `copy=False` hands observations out as read-only views, valid until the next exchange. `reward_fn` replaces the
    engine's total reward.
    """

    def __init__(self, spec: BatchSpec, *, copy: bool, reward_fn: RewardFunction | None) -> None:
        self.columns = TermColumns(spec)
        self.copies = copy
        self.none_ended = np.zeros(spec.num_envs, np.bool_)
        self._num_envs = spec.num_envs
        self._reward_fn = reward_fn
        self._info_parts = InfoParts(spec) if spec.info_parts else None
        self._composite = CompositeObservations(spec) if spec.observation_parts else None

    @property
    def is_simple(self) -> bool:
        """True when results have no more than arrays of the frame and its terms: nothing nested, no function."""
        return self._reward_fn is None and self._info_parts is None and self._composite is None

    def plain(self, frame: Frame) -> StepResult:
        """Return the result of a step in which every env stepped and none ended."""
        signals = frame.signals.copy()
        info = self.columns.info(signals)
        if self._info_parts is not None:
            info |= self._info_parts.info(frame.observations)
        rewards = self.rewards(frame.rewards.copy(), signals)
        return self.observations(frame), rewards, self.none_ended.copy(), self.none_ended.copy(), info

    def observations(self, frame: Frame) -> Any:
        """Return the frame's observations as the env hands them out: (num_envs, *shape), or nested arrays of such."""
        rows = frame.observations
        if self._composite is not None:
            return self._composite.copy(rows) if self.copies else self._composite.view(rows)
        return rows.copy() if self.copies else rows

    def rewards(
        self, total: NDArray[np.float32], signals: NDArray[np.float32], stepped: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """Return the engine's `total`, or what `reward_fn` returns, 0 for envs that have not `stepped`: (num_envs,).

        Raises SpecError for what is no reward for each env.
        """
        if self._reward_fn is None:
            return total
        # a copy: what the caller's function keeps or changes must not show up in info
        rewards: Any = np.asarray(self._reward_fn(dict(zip(self.columns.names, signals.copy(), strict=True))))
        if rewards.shape != (self._num_envs,) or rewards.dtype.kind not in "fiub":
            raise SpecError(
                f"reward_fn returned {rewards.dtype} {rewards.shape}, expected real numbers of shape "
                f"({self._num_envs},)"
            )
        rewards = np.array(rewards, np.float32)
        if stepped is not None:
            rewards[~stepped] = 0
        return rewards

    def info_parts(self, frame: Frame, valid: NDArray[np.bool_] | None = None) -> Info:
        """Return the info parts in the frame's rows; without a mask all are valid."""
        return Info() if self._info_parts is None else self._info_parts.info(frame.observations, valid)

    def final(self, frame: Frame, signals: NDArray[np.float32], ended: NDArray[np.bool_]) -> dict[str, Any]:
        """Return SAME_STEP's info of how episodes ended; rows without a meaning are zero, as in Gymnasium's own."""
        rows = frame.observations.copy()
        rows[~ended] = 0
        final_info = self.columns.info(signals.copy(), ended)
        if self._info_parts is not None:
            final_info |= self._info_parts.info(rows, ended)
        final = rows if self._composite is None else self._composite.view(rows)
        return {"final_obs": final, "_final_obs": ended, "final_info": final_info, "_final_info": ended}


def plain_results(results: StepResults) -> Callable[[Frame], StepResult]:
    """Return `results.plain`, or what does the same natively where results are simple."""
    if not results.is_simple:
        return results.plain
    columns = results.columns
    return native.PlainResults(Info, columns.shared, tuple(columns.reward_columns), results.copies, results.plain)
