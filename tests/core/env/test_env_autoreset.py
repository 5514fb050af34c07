"""The three autoreset modes, against a plain reading of their rules and against Gymnasium's own vector env."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.engine import RESET
from lucky_transport.env.autoreset import parse_mode
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import EngineFailed, SpecError
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.testing.trajectories import first_difference, record_env

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
    assert parse_mode(text) is NEXT
    with api.make("toy", transport="inproc", autoreset_mode=text) as env:
        assert env.metadata["autoreset_mode"] is NEXT


@pytest.mark.parametrize("mode", ["", "same", 3])
def test_an_unknown_mode_is_refused_with_the_three(mode: Any) -> None:
    with pytest.raises(ValueError, match="expected one of 'NextStep', 'SameStep', 'Disabled' or a gymnasium"):
        api.make("toy", transport="inproc", autoreset_mode=mode)


def test_next_step_resets_in_the_step_after_the_end() -> None:
    with _staggered(NEXT) as env:
        last, rewards, _, truncated, info = env.step(_zeros(env))
        assert truncated.tolist() == [True, False, True]
        assert "final_obs" not in info
        observations, rewards, terminated, truncated, _ = env.step(np.ones((3, 2)))
        assert rewards[[0, 2]].tolist() == [0, 0]
        assert rewards[1] != 0
        assert not terminated.any()
        assert truncated.tolist() == [False, True, False]
        assert (observations != last).any(axis=1).all()


def test_next_step_ignores_the_action_of_the_env_it_resets() -> None:
    results = []
    for value in (-1.0, 1.0):
        with _make(NEXT, episode_steps=1) as env:
            env.reset(seed=0)
            env.step(_zeros(env))
            results.append(env.step(np.full((3, 2), value))[0].tobytes())
    assert results[0] == results[1]


def test_same_step_returns_the_reset_observation_and_keeps_the_last_one_in_info() -> None:
    with _staggered(SAME) as env, _staggered(OFF) as plain:
        observations, rewards, _, truncated, info = env.step(_zeros(env))
        last, expected_rewards, _, expected_truncated, expected_info = plain.step(_zeros(plain))
        ended = np.array([True, False, True])
        assert truncated.tolist() == expected_truncated.tolist() == ended.tolist()
        assert rewards.tobytes() == expected_rewards.tobytes()
        assert info["_final_obs"].tolist() == ended.tolist()
        assert info["final_obs"].dtype == np.float32
        assert info["final_obs"].shape == (3, 8)
        assert info["final_obs"][ended].tobytes() == last[ended].tobytes()
        assert not info["final_obs"][~ended].any()
        reset = plain.reset(options={"reset_mask": ended})[0]
        assert observations.tobytes() == reset.tobytes()
        assert info["reward_terms"]["alive"].tobytes() == expected_info["reward_terms"]["alive"].tobytes()


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


def test_same_step_says_nothing_about_ends_while_there_are_none() -> None:
    with _make(SAME) as env:
        env.reset(seed=0)
        groups = {name.lstrip("_").partition("/")[0] for name in env.step(_zeros(env))[4]}
        assert groups == {"reward_terms", "termination_terms"}


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


def test_disabled_goes_on_after_a_full_reset() -> None:
    with _make(OFF, episode_steps=1) as env:
        env.reset()
        env.step(_zeros(env))
        env.reset()
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


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), episode_steps=st.integers(1, 9), num_envs=st.integers(1, 4))
def test_next_step_does_what_its_rule_says_with_plain_exchanges(seed: int, episode_steps: int, num_envs: int) -> None:
    """The same trajectory by hand: whoever ended before gets the reset bit now."""
    generator = np.random.default_rng(seed)
    options = {"episode_steps": episode_steps, "seed": seed}
    plain = InprocTransport(Host(api.make_engine("toy", num_envs, **options)))
    with _make(NEXT, num_envs, **options) as env:
        frame = plain.step(_zeros(env), np.full(num_envs, RESET, np.uint8))
        assert env.reset()[0].tobytes() == frame.observations.tobytes()
        ended = np.zeros(num_envs, np.bool_)
        for _ in range(25):
            actions = generator.uniform(-2, 2, (num_envs, 2)).astype(np.float32)
            frame = plain.step(actions, ended.astype(np.uint8))
            observations, rewards, terminated, truncated, _ = env.step(actions)
            assert observations.tobytes() == frame.observations.tobytes()
            assert rewards.tobytes() == frame.rewards.tobytes()
            assert (terminated.tolist(), truncated.tolist()) == (
                (frame.terminated != 0).tolist(),
                (frame.truncated != 0).tolist(),
            )
            ended = terminated | truncated


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), episode_steps=st.integers(1, 9))
def test_all_modes_see_the_same_episodes(seed: int, episode_steps: int) -> None:
    """Every env passes through the same rewards and ends in each mode; only the reset steps in between differ."""
    actions = np.random.default_rng(seed).uniform(-2, 2, (40, 2)).astype(np.float32)

    def episodes(mode: AutoresetMode) -> list[tuple[float, bool, bool]]:
        outcomes: list[tuple[float, bool, bool]] = []
        with _make(mode, 1, episode_steps=episode_steps) as env:
            env.reset(seed=seed)
            over = False
            while len(outcomes) < 40:
                if over and mode is OFF:
                    env.reset(options={"reset_mask": np.ones(1, np.bool_)})
                elif over and mode is NEXT:
                    env.step(_zeros(env))
                _, rewards, terminated, truncated, _ = env.step(actions[len(outcomes)][None])
                over = bool(terminated[0] or truncated[0])
                outcomes.append((float(rewards[0]), bool(terminated[0]), bool(truncated[0])))
        return outcomes

    assert episodes(NEXT) == episodes(SAME) == episodes(OFF)


class _Counter(gymnasium.Env[Any, Any]):
    """A Gymnasium env that counts its steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length: int) -> None:
        self._length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return np.full(1, self._steps, np.float32), 1.0, False, self._steps >= self._length, {}


@pytest.mark.parametrize("mode", [NEXT, SAME])
def test_the_rhythm_of_rewards_and_ends_is_gymnasiums_own(mode: AutoresetMode) -> None:
    theirs = gymnasium.vector.SyncVectorEnv([lambda: _Counter(4)] * 2, autoreset_mode=mode)
    with _make(mode, 2, episode_steps=4) as env:
        theirs.reset(seed=0)
        env.reset(seed=0)
        for _ in range(20):
            _, their_rewards, _, their_truncated, their_info = theirs.step(np.zeros((2, 1), np.float32))
            _, rewards, terminated, truncated, info = env.step(_zeros(env))
            assert (rewards != 0).tolist() == (their_rewards != 0).tolist()
            assert truncated.tolist() == their_truncated.tolist()
            assert not terminated.any()
            assert ("final_obs" in info) == ("final_obs" in their_info)


@pytest.mark.parametrize("mode", [NEXT, SAME, OFF])
def test_equal_envs_record_equal_trajectories(mode: AutoresetMode) -> None:
    with _make(mode, episode_steps=6) as one, _make(mode, episode_steps=6) as other:
        assert first_difference(record_env(one, 50, 1), record_env(other, 50, 1)) is None
        assert first_difference(record_env(one, 50, 1), record_env(other, 50, 2)) is not None
