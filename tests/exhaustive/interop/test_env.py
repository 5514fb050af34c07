"""LuckyEnv, the package's Gymnasium-like env, against the quadruped."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lucky_transport

NUM_ENVS = 2

REWARDS = ["track_lin_vel_xy", "alive"]
TERMINATIONS = ["fell_over", "time_out"]


@pytest.fixture
def make_env(lucky: Any, port: int, repaired: None) -> Generator[Callable[..., Any]]:
    """Open a LuckyEnv; it is closed after the test."""
    opened: list[Any] = []

    def open_env(**options: Any) -> Any:
        env = lucky.LuckyEnv(robot="quadruped", scene="flat", port=port, timeout=20.0, **options)
        opened.append(env)
        return env

    yield open_env
    for env in opened:
        env.close()


def test_its_spaces_are_those_of_the_robot(make_env: Any) -> None:
    env = make_env()
    assert env.observation_space.shape == (48,)
    assert env.action_space.shape == (12,)


def test_steps_carry_exactly_the_negotiated_terms(make_env: Any) -> None:
    env = make_env(reward_terms=REWARDS, termination_terms=TERMINATIONS)
    _, info = env.reset()
    assert info["termination_flags"].keys() == set(TERMINATIONS)
    for _ in range(5):
        _, reward, terminated, truncated, info = env.step(np.zeros(12, np.float32))
        assert info["reward_signals"].keys() == set(REWARDS)
        assert reward == sum(info["reward_signals"].values()) > 0
        assert info["termination_flags"] == {"fell_over": terminated, "time_out": truncated}


def test_a_reward_function_gets_the_engines_signals(make_env: Any) -> None:
    env = make_env(reward_terms=REWARDS, reward_fn=lambda signals: 10 * signals["alive"])
    env.reset()
    assert env.step(np.zeros(12, np.float32))[1] == pytest.approx(1.0)


def test_observations_are_finite_fit_the_space_and_follow_the_action(make_env: Any) -> None:
    env = make_env(randomization_cfg=SimpleNamespace(joint_position_noise=0.01))
    seen = []
    for sign in (-1, 1):
        env.reset()
        for _ in range(10):
            observation, *_ = env.step(np.full(12, 0.2 * sign, np.float32))
            assert env.observation_space.contains(observation)
        seen.append(observation)
    assert np.isfinite(seen).all()
    assert np.abs(seen[0] - seen[1]).max() > 0.05


def test_frame_numbers_rise_by_one_within_an_episode_and_start_again_with_the_next(make_env: Any) -> None:
    env = make_env()
    for _ in range(2):
        numbers = [env.reset()[1]["frame_number"]]
        numbers += [env.step(np.zeros(12, np.float32))[4]["frame_number"] for _ in range(4)]
        assert numbers == [1, 2, 3, 4, 5]


def test_a_robot_that_is_thrown_over_terminates(make_env: Any) -> None:
    env = make_env(termination_terms=TERMINATIONS)
    env.reset()
    generator = np.random.default_rng(0)
    terminated = False
    for _ in range(500):
        _, _, terminated, truncated, info = env.step(generator.uniform(-4, 4, 12).astype(np.float32))
        assert not truncated
        if terminated:
            break
    assert terminated
    assert info["termination_flags"] == {"fell_over": True, "time_out": False}
    assert env.reset()[0].shape == (48,)


def test_an_episode_ends_truncated_when_its_time_is_over(lucky: Any, serve: Any, port_of: Any, repaired: None) -> None:
    engine = serve(options={"max_episode_steps": 6})
    with lucky.LuckyEnv(port=port_of(engine), timeout=20.0, termination_terms=["time_out"]) as env:
        for _ in range(2):
            env.reset()
            ends = [env.step(np.zeros(12, np.float32))[2:4] for _ in range(6)]
            assert ends == [(False, False)] * 5 + [(False, True)]


def test_an_unknown_term_is_refused_with_the_nearest_name(make_env: Any) -> None:
    with pytest.raises(RuntimeError, match="did you mean 'fell_over'"):
        make_env(termination_terms=["felled_over"])


def test_two_envs_drive_two_agents_of_one_engine(make_env: Any) -> None:
    first, second = make_env(agent_name="agent_0"), make_env(agent_name="agent_1")
    first.reset()
    still, _ = second.reset()
    for _ in range(5):
        first.step(np.full(12, 0.3, np.float32))
    moved, *_ = second.step(np.zeros(12, np.float32))
    assert np.abs(moved[12:24] - still[12:24]).max() < 0.2  # one tick of its own, none of the other's
    assert first.step(np.zeros(12, np.float32))[4]["frame_number"] == 7
    assert second.step(np.zeros(12, np.float32))[4]["frame_number"] == 3


def test_an_agent_that_does_not_exist_is_said_to_have_no_sizes(make_env: Any) -> None:
    with pytest.raises(RuntimeError, match="obs_size=0, act_size=0"):
        make_env(agent_name="agent_2")


def test_our_own_env_gives_the_same_trajectory_bit_for_bit(
    lucky: Any, serve: Callable[..., Any], port_of: Callable[[Any], int], repaired: None
) -> None:
    ours, theirs = serve(seed=11), serve(seed=11)
    options = {"reward_terms": REWARDS, "termination_terms": TERMINATIONS, "reward_fn": lambda found: found["alive"]}
    with (
        lucky_transport.LuckyEnv("quadruped", "flat", endpoint=str(ours.endpoints[0]), **options) as one,
        lucky.LuckyEnv("quadruped", "flat", port=port_of(theirs), timeout=20.0, **options) as other,
    ):
        assert one.observation_space == other.observation_space
        assert one.action_space == other.action_space
        random = np.random.default_rng(1)
        seen = [(env.reset()) for env in (one, other)]
        for _ in range(200):
            (first, *rest), (expected, *others) = seen
            assert first.tobytes() == expected.tobytes()
            assert rest == others
            ended = len(rest) == 4 and (rest[1] or rest[2])  # what `step` returned, and the episode is over
            action = random.uniform(-1, 1, 12).astype(np.float32)
            seen = [env.reset() if ended else env.step(action) for env in (one, other)]
