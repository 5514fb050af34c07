"""What the tasks reward, when episodes end, and the velocity commands that robots are given."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lucky_transport.spec.batch_spec import total_reward

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.engine import HOLD, RESET
from lucky_transport.messages import GetCapabilityManifestRequest
from lucky_transport_mujoco.physics import Motion
from lucky_transport_mujoco.tasks.velocity import REWARDS, TERMINATIONS, VELOCITY, WALKING, Situation, judge

ROWS = [term.name for term in (*REWARDS, *TERMINATIONS)]


def situation(count: int = 2, rows: slice = slice(1, None), **changes: Any) -> Situation:
    """Robots that stand upright and do as they are told, except for `changes` in these rows, the second one's."""
    motion = {
        "lin_vel": np.zeros((count, 3)),
        "ang_vel": np.zeros((count, 3)),
        "gravity": np.tile([0.0, 0.0, -1.0], (count, 1)),
        "joint_pos": np.zeros((count, 12)),
        "joint_vel": np.zeros((count, 12)),
        "height": np.full(count, 0.28),
    }
    rest: dict[str, Any] = {
        "command": np.zeros((count, 3)),
        "action": np.zeros((count, 12), np.float32),
        "previous": np.zeros((count, 12), np.float32),
        "torques": np.zeros((count, 12)),
        "ticks": np.ones(count, np.int64),
        "diverged": np.zeros(count, np.bool_),
    }
    for name, value in changes.items():
        (motion if name in motion else rest)[name][rows] = value
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


# --- commands ---


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


def test_the_reward_judges_the_command_the_step_was_made_under(pair: Any) -> None:
    pair.randomize(vel_command_resampling_time_range=[0.02, 0.02])
    before = pair.seen(pair.reset(), "velocity_command")
    for _ in range(3):
        frame = pair.step()
        error = ((before[:, :2] - pair.seen(frame, "base_lin_vel")[:, :2]) ** 2).sum(axis=1)
        assert pair.term(frame, "track_lin_vel_xy") == pytest.approx(np.exp(-error / 0.25), abs=1e-5)
        before = pair.seen(frame, "velocity_command")


@pytest.mark.parametrize(("probability", "least", "most"), [(1.0, 200, 200), (0.0, 0, 0), (0.25, 35, 65)])
def test_the_standing_probability_decides_who_is_told_to_stand(
    robots: Callable[..., Any], probability: float, least: int, most: int
) -> None:
    batch = robots(200, seed=5)
    batch.randomize(vel_command_standing_probability=probability)
    commands = batch.seen(batch.reset(), "velocity_command")
    assert least <= np.count_nonzero(~commands.any(axis=1)) <= most


# --- `mujoco:quadruped-walk`: what a step earns there, and that all else is as in `mujoco:quadruped` ---


WALK = WALKING.variant
TERMS = len(WALKING.reward_names)


def test_no_step_of_walking_costs_anything(robots: Callable[..., Any]) -> None:
    batch = robots(6, WALK)
    batch.reset()
    generator = np.random.default_rng(0)
    lifted = 0
    for _ in range(80):
        frame = batch.step(generator.uniform(-1, 1, (6, 12)))
        assert (frame.rewards >= 0).all()
        assert frame.rewards.tobytes() == total_reward(frame.signals, TERMS).tobytes()
        floor = batch.term(frame, "floor")
        weighted = total_reward(frame.signals, TERMS - 1)
        assert floor.tobytes() == np.maximum(-weighted, np.float32(0)).tobytes()
        lifted += int((floor > 0).sum())
    assert lifted > 20


def test_standing_still_earns_little_where_walking_is_asked_for(robots: Callable[..., Any]) -> None:
    batch = robots(8, WALK)
    batch.reset()
    earned = [float(batch.step().rewards.mean()) for _ in range(300)]
    highest = sum(term.weight for term in WALKING.rewards if term.weight > 0)
    assert 0.1 < np.mean(earned) / highest < 1 / 3


def test_commands_ask_for_walking_and_change(robots: Callable[..., Any]) -> None:
    batch = robots(8, WALK)
    first = batch.seen(batch.reset(), "velocity_command")
    for _ in range(250):
        batch.step()
    later = batch.seen(batch.step(), "velocity_command")
    for command in (first, later):
        assert (command[:, 0] >= 0.4).all()
        assert (command[:, 0] <= 1.0).all()
    assert (first != later).all()
    batch.randomize(joint_position_noise=0.1)  # an empty range means the task's own
    assert (batch.seen(batch.reset(), "velocity_command")[:, 0] >= 0.4).all()
    batch.randomize(vel_command_x_range=[-0.3, -0.2])
    assert (batch.seen(batch.reset(), "velocity_command")[:, 0] <= -0.2).all()


def test_the_clock_is_that_of_the_episode(robots: Callable[..., Any]) -> None:
    batch = robots(2, WALK)
    frame = batch.reset()
    for step in range(1, 14):
        frame = batch.step(control=np.array([0, RESET if step == 7 else HOLD if step > 7 else 0], np.uint8))
    angles = 2 * np.pi * 2.0 * 0.02 * np.array([13, 0])
    assert batch.seen(frame, "gait_phase") == pytest.approx(np.stack([np.sin(angles), np.cos(angles)], 1), abs=1e-6)


def test_lifting_the_feet_in_turn_is_a_gait() -> None:
    """A quarter into the cycle, front left and rear right are highest, 5 cm: with the knees bent by 0.324 rad more."""
    legs = np.array([[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]])  # FL FR RL RR
    joints = np.zeros((len(legs), 12))
    joints[:, 2::3] = -0.324 * legs
    seen = situation(len(legs), slice(None), joint_pos=joints, ticks=6)
    gait = judge(seen, 1000, WALKING)[WALKING.reward_names.index("gait")]
    assert gait[1] == pytest.approx(0.75, rel=1e-3)
    assert gait[[0, 3]] == pytest.approx(0.75 * np.exp(-2 * (0.05 * np.sin(0.48 * np.pi)) ** 2 / 8e-4), rel=0.02)
    assert gait[2] < gait[0] / 100


def test_the_robot_moves_as_in_the_other_task(robots: Callable[..., Any]) -> None:
    walking, tracking = robots(2, WALK, seed=3), robots(2, VELOCITY.variant, seed=3)
    frames = [batch.reset() for batch in (walking, tracking)]
    actions = np.random.default_rng(1).uniform(-0.5, 0.5, (20, 2, 12))
    for action in actions:
        frames = [batch.step(action) for batch in (walking, tracking)]
    assert walking.engine.physics.qpos.tobytes() == tracking.engine.physics.qpos.tobytes()
    for term, _ in tracking.spec.observation_terms:
        if term != "velocity_command":
            assert np.array_equal(walking.seen(frames[0], term), tracking.seen(frames[1], term)), term


def test_the_manifest_describes_the_task(robots: Callable[..., Any]) -> None:
    batch = robots(1, WALK)
    assert batch.spec.engine == "mujoco:quadruped-walk"
    assert batch.spec.attributes["task"] == "walking"
    manifest = batch.call("AgentService/GetCapabilityManifest", GetCapabilityManifestRequest()).manifest
    assert {one.name: one.description for one in manifest.rewards} == WALKING.summaries
    ranges = {one.base.name: (one.default_range_min, one.default_range_max) for one in manifest.randomizations}
    assert ranges["vel_command_x_range"] == pytest.approx((0.4, 1.0))
