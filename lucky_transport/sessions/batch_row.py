"""One world's row in the buffers of a batch: the same for batches of worlds and batches of sessions.

Rule 1: the reward is the sum of the row's reward terms, terminated and truncated follow from its termination terms; a
        world cannot say one thing in its terms and another in its flags.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lucky_transport.engine import Buffers
from lucky_transport.spec.batch_spec import total_reward
from lucky_transport.world import Standing, WorldBatch

__all__ = ["BatchRow"]


class BatchRow:
    """Row `env` of `buffers`. score: of the last frame, from which the next one's gain is counted."""

    def __init__(self, batch: WorldBatch, buffers: Buffers, env: int) -> None:
        self.score = 0.0
        self._batch = batch
        self._buffers = buffers
        self._env = slice(env, env + 1)
        self._signals = np.zeros(len(batch.reward_terms) + len(batch.termination_terms), np.float32)
        self._row = buffers.observations[env]
        self._action = buffers.actions[env : env + 1]
        truncates = np.array([name in batch.timeout_terms for name in batch.termination_terms], np.bool_)
        self._truncating, self._terminating = np.flatnonzero(truncates), np.flatnonzero(~truncates)

    def actions(self) -> list[Any]:
        """Return the messages that this row of actions stands for."""
        return self._batch.actions(self._action[0])

    def write_first(self, message: Any, standing: Standing) -> None:
        """Write the first frame of an episode: nothing was gained, nothing has ended."""
        self.score = standing.score
        self._batch.write(message, standing, 0.0, self._row, self._signals)
        self._signals[:] = 0
        self._publish()

    def write(self, message: Any, standing: Standing) -> None:
        """Write the frame after a step."""
        gained, self.score = standing.score - self.score, standing.score
        self._batch.write(message, standing, gained, self._row, self._signals)
        self._publish()

    def _publish(self) -> None:
        buffers, env, signals = self._buffers, self._env, self._signals
        num_rewards = len(self._batch.reward_terms)
        ends = signals[num_rewards:] != 0
        buffers.signals[:, env] = signals[:, None]
        buffers.rewards[env] = total_reward(signals[:num_rewards, None], num_rewards)
        buffers.terminated[env] = ends[self._terminating].any()
        buffers.truncated[env] = ends[self._truncating].any()
