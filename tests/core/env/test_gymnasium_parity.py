"""A Gymnasium env behind a transport gives, bit for bit, what Gymnasium's own `SyncVectorEnv` gives."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv

pytest.importorskip("lucky_transport_gymnasium.engine")

NUM_ENVS = 3
SEED = 42


def _pair(env_id: str, mode: AutoresetMode) -> tuple[VectorEnv, SyncVectorEnv]:
    ours = api.make(f"gymnasium:{env_id}", NUM_ENVS, transport="inproc", autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: gymnasium.make(env_id)] * NUM_ENVS, autoreset_mode=mode)
    return ours, theirs


def _assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    assert ours[0].dtype == theirs[0].dtype
    assert ours[0].tobytes() == theirs[0].tobytes()
    assert ours[1].tolist() == theirs[1].astype(np.float32).tolist()
    assert ours[2].tobytes() == theirs[2].tobytes()
    assert ours[3].tobytes() == theirs[3].tobytes()


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"])
def test_trajectories_are_those_of_sync_vector_env(env_id: str, mode: AutoresetMode) -> None:
    ours, theirs = _pair(env_id, mode)
    with ours:
        theirs.action_space.seed(SEED)
        assert ours.reset(seed=SEED)[0].tobytes() == theirs.reset(seed=SEED)[0].tobytes()
        ends = 0
        for _ in range(450):
            actions = theirs.action_space.sample()
            found, expected = ours.step(actions), theirs.step(actions)
            _assert_same(found, expected)
            ended = found[2] | found[3]
            ends += int(ended.sum())
            if mode is AutoresetMode.SAME_STEP and ended.any():
                assert found[4]["_final_obs"].tolist() == expected[4]["_final_obs"].tolist()
                last = np.stack(expected[4]["final_obs"][ended])
                assert found[4]["final_obs"][ended].tobytes() == last.tobytes()
            if mode is AutoresetMode.DISABLED and ended.any():
                after = ours.reset(options={"reset_mask": ended})[0]
                assert after.tobytes() == theirs.reset(options={"reset_mask": ended})[0].tobytes()
    theirs.close()
    assert ends >= NUM_ENVS


def test_seeds_of_single_envs_and_partial_resets_are_those_of_sync_vector_env() -> None:
    ours, theirs = _pair("CartPole-v1", AutoresetMode.NEXT_STEP)
    with ours:
        for seed, mask in (([5, 900, 77], None), ([1, 2, 3], [True, False, True]), (None, [False, True, False])):
            options = [{} if mask is None else {"reset_mask": np.array(mask)} for _ in range(2)]
            found, _ = ours.reset(seed=seed, options=options[0])
            expected, _ = theirs.reset(seed=seed, options=options[1])  # pyright: ignore[reportArgumentType]
            assert found.tobytes() == expected.tobytes()
            actions = np.array([0, 1, 1])
            _assert_same(ours.step(actions), theirs.step(actions))
    theirs.close()


def test_the_spaces_are_those_of_sync_vector_env() -> None:
    ours, theirs = _pair("CartPole-v1", AutoresetMode.NEXT_STEP)
    with ours:
        for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
            assert getattr(ours, name) == getattr(theirs, name), name
    theirs.close()
