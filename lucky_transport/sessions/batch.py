"""Worlds as a lock-step batch: `WorldsEngine` makes an engine of any `Worlds` that can show a world as a row.

`BatchRow` and `EpisodeSeeds` are the same for `SessionTransport`, so both give the same frames bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, TICK, Buffers, Engine, Handler
from lucky_transport.engine_options import answer_seeds, requested_options
from lucky_transport.errors import SpecError
from lucky_transport.foreign_code import run_unwaited
from lucky_transport.messages import (
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SetSeedsResponse,
)
from lucky_transport.sessions.recording import WorldFactory
from lucky_transport.spec.batch_spec import BatchSpec, total_reward
from lucky_transport.world import World, WorldBatch, WorldProgress, Worlds

#: An odd number far from any small one: seeds next to each other stay apart in all their episodes.
_STRIDE = 0x1E3779B97F4A7C15
_SEEDS = 1 << 62


class WorldsEngine(Engine):
    """An engine of `num_envs` worlds; env i is seeded with seed + i.

    attributes: what `VectorEnv.get_attr` returns.
    Raises SpecError when the worlds have no `batch`, or do not know `map_name` or an option.
    """

    def __init__(
        self,
        worlds: Worlds,
        name: str,
        num_envs: int = 1,
        *,
        seed: int = 0,
        map_name: str = "",
        options: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec = batch_spec(worlds, name, num_envs, attributes or {})
        self._worlds = worlds
        self._batch = batch_of(worlds, name)
        self._factory = WorldFactory(worlds, name, map_name, options or {})
        self._seeds = EpisodeSeeds(seed, num_envs)
        self._current: list[World | None] = [None] * num_envs
        self._rows: list[BatchRow] = []

    @property
    def worlds(self) -> Worlds:
        return self._worlds

    @property
    def services(self) -> Mapping[str, Handler]:
        prefix = "/lucky_transport.v1.BatchService/"
        return {prefix + "SetSeeds": self._seeds.set, prefix + "SetResetOptions": self._set_reset_options}

    def bind(self, buffers: Buffers) -> None:
        scores = [row.score for row in self._rows]
        self._rows = [BatchRow(self._batch, buffers, env) for env in range(self.spec.num_envs)]
        for row, score in zip(self._rows, scores, strict=False):
            row.score = score

    def step(self, control: NDArray[np.uint8] | None) -> None:
        for env, row in enumerate(self._rows):
            command = 0 if control is None else int(control[env])
            if not command & HOLD:
                self._step_one(env, row, command)

    def close(self) -> None:
        worlds, self._current = self._current, []
        for world in worlds:
            if world is not None:
                run_unwaited("close of a world", world.close)

    def _step_one(self, env: int, row: BatchRow, command: int) -> None:
        world = self._current[env]
        if command & RESET or world is None:
            world = self._reset(env)
            row.write_first(world.observe(), world)
            if command & RESET:
                return
        if world.is_over:
            row.write(world.observe(), world)
            return
        if not command & TICK:
            world.act(row.actions())
        for _ in range(self._batch.ticks_per_step):
            world.tick()
            if world.is_over:
                break
        row.write(world.observe(), world)

    def _reset(self, env: int) -> World:
        seed = self._seeds.following(env)
        world = self._current[env]
        if world is not None and world.restart(seed):
            return world
        if world is not None:
            self._current[env] = None
            run_unwaited("close of a world", world.close)
        self._current[env] = world = self._factory.make(seed)
        return world

    def _set_reset_options(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        """Set the options of worlds created from now on; a world that restarts in place keeps its own."""
        given, known = requested_options(request) or {}, self._worlds.options
        given = {name: value for name, value in given.items() if known is None or name in known}
        options = self._factory.options | given
        self._factory = WorldFactory(self._worlds, self.spec.engine, self._factory.map_name, options)
        return SetResetOptionsResponse(True)


def batch_spec(worlds: Worlds, name: str, num_envs: int, attributes: Mapping[str, Any]) -> BatchSpec:
    """Return the spec of a batch of worlds. Raises SpecError when they have no `batch`."""
    batch = batch_of(worlds, name)
    return BatchSpec(
        engine=name,
        num_envs=num_envs,
        observation=batch.observation,
        action=batch.action,
        observation_parts=batch.observation_parts,
        action_parts=batch.action_parts,
        info_parts=batch.info_parts,
        reward_terms=batch.reward_terms,
        termination_terms=batch.termination_terms,
        timeout_terms=batch.timeout_terms,
        step_s=worlds.tick_s * batch.ticks_per_step,
        attributes=attributes,
    )


def batch_of(worlds: Worlds, name: str) -> WorldBatch:
    """Return how the worlds of an engine of that name are rows; raises SpecError when they cannot be."""
    if worlds.batch is None:
        raise SpecError(f"the worlds of engine {name!r} cannot be rows of a batch", hint="use its sessions")
    return worlds.batch


class BatchRow:
    """Row `env` of `buffers`. score: that of the last frame; the next frame's gain counts from it.

    The reward is the sum of the row's reward terms, and terminated and truncated follow from its termination terms: a
    world cannot report one thing in its terms and another in its flags.
    """

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
        """Return the action messages that this row of actions stands for."""
        return self._batch.actions(self._action[0])

    def write_first(self, message: Any, progress: WorldProgress) -> None:
        """Write the first frame of an episode: no reward, no flags."""
        self.score = progress.score
        self._batch.write(message, progress, 0.0, self._row, self._signals)
        self._signals[:] = 0
        self._publish()

    def write(self, message: Any, progress: WorldProgress) -> None:
        """Write the frame after a step."""
        gained, self.score = progress.score - self.score, progress.score
        self._batch.write(message, progress, gained, self._row, self._signals)
        self._publish()

    def _publish(self) -> None:
        buffers, env, signals = self._buffers, self._env, self._signals
        num_rewards = len(self._batch.reward_terms)
        ends = signals[num_rewards:] != 0
        buffers.signals[:, env] = signals[:, None]
        buffers.rewards[env] = total_reward(signals[:num_rewards, None], num_rewards)
        buffers.terminated[env] = ends[self._terminating].any()
        buffers.truncated[env] = ends[self._truncating].any()


class EpisodeSeeds:
    """The seed of each episode: env i begins with `seed` + i, and each further seed follows from that one."""

    def __init__(self, seed: int, num_envs: int) -> None:
        self._seeds = [seed + env for env in range(num_envs)]
        self._episodes = [0] * num_envs

    def following(self, env: int) -> int:
        """Return the seed, 0 to 2**62 - 1, of the next episode of an env."""
        episode = self._episodes[env]
        self._episodes[env] += 1
        return (self._seeds[env] + episode * _STRIDE) % _SEEDS

    def set(self, request: SetSeedsRequest) -> SetSeedsResponse:
        """Start over with other seeds from the next episode on."""
        return answer_seeds(request, len(self._seeds), self._take)

    def _take(self, seeds: dict[int, int]) -> None:
        for env, seed in seeds.items():
            self._seeds[env], self._episodes[env] = seed, 0
