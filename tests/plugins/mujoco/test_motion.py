"""The kinematics behind observations, against MuJoCo's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

mujoco: Any = pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.physics import product, rotated_back, rotation  # noqa: E402


def random_quaternions(count: int) -> Any:
    """Unit quaternions of all directions."""
    quat = np.random.default_rng(0).standard_normal((count, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


def test_turning_into_a_frame_agrees_with_mujoco() -> None:
    quats, vectors = random_quaternions(50), np.random.default_rng(1).standard_normal((50, 3))
    for quat, vector, found in zip(quats, vectors, rotated_back(quats, vectors), strict=True):
        inverse, expected = np.empty(4), np.empty(3)
        mujoco.mju_negQuat(inverse, quat)
        mujoco.mju_rotVecQuat(expected, vector, inverse)
        assert found == pytest.approx(expected)


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
