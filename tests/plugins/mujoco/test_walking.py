"""`mujoco:quadruped-walk`: what a step earns there, and that all else is as in `mujoco:quadruped`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport.engine import HOLD, RESET
from lucky_transport.messages import GetCapabilityManifestRequest
from lucky_transport.spec.batch_spec import total_reward
from lucky_transport_mujoco.physics import Motion
from lucky_transport_mujoco.tasks.velocity import VELOCITY, WALKING, Situation, judge

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


def test_empty_ranges_and_no_contract_mean_the_tasks_own(robots: Callable[..., Any]) -> None:
    batch = robots(8, WALK)
    batch.randomize(joint_position_noise=0.1)
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
    count = len(legs)
    joints = np.zeros((count, 12))
    joints[:, 2::3] = -0.324 * legs
    motion = Motion(
        lin_vel=np.zeros((count, 3)),
        ang_vel=np.zeros((count, 3)),
        gravity=np.tile([0.0, 0.0, -1.0], (count, 1)),
        joint_pos=joints,
        joint_vel=np.zeros((count, 12)),
        height=np.full(count, 0.28),
    )
    still = np.zeros((count, 12), np.float32)
    ticks = np.full(count, 6)
    situation = Situation(
        motion, np.zeros((count, 3)), still, still, still.astype(np.float64), ticks, np.zeros(count, np.bool_)
    )
    gait = judge(situation, 1000, WALKING)[WALKING.reward_names.index("gait")]
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
