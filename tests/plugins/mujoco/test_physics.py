"""The worlds: threads, the GIL, and worlds that break down."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.physics import Physics
from lucky_transport_mujoco.robot import load


def test_the_robot_has_a_free_base_and_twelve_motors() -> None:
    robot = load()
    assert (robot.nq, robot.nv, robot.nu) == (19, 18, 12)
    assert robot.actuator_names == robot.joint_names
    assert (robot.joint_low < robot.joint_home).all()
    assert (robot.joint_home < robot.joint_high).all()


@pytest.mark.parametrize(("asked", "num_envs"), [(0, 64), (1, 64), (1000, 64), (0, 1)])
def test_there_are_never_more_threads_than_processors_or_worlds(asked: int, num_envs: int) -> None:
    physics = Physics(load(), num_envs, asked)
    assert 1 <= physics.threads <= min(os.cpu_count() or 1, num_envs)
    physics.close()


def test_other_python_threads_run_while_physics_does() -> None:
    robot = load()
    physics = Physics(robot, 256, threads=1)
    targets = np.tile(robot.joint_home, (256, 1))
    counts, before, stop = [0], 0, threading.Event()

    def count() -> None:
        while not stop.is_set():
            counts[0] += 1
            time.sleep(0)  # gives the GIL back at once

    interval = sys.getswitchinterval()
    other = threading.Thread(target=count)
    sys.setswitchinterval(1000.0)  # from here on threads change only where the GIL is given up
    try:
        other.start()
        for _ in range(100):
            before = counts[0]
            physics.advance(np.arange(256), targets)
            if counts[0] > before:
                break
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        other.join()
        physics.close()
    assert counts[0] > before


@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e4])
def test_a_world_that_breaks_down_ends_its_episode_and_touches_nobody(
    robots: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, poison: float
) -> None:
    monkeypatch.chdir(tmp_path)
    sick, healthy = robots(3), robots(3)
    for batch in (sick, healthy):
        batch.reset()
    sick.engine.physics.qvel[1, 7] = poison
    frame, expected = sick.step(), healthy.step()
    assert list(frame.terminated) == [0, 1, 0]
    assert list(sick.term(frame, "diverged")) == [0, 1, 0]
    assert frame.rewards[1] == 0
    assert np.isfinite(frame.observations).all()
    for env in (0, 2):
        assert frame.observations[env].tobytes() == expected.observations[env].tobytes()
    assert not sick.step().terminated.any()  # it stands again
    assert not sick.reset(1).terminated.any()
