"""Gymnasium's own vector wrappers around our env, in each autoreset mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

from lucky_transport import api
from lucky_transport.env.vector_env import VectorEnv

NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = [NEXT, SAME, OFF]

#: SAME_STEP statistics count the last step of an episode only from here on (Gymnasium pull request 1624).
COUNTS_SAME_STEP = tuple(int(part) for part in gymnasium.__version__.split(".")[:2]) >= (1, 4)


def _make(mode: AutoresetMode = NEXT, *, copies: bool = True, **options: Any) -> VectorEnv:
    options = {"episode_steps": 5} | options
    return api.make("toy", 3, transport="inproc", options=options, autoreset_mode=mode, copy=copies)


def _run(env: Any, steps: int = 14, *, seed: int = 0, restart: bool = True) -> list[Any]:
    """Return what `steps` random steps gave; in DISABLED mode ended envs are reset at once."""
    generator = np.random.default_rng(seed)
    unwrapped: VectorEnv = env.unwrapped
    env.reset(seed=seed)
    results: list[Any] = []
    for _ in range(steps):
        actions = generator.uniform(-1, 1, unwrapped.batch_spec.action_shape).astype(np.float32)
        results.append(copy.deepcopy(env.step(actions)))  # wrappers change what they returned before
        ended = results[-1][2] | results[-1][3]
        if restart and unwrapped.autoreset_mode is OFF and ended.any():
            env.reset(options={"reset_mask": ended})
    return results


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_are_those_of_the_episodes(mode: AutoresetMode) -> None:
    if mode is SAME and not COUNTS_SAME_STEP:
        pytest.skip(f"Gymnasium {gymnasium.__version__} miscounts SAME_STEP episodes itself")
    plain = _run(_make(mode), 12)
    with _make(mode) as env:
        results = _run(wrappers.RecordEpisodeStatistics(env), 12)
    ends = [step for step, result in enumerate(plain) if (result[2] | result[3])[0]]
    assert len(ends) == 2
    start = 0
    for end in ends:
        info = results[end][4]
        assert info["_episode"][0]
        expected = sum(float(result[1][0]) for result in plain[start : end + 1])
        assert info["episode"]["r"][0] == pytest.approx(expected)
        assert info["episode"]["l"][0] == 5
        start = end + 1


def test_a_partial_reset_wipes_no_statistics_of_other_envs() -> None:
    """Gymnasium's own vector envs pop the mask out of the options, so that this wrapper no longer sees it."""
    env = wrappers.RecordEpisodeStatistics(_make(OFF, episode_steps=100))
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros((3, 2)))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    env.step(np.zeros((3, 2)))
    assert env.episode_lengths.tolist() == [1, 5, 5]
    assert (env.episode_returns[1:] > env.episode_returns[0]).all()
    env.close()


def test_normalised_observations_need_next_step() -> None:
    with _make() as env:
        observations = [result[0] for result in _run(wrappers.NormalizeObservation(env), 40)]
    assert observations[0].dtype == np.float32
    assert abs(float(np.mean(observations[20:]))) < 1
    for mode in (SAME, OFF):
        with _make(mode) as env, pytest.raises(ValueError, match="NEXT_STEP"):
            wrappers.NormalizeObservation(env)


def test_normalised_observations_refuse_partial_resets() -> None:
    with _make() as env:
        wrapped = wrappers.NormalizeObservation(env)
        wrapped.reset()
        with pytest.raises(ValueError, match="partial resets"):
            wrapped.reset(options={"reset_mask": np.array([True, False, False])})


@pytest.mark.parametrize("mode", MODES)
def test_rewards_can_be_normalised(mode: AutoresetMode) -> None:
    with _make(mode) as env:
        rewards = np.array([result[1] for result in _run(wrappers.NormalizeReward(env))])
    assert rewards.shape == (14, 3)
    assert np.isfinite(rewards).all()


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_clipping_rewards_in_place_does_not_touch_the_engine(mode: AutoresetMode, copies: bool) -> None:
    with _make(mode, copies=copies) as env:
        rewards = [result[1] for result in _run(wrappers.ClipReward(env, 0.0, 0.25))]
    assert max(float(reward.max()) for reward in rewards) == 0.25
    with _make(mode) as env:
        plain = [result[1] for result in _run(env)]
    for clipped, raw in zip(rewards, plain, strict=True):
        assert clipped.tolist() == np.clip(raw, 0.0, 0.25).tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.ClipAction,
        lambda env: wrappers.RescaleAction(env, np.full(2, -2.0, np.float32), np.full(2, 2.0, np.float32)),
    ],
    ids=["ClipAction", "RescaleAction"],
)
def test_actions_can_be_transformed(mode: AutoresetMode, wrap: Callable[[Any], Any]) -> None:
    with _make(mode) as env:
        wrapped = wrap(env)
        wrapped.reset(seed=0)
        wrapped.step(np.full((3, 2), 2.0, np.float32))
        assert env.out_of_bounds == 0
    with _make(mode) as plain:
        plain.reset(seed=0)
        plain.step(np.full((3, 2), 2.0, np.float32))
        assert plain.out_of_bounds == 6


@pytest.mark.parametrize("mode", MODES)
def test_infos_become_one_dict_per_env(mode: AutoresetMode) -> None:
    with _make(mode) as env:
        infos = [result[4] for result in _run(wrappers.DictInfoToList(env), 6)]
    with _make(mode) as env:
        plain = _run(env, 6)
    for listed, result in zip(infos, plain, strict=True):
        columns = result[4]
        assert len(listed) == 3
        for index, info in enumerate(listed):
            assert ("reward_terms/alive" in info) == columns["_reward_terms"][index]
            if "reward_terms/alive" in info:
                assert info["reward_terms/alive"] == columns["reward_terms"]["alive"][index]
                assert not info["termination_terms/out_of_range"]
            assert ("final_obs" in info) == (mode is SAME and (result[2] | result[3])[index])


@pytest.mark.parametrize("mode", MODES)
def test_infos_become_one_dict_per_env_with_statistics_in_between(mode: AutoresetMode) -> None:
    with _make(mode) as env:
        infos = [r[4] for r in _run(wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(env)), 6)]
    assert all("episode" in info for info in infos[4])
    assert not any("episode" in info for info in infos[3])


OBSERVATION_WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "Flatten": wrappers.FlattenObservation,
    "Dtype": lambda env: wrappers.DtypeObservation(env, np.float64),
    "Rescale": lambda env: wrappers.RescaleObservation(env, np.full(8, -1.0), np.full(8, 1.0)),
    "Transform": lambda env: wrappers.TransformObservation(env, lambda observations: observations * 2),
}


@pytest.mark.parametrize("mode", [NEXT, OFF])
@pytest.mark.parametrize("name", ["Flatten", "Dtype", "Transform"])
def test_observations_can_be_transformed(mode: AutoresetMode, name: str) -> None:
    with _make(mode) as env:
        found = [result[0] for result in _run(OBSERVATION_WRAPPERS[name](env))]
    with _make(mode) as env:
        plain = [result[0] for result in _run(env)]
    factor = 2 if name == "Transform" else 1
    for changed, raw in zip(found, plain, strict=True):
        assert changed.tolist() == (raw * factor).tolist()


@pytest.mark.parametrize("name", OBSERVATION_WRAPPERS)
def test_transforming_observations_is_refused_in_same_step_by_gymnasium(name: str) -> None:
    with _make(SAME) as env, pytest.raises(ValueError, match=r"SAME_STEP|NEXT_STEP|autoreset"):
        OBSERVATION_WRAPPERS[name](env)


def test_a_wrapper_that_writes_into_a_view_is_stopped_and_the_engine_keeps_its_memory() -> None:
    with _make(copies=False) as env:
        wrapped = wrappers.VectorizeTransformObservation(
            env, gymnasium.wrappers.TransformObservation, func=lambda one: one * 0, observation_space=None
        )
        env.reset(seed=0)
        shown = env.transport.step(np.zeros((3, 2), np.float32)).observations
        kept = shown.copy()
        with pytest.raises(ValueError, match="read-only"):
            wrapped.observations(shown)
        assert shown.tobytes() == kept.tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_everything_becomes_torch(mode: AutoresetMode) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    with _make(mode) as env:
        wrapped: Any = wrappers.NumpyToTorch(env)
        wrapped.reset(seed=0)
        results = [wrapped.step(torch.zeros(3, 2)) for _ in range(5)]
        observations, rewards, terminated, _, info = results[-1]
        assert (observations.dtype, rewards.dtype, terminated.dtype) == (torch.float32, torch.float32, torch.bool)
        assert isinstance(info["reward_terms"]["alive"], torch.Tensor)
        assert ("final_obs" in info) == (mode is SAME)


def test_extras_are_reached_through_wrappers_by_unwrapped() -> None:
    wrapped: Any = wrappers.RecordEpisodeStatistics(_make())
    assert wrapped.unwrapped.get_attr("task") == ("toy", "toy", "toy")
    assert wrapped.metadata["autoreset_mode"] is NEXT
    assert "VectorEnv(toy" in repr(wrapped)
    wrapped.close()
    assert wrapped.unwrapped.closed
