"""The worlds: threads, the GIL, worlds that break down, and the kinematics behind observations."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mujoco: Any = pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.physics import Physics, product, rotation  # noqa: E402
from lucky_transport_mujoco.robot import load  # noqa: E402


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


# --- kinematics, against MuJoCo's own ---


def random_quaternions(count: int) -> Any:
    """Unit quaternions of all directions."""
    quat = np.random.default_rng(0).standard_normal((count, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


def test_composing_rotations_agrees_with_mujoco() -> None:
    left, right = random_quaternions(50), random_quaternions(51)[1:]
    for a, b, found in zip(left, right, product(left, right), strict=True):
        expected = np.empty(4)
        mujoco.mju_mulQuat(expected, a, b)
        assert found == pytest.approx(expected)


def test_a_rotation_vector_is_an_axis_times_an_angle() -> None:
    vectors = np.concatenate([np.random.default_rng(2).standard_normal((20, 3)), np.zeros((1, 3))])
    for vector, found in zip(vectors, rotation(vectors), strict=True):
        angle = np.linalg.norm(vector)
        expected = np.empty(4)
        mujoco.mju_axisAngle2Quat(expected, vector / angle if angle else np.array([1.0, 0, 0]), angle)
        assert found == pytest.approx(expected)


def test_what_a_robot_sees_agrees_with_mujocos_state(robots: Callable[..., Any]) -> None:
    batch = robots(4)
    frame, actions = batch.reset(), np.zeros((4, 12))
    generator = np.random.default_rng(3)
    for _ in range(25):
        actions = generator.uniform(-1, 1, (4, 12))
        frame = batch.step(actions)
    physics = batch.engine.physics
    model = physics.models[0]
    trunk = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "trunk")
    home = model.key_qpos[0]
    data = mujoco.MjData(model)
    for env in range(4):
        data.qpos[:], data.qvel[:] = physics.qpos[env], physics.qvel[env]
        mujoco.mj_forward(model, data)
        velocity = np.empty(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, trunk, velocity, 1)
        assert batch.seen(frame, "base_ang_vel")[env] == pytest.approx(velocity[:3], abs=1e-5)
        assert batch.seen(frame, "base_lin_vel")[env] == pytest.approx(velocity[3:], abs=1e-5)
        down = data.xmat[trunk].reshape(3, 3).T @ [0, 0, -1]
        assert batch.seen(frame, "projected_gravity")[env] == pytest.approx(down, abs=1e-6)
        assert batch.seen(frame, "joint_pos")[env] == pytest.approx(data.qpos[7:] - home[7:], abs=1e-6)
        assert batch.seen(frame, "joint_vel")[env] == pytest.approx(data.qvel[6:], abs=1e-4)
        assert batch.seen(frame, "last_action")[env] == pytest.approx(actions[env], abs=1e-6)
