"""A batch of pendulums that a motor swings up, the same in every language: the engine of the conformance vectors.

Dynamics of Gymnasium's Pendulum-v1 in float32. Every operation is one of + - * / on float32, rounded to nearest, in the
order that is written here, and the sine is a polynomial of such operations: the same numbers come out bit for bit in
every language, with any C library. It differs from Gymnasium's in three ways: the angle is kept in [-pi, pi], the sine
is off by up to 1e-6, and an env starts where its seed says.

    angle         rad from upright, counterclockwise
    velocity      rad/s, at most 8 either way
    action        torque in N m, clipped to [-2, 2]
    observation   cos(angle), sin(angle), velocity
    signals       -angle^2, -0.1 velocity^2, -0.001 torque^2 (before the tick), time_out
    camera        "front", "agent_3/front" for env 3: grey, with a white square at the pole's end

An episode is truncated at its tick `max_ticks`, and at each later one until it is reset. Its start is a function of the
env's seed and of the number of the episode since it was seeded: see `_start`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler, StreamHandler
from lucky_transport.engine_options import answer_seeds, check_options, option_names, unknown_variant
from lucky_transport.errors import SpecError, UnknownName
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    CameraInfo,
    GetJointStateRequest,
    GetJointStateResponse,
    ImageFrame,
    JointState,
    ListCamerasRequest,
    ListCamerasResponse,
    SetSeedsRequest,
    SetSeedsResponse,
    StreamCameraRequest,
)
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward

_F = np.float32
_PI, _HALF_PI, _TWO_PI = _F(3.1415927), _F(1.5707964), _F(6.2831855)
#: Coefficients of the sine's Taylor series, x^11 first.
_SERIES = tuple(_F(1) / _F(value) for value in (-39916800, 362880, -5040, 120, -6))
_MAX_TORQUE, _MAX_VELOCITY = _F(2), _F(8)
_TICK_S = _F(0.05)
_GRAVITY, _TORQUE = _F(15), _F(3)  # 3 g / (2 l) and 3 / (m l^2), with g = 10, l = 1, m = 1
_VELOCITY_WEIGHT, _TORQUE_WEIGHT = _F(0.1), _F(0.001)
_HZ = 30
#: Width and height of an image in pixels, and bytes per pixel.
_PIXELS, _CHANNELS = 64, 4
_CAMERA = "front"

_WORD = (1 << 64) - 1


def sine(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sine of angles in [-pi, pi], the same bits on every machine."""
    folded = np.where(x > _HALF_PI, _PI - x, np.where(x < -_HALF_PI, -_PI - x, x))
    square = folded * folded
    series = square * _SERIES[0]
    for coefficient in _SERIES[1:]:
        series = (series + coefficient) * square
    return folded * (series + _F(1))


def _splitmix64(value: int) -> int:
    """One round of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)


def _uniform(key: int) -> np.float32:
    """Return a number in [-1, 1), a function of `key` alone: its upper 24 bits, which float32 holds exactly."""
    return _F(_splitmix64(key) >> 40) / _F(1 << 23) - _F(1)


def _start(seed: int, episode: int) -> tuple[np.float32, np.float32]:
    """Return angle and velocity at the start of an episode; the first one after seeding is number 0."""
    key = _splitmix64((seed + _splitmix64(episode)) & _WORD)
    return _PI * _uniform(key), _uniform((key + 1) & _WORD)


class PendulumEngine(Engine):
    """See the module. Env i has the seed `seed` + i until it is given another one."""

    def __init__(self, num_envs: int = 1, *, max_ticks: int = 200, seed: int = 0) -> None:
        if max_ticks < 1:
            raise SpecError(f"pendulum engine: max_ticks {max_ticks}: expected at least 1")
        self.spec = BatchSpec(
            engine="pendulum",
            num_envs=num_envs,
            observation=ArraySpec("float32", (3,), [-1.0, -1.0, -8.0], [1.0, 1.0, 8.0]),
            action=ArraySpec("float32", (1,), -2.0, 2.0),
            reward_terms=("angle", "velocity", "effort"),
            termination_terms=("time_out",),
            timeout_terms=("time_out",),
            observation_names=("cos", "sin", "velocity"),
            action_names=("torque",),
            step_s=0.05,
            attributes={"max_episode_steps": max_ticks},
        )
        self._max_ticks = max_ticks
        self._seeds: list[int] = [(seed + env) & _WORD for env in range(num_envs)]
        self._episodes: list[int] = [0] * num_envs
        self._angles = np.zeros(num_envs, np.float32)
        self._velocities = np.zeros(num_envs, np.float32)
        self._ticks = np.zeros(num_envs, np.int64)
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        return {
            "/lucky_transport.v1.BatchService/SetSeeds": self._set_seeds,
            "/hazel.rpc.MujocoService/GetJointState": self._joint_state,
            "/hazel.rpc.CameraService/ListCameras": self._list_cameras,
        }

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return {
            "/hazel.rpc.MujocoService/StreamJointState": self._stream_joint_state,
            "/hazel.rpc.CameraService/StreamCamera": self._stream_camera,
        }

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def bind_slot(self, buffers: Buffers) -> bool:
        self._buffers = buffers
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if control is None:
            self._advance(np.arange(self.spec.num_envs))
            return
        self._reset(np.flatnonzero(control & RESET))
        self._advance(np.flatnonzero((control & (RESET | HOLD)) == 0))

    def _reset(self, envs: NDArray[np.intp]) -> None:
        env: int
        for env in envs.tolist():
            self._angles[env], self._velocities[env] = _start(self._seeds[env], self._episodes[env])
            self._episodes[env] += 1
            self._ticks[env] = 0
        self._observe(envs)

    def _advance(self, envs: NDArray[np.intp]) -> None:
        out = self._buffers
        angle, velocity = self._angles[envs], self._velocities[envs]
        torque = np.clip(out.actions[envs, 0], -_MAX_TORQUE, _MAX_TORQUE)
        self._ticks[envs] += 1
        ended = self._ticks[envs] >= self._max_ticks
        out.signals[0, envs] = -(angle * angle)
        out.signals[1, envs] = -(_VELOCITY_WEIGHT * (velocity * velocity))
        out.signals[2, envs] = -(_TORQUE_WEIGHT * (torque * torque))
        out.signals[3, envs] = ended
        out.rewards[envs] = total_reward(out.signals[:3, envs], 3)
        out.terminated[envs] = 0
        out.truncated[envs] = ended
        velocity += (_GRAVITY * sine(angle) + _TORQUE * torque) * _TICK_S
        np.clip(velocity, -_MAX_VELOCITY, _MAX_VELOCITY, velocity)
        angle += velocity * _TICK_S
        angle -= np.where(angle > _PI, _TWO_PI, _F(0)) - np.where(angle < -_PI, _TWO_PI, _F(0))
        self._angles[envs] = angle
        self._velocities[envs] = velocity
        self._observe(envs)

    def _observe(self, envs: NDArray[np.intp]) -> None:
        out, angle = self._buffers.observations, self._angles[envs]
        out[envs, 0] = sine(_HALF_PI - np.abs(angle))
        out[envs, 1] = sine(angle)
        out[envs, 2] = self._velocities[envs]

    # the typed methods

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        return answer_seeds(request, self.spec.num_envs, self._take_seeds)

    def _take_seeds(self, seeds: dict[int, int]) -> None:
        for env, seed in seeds.items():
            self._seeds[env], self._episodes[env] = seed, 0

    def _joint_state(self, request: GetJointStateRequest) -> GetJointStateResponse:
        env = agent_index(self.spec, request.robot_name)
        if env < 0:
            return GetJointStateResponse(False, f"no robot '{request.robot_name}'")
        state = JointState([float(self._angles[env])], [float(self._velocities[env])], 1, 1)
        return GetJointStateResponse(True, "", state)

    def _stream_joint_state(self, request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _ in call.ticks(_HZ):
            with call.between_steps():
                state = self._joint_state(request)
            yield state
            if not state.success:
                return

    def _list_cameras(self, _: ListCamerasRequest) -> ListCamerasResponse:
        return ListCamerasResponse([CameraInfo(name=_CAMERA)])

    def _stream_camera(self, request: StreamCameraRequest, call: Call) -> Iterator[ImageFrame]:
        env = self._camera_env(request.name)
        for number in call.ticks(request.target_fps or _HZ):
            with call.between_steps():
                column, row = self._end_of_pole(env)
            pixels = np.full((_PIXELS, _PIXELS, _CHANNELS), 128, np.uint8)
            pixels[row - 2 : row + 2, column - 2 : column + 2] = 255
            yield ImageFrame(pixels.tobytes(), _PIXELS, _PIXELS, _CHANNELS, "raw", time.time_ns() // 1_000_000, number)

    def _camera_env(self, name: str) -> int:
        """Return the env that the camera called `name` shows: "" and "front" env 0, "agent_3/front" env 3."""
        agent, _, camera = name.rpartition("/")
        env = agent_index(self.spec, agent)
        if env < 0 or camera not in ("", _CAMERA):
            raise UnknownName(
                f"no camera '{name}'", hint=f"there are agent_0/{_CAMERA} to agent_{self.spec.num_envs - 1}/{_CAMERA}"
            )
        return env

    def _end_of_pole(self, env: int) -> tuple[int, int]:
        """Return the pixel, from the left and from the top, at which an env's pole ends."""
        angle = self._angles[env : env + 1]
        length, middle = _F(24), _F(_PIXELS // 2)
        column = middle - length * sine(angle)[0]
        row = middle - length * sine(_HALF_PI - np.abs(angle))[0]
        return int(column), int(row)


def make_engine(variant: str = "", num_envs: int = 1, *, seed: int | None = None, **options: Any) -> PendulumEngine:
    """Return an engine of pendulums; options as for `PendulumEngine`. Raises UnknownName, ConfigError, SpecError."""
    if variant:
        raise unknown_variant("pendulum", variant, ())
    check_options("pendulum", options, option_names(PendulumEngine))
    return PendulumEngine(num_envs, seed=seed or 0, **options)
