"""Rewards and terminations of velocity tracking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport.spec.batch_spec import total_reward

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.physics import Motion
from lucky_transport_mujoco.tasks.velocity import REWARDS, TERMINATIONS, Situation, judge

ROWS = [term.name for term in (*REWARDS, *TERMINATIONS)]


def situation(**changes: Any) -> Situation:
    """Two robots that stand upright and do as they are told, except for `changes` in the second one."""
    motion = {
        "lin_vel": np.zeros((2, 3)),
        "ang_vel": np.zeros((2, 3)),
        "gravity": np.tile([0.0, 0.0, -1.0], (2, 1)),
        "joint_pos": np.zeros((2, 12)),
        "joint_vel": np.zeros((2, 12)),
        "height": np.full(2, 0.28),
    }
    rest: dict[str, Any] = {
        "command": np.zeros((2, 3)),
        "action": np.zeros((2, 12), np.float32),
        "previous": np.zeros((2, 12), np.float32),
        "torques": np.zeros((2, 12)),
        "ticks": np.ones(2, np.int64),
        "diverged": np.zeros(2, np.bool_),
    }
    for name, value in changes.items():
        (motion if name in motion else rest)[name][1] = value
    return Situation(motion=Motion(**motion), **rest)


def test_standing_when_told_to_stand_earns_the_most() -> None:
    signals = judge(situation(), 1000)
    assert dict(zip(ROWS, signals[:, 0], strict=True)) == {
        "track_lin_vel_xy": 1.0,
        "track_ang_vel_z": 0.5,
        "lin_vel_z": 0.0,
        "ang_vel_xy": 0.0,
        "flat_orientation": 0.0,
        "action_rate": 0.0,
        "torques": 0.0,
        "alive": np.float32(0.1),
        "fell_over": 0.0,
        "diverged": 0.0,
        "time_out": 0.0,
    }


@pytest.mark.parametrize(
    ("term", "changes", "expected"),
    [
        ("track_lin_vel_xy", {"command": [0.5, 0, 0]}, np.exp(-1)),
        ("track_lin_vel_xy", {"lin_vel": [0.3, 0.4, 0]}, np.exp(-1)),
        ("track_lin_vel_xy", {"command": [1, 0, 0], "lin_vel": [1, 0, 0]}, 1),
        ("track_ang_vel_z", {"command": [0, 0, 1], "ang_vel": [0, 0, 0.5]}, 0.5 * np.exp(-1)),
        ("lin_vel_z", {"lin_vel": [0, 0, 0.5]}, -0.5),
        ("ang_vel_xy", {"ang_vel": [1, 2, 0]}, -0.25),
        ("flat_orientation", {"gravity": [0.6, 0, -0.8]}, -0.36),
        ("action_rate", {"action": 1, "previous": -1}, -0.48),
        ("torques", {"torques": 10}, -0.24),
    ],
)
def test_a_reward_term_measures_what_its_name_says(term: str, changes: dict[str, Any], expected: float) -> None:
    row = judge(situation(**changes), 1000)[ROWS.index(term)]
    assert row[1] == pytest.approx(expected, rel=1e-6)
    assert row[0] == judge(situation(), 1000)[ROWS.index(term), 0]


def test_terms_are_not_scaled_by_the_duration_of_a_step(robots: Callable[..., Any]) -> None:
    batch = robots(1, seed=1)
    batch.reset()
    assert batch.spec.step_s == pytest.approx(0.02)
    assert batch.term(batch.step(), "alive")[0] == np.float32(0.1)


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"gravity": [0.8, 0, -0.6]}, (0, 0, 0)),  # 53 degrees
        ({"gravity": [0.9, 0, -0.43]}, (1, 0, 0)),  # 65 degrees
        ({"height": 0.14}, (0, 0, 0)),
        ({"height": 0.12}, (1, 0, 0)),
        ({"ticks": 999}, (0, 0, 0)),
        ({"ticks": 1000}, (0, 0, 1)),
        ({"ticks": 1000, "height": 0.05}, (1, 0, 1)),
        ({"diverged": True}, (0, 1, 0)),
    ],
)
def test_episodes_end_by_falling_diverging_or_time(changes: dict[str, Any], flags: tuple[int, int, int]) -> None:
    signals = judge(situation(**changes), 1000)
    assert tuple(signals[len(REWARDS) :, 1]) == flags
    assert not signals[len(REWARDS) :, 0].any()


def test_robots_fall_over_under_wild_actions(robots: Callable[..., Any]) -> None:
    batch = robots(8)
    frame, fallen = batch.reset(), np.zeros(8, np.bool_)
    generator = np.random.default_rng(0)
    for _ in range(150):
        frame = batch.step(generator.uniform(-1, 1, (8, 12)))
        fallen = batch.term(frame, "fell_over") != 0
        assert np.array_equal(frame.terminated != 0, fallen)
        if fallen.any():
            break
    tilt = batch.seen(frame, "projected_gravity")[:, 2]
    assert fallen.any()
    assert ((tilt > -0.5) | (batch.engine.physics.qpos[:, 2] < 0.13))[fallen].all()


def test_a_robot_that_does_nothing_stands_until_time_is_up(robots: Callable[..., Any]) -> None:
    batch = robots(3, episode_s=6.0)
    batch.randomize(joint_position_noise=0.05, vel_command_standing_probability=1)
    frame = batch.reset()
    for step in range(1, 301):
        frame = batch.step()
        assert not frame.terminated.any()
        assert frame.truncated.all() == (step == 300)
    assert batch.term(frame, "time_out").all()
    assert (frame.rewards > 1.5).all()
    assert np.abs(batch.engine.physics.qvel).max() < 0.05


def test_a_reset_starts_the_clock_again(robots: Callable[..., Any]) -> None:
    batch = robots(2, max_episode_steps=3)
    batch.reset()
    batch.step()
    batch.step()
    batch.reset(0)
    assert list(batch.step().truncated) == [0, 1]
    assert list(batch.step().truncated) == [0, 1]  # env 1 stays over its time until it is reset
    assert list(batch.step().truncated) == [1, 1]


def test_the_reward_is_the_sum_of_its_terms(robots: Callable[..., Any]) -> None:
    batch = robots(5)
    batch.reset()
    generator = np.random.default_rng(1)
    for _ in range(20):
        frame = batch.step(generator.uniform(-1, 1, (5, 12)))
        assert frame.rewards.tobytes() == total_reward(frame.signals, len(REWARDS)).tobytes()
        assert frame.rewards == pytest.approx(frame.signals[: len(REWARDS)].sum(axis=0), abs=1e-5)
