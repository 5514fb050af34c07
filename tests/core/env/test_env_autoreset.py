"""The three autoreset modes, beside what the envs of the gymnasium plugin compare with Gymnasium's own."""

from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, EngineFailed, SpecError

NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def _make(mode: AutoresetMode, num_envs: int = 3, **options: Any) -> VectorEnv:
    return api.make("toy", num_envs, transport="inproc", options=options, autoreset_mode=mode)


def _zeros(env: VectorEnv) -> Any:
    return np.zeros(env.batch_spec.action_shape)


def _staggered(mode: AutoresetMode) -> VectorEnv:
    """Return an env of episodes of four steps in which env 1 is one step younger than the others."""
    env = _make(mode, episode_steps=4)
    env.reset(seed=0)
    env.step(_zeros(env))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    for _ in range(2):
        env.step(_zeros(env))
    return env


@pytest.mark.parametrize("text", ["NextStep", "NEXT_STEP", "next_step", "nextstep"])
def test_a_mode_may_be_spelled_by_value_or_name(text: str) -> None:
    with api.make("toy", transport="inproc", autoreset_mode=text) as env:
        assert env.metadata["autoreset_mode"] is NEXT


@pytest.mark.parametrize("mode", ["", "same", 3])
def test_an_unknown_mode_is_refused_with_the_three(mode: Any) -> None:
    with pytest.raises(ConfigError, match="expected one of 'NextStep', 'SameStep', 'Disabled' or a gymnasium"):
        api.make("toy", transport="inproc", autoreset_mode=mode)


def test_same_steps_final_info_holds_the_last_terms_of_the_ended_envs() -> None:
    with _staggered(SAME) as env:
        info = env.step(_zeros(env))[4]
        assert info["_final_info"].tolist() == [True, False, True]
        final = info["final_info"]
        assert final["termination_terms"]["time_out"].tolist() == [True, False, True]
        assert final["reward_terms"]["_alive"].tolist() == [True, False, True]
        assert final["_reward_terms"].tolist() == [True, False, True]
        following = env.step(_zeros(env))[4]
        assert following["_final_obs"].tolist() == [False, True, False]


@pytest.mark.parametrize("copy", [True, False])
def test_same_steps_final_observation_survives_the_following_steps(copy: bool) -> None:
    with api.make("toy", 2, transport="inproc", autoreset_mode=SAME, copy=copy, options={"episode_steps": 2}) as env:
        env.reset(seed=0)
        env.step(_zeros(env))
        final = env.step(_zeros(env))[4]["final_obs"]
        kept = final.copy()
        for _ in range(3):
            env.step(np.ones((2, 2)))
        assert final.tobytes() == kept.tobytes()


def test_same_step_is_refused_where_the_engine_cannot_hold() -> None:
    with pytest.raises(SpecError, match="SAME_STEP resets some of 3 envs while the others hold still"):
        _make(SAME, hold=False)
    with _make(SAME, 1, hold=False, episode_steps=2) as env:
        env.reset()
        env.step(_zeros(env))
        assert env.step(_zeros(env))[4]["_final_obs"].tolist() == [True]


def test_disabled_refuses_to_step_an_ended_env_by_its_number() -> None:
    with _staggered(OFF) as env:
        ended = env.step(_zeros(env))[3]
        for _ in range(2):
            with pytest.raises(
                gymnasium.error.ResetNeeded, match=r"some envs have ended .*\(envs \[0, 2\]\); pass their mask"
            ):
                env.step(_zeros(env))
        env.reset(options={"reset_mask": np.array([True, False, False])})
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"\(envs \[2\]\)"):
            env.step(_zeros(env))
        env.reset(options={"reset_mask": ended})
        env.step(_zeros(env))


def test_after_a_failed_reset_of_ended_envs_all_envs_have_to_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    with _staggered(OFF) as env:
        ended = env.step(_zeros(env))[3]
        with monkeypatch.context() as failing:
            failing.setattr(env.transport, "step", Mock(side_effect=EngineFailed("out of worlds")))
            with pytest.raises(EngineFailed, match="out of worlds"):
                env.reset(options={"reset_mask": ended})
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"state is unknown; call reset\(\)"):
            env.step(_zeros(env))


def test_a_partial_reset_in_next_step_mode_takes_the_place_of_the_autoreset() -> None:
    with _staggered(NEXT) as env:
        env.step(_zeros(env))
        observations, _ = env.reset(options={"reset_mask": np.array([True, False, False])})
        following, rewards, _, truncated, info = env.step(_zeros(env))
        assert rewards[0] != 0
        assert rewards[2] == 0
        assert truncated.tolist() == [False, True, False]
        assert info["_reward_terms"].tolist() == [True, True, False]
        assert (following[0] != observations[0]).any()


def test_a_full_reset_in_next_step_mode_forgets_the_pending_ones() -> None:
    with _make(NEXT, episode_steps=1) as env:
        env.reset()
        env.step(_zeros(env))
        env.reset()
        assert env.step(_zeros(env))[1].all()
