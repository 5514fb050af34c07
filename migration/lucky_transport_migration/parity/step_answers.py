"""One move of the policy, made on an env or on a bare transport, and everything that came back as named arrays.

What a user can see is in the answer; a field left out here is a field that parity does not prove.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.spec.batch_spec import BatchSpec, total_reward
from lucky_transport.spec.composite import flat, unpack
from lucky_transport.transport import Frame, Transport
from lucky_transport_migration.compare.arrays import flatten
from lucky_transport_migration.parity.rollout import RolloutStep

__all__ = ["env_answer", "frame_of", "make_move", "reward_gap"]


def make_move(env: VectorEnv, move: RolloutStep) -> tuple[Any, ...]:
    """Return what `step` or `reset` of `env` returned, untouched."""
    if move.kind == "step":
        parts = env.batch_spec.action_parts
        return env.step(unpack(move.actions, parts) if parts else move.actions)
    options = dict(move.options) if move.mask.all() else {"reset_mask": move.mask, **move.options}
    return env.reset(seed=move.seed, options=options or None)


def env_answer(returned: tuple[Any, ...], out_of_bounds: int) -> dict[str, NDArray[Any]]:
    """Return the named arrays of what `make_move` returned (five values of a step, two of a reset), as copies, and the
    env's count of action values out of bounds.
    """
    names = ("reward", "terminated", "truncated") if len(returned) == 5 else ()
    table = flat("observation", returned[0]) | dict(zip(names, returned[1:], strict=False))
    table["out_of_bounds"] = out_of_bounds
    return {name: np.array(array) for name, array in table.items()} | flatten(returned[-1])


def frame_of(transport: Transport, move: RolloutStep) -> Frame:
    """Return the frame of one bare exchange that makes this move."""
    return transport.step(move.actions, _control(transport.spec, move))


def _control(spec: BatchSpec, move: RolloutStep) -> NDArray[np.uint8] | None:
    if move.kind == "step":
        return None
    return np.where(move.mask, np.uint8(RESET), np.uint8(HOLD if spec.hold else 0))


def reward_gap(spec: BatchSpec, answer: dict[str, NDArray[Any]]) -> tuple[int, float, float] | None:
    """Return (env, reward, sum of terms) where the reward is not the float32 sum of its terms, None if nowhere.

    Looks at an env's reward and reward terms, or at a frame's, whichever the answer holds.
    """
    if "reward" not in answer:
        return None
    reward = answer["reward"]
    group = "info.reward_terms" if "seq" not in answer else "signals"
    count = len(spec.reward_terms)
    terms = np.stack([answer[f"{group}.{name}"] for name in spec.reward_terms])
    total = total_reward(terms, count)
    unequal = reward.view(np.uint32) != total.view(np.uint32)
    if reward.dtype == total.dtype and not unequal.any():
        return None
    env = int(np.argmax(unequal))
    return env, float(reward[env]), float(total[env])
