"""Velocity commands: their ranges, how long one lasts, and commands to stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")


def test_commands_lie_in_their_ranges_and_fill_them(robots: Callable[..., Any]) -> None:
    batch = robots(200)
    batch.randomize(vel_command_x_range=[0.2, 0.6], vel_command_y_range=[-0.1, 0.1], vel_command_yaw_range=[-2, -1])
    drawn = batch.seen(batch.reset(), "velocity_command")
    low, high = np.array([0.2, -0.1, -2], np.float32), np.array([0.6, 0.1, -1], np.float32)
    assert (drawn >= low).all()
    assert (drawn <= high).all()
    assert (drawn.min(axis=0) < low + 0.1 * (high - low)).all()
    assert (drawn.max(axis=0) > high - 0.1 * (high - low)).all()


def test_a_command_lasts_for_its_resampling_time(robots: Callable[..., Any]) -> None:
    batch = robots(3)
    batch.randomize(vel_command_resampling_time_range=[0.1, 0.1])
    seen = [batch.seen(batch.reset(), "velocity_command")]
    for _ in range(11):
        seen.append(batch.seen(batch.step(), "velocity_command"))
    steps = list(enumerate(itertools.pairwise(seen), 1))
    assert [step for step, (before, after) in steps if (before != after).all()] == [5, 10]
    assert [step for step, (before, after) in steps if (before != after).any()] == [5, 10]


def test_the_reward_judges_the_command_the_step_was_made_under(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    batch.randomize(vel_command_resampling_time_range=[0.02, 0.02])
    before = batch.seen(batch.reset(), "velocity_command")
    for _ in range(3):
        frame = batch.step()
        error = ((before[:, :2] - batch.seen(frame, "base_lin_vel")[:, :2]) ** 2).sum(axis=1)
        assert batch.term(frame, "track_lin_vel_xy") == pytest.approx(np.exp(-error / 0.25), abs=1e-5)
        before = batch.seen(frame, "velocity_command")


@pytest.mark.parametrize(("probability", "standing"), [(1.0, 200), (0.0, 0)])
def test_the_standing_probability_decides_who_is_told_to_stand(
    robots: Callable[..., Any], probability: float, standing: int
) -> None:
    batch = robots(200)
    batch.randomize(vel_command_standing_probability=probability)
    commands = batch.seen(batch.reset(), "velocity_command")
    assert np.count_nonzero(~commands.any(axis=1)) == standing


def test_some_commands_are_to_stand(robots: Callable[..., Any]) -> None:
    batch = robots(400, seed=5)
    batch.randomize(vel_command_standing_probability=0.25)
    standing = np.count_nonzero(~batch.seen(batch.reset(), "velocity_command").any(axis=1))
    assert 70 <= standing <= 130  # 100 expected, deviation 9; the seed is fixed
