"""A deterministic, vectorised engine of any size, with options for delay and faults.

Each env is a point that drifts: `x' = 0.9 x + 0.15 tanh(mean action + noise) * pattern`. An episode terminates when the
first element leaves [-0.5, 0.5] and is truncated after `episode_steps` steps. Noise comes from a counter-based
generator keyed by (seed, episode, step), so a trajectory depends on nothing but seeds, resets and actions: any mix of
step, reset and hold in the other envs leaves it unchanged.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler, StreamHandler
from lucky_transport.engine_options import (
    answer_seeds,
    check_numbers,
    requested_options,
)
from lucky_transport.errors import SpecError
from lucky_transport.host.task import agent_index
from lucky_transport.messages import (
    EntityId,
    EntityInfo,
    GetJointStateRequest,
    GetJointStateResponse,
    GetSceneInfoRequest,
    GetSceneInfoResponse,
    GetTelemetrySchemaRequest,
    GetTelemetrySchemaResponse,
    ImageFrame,
    JointState,
    LidarBeamAnglesResponse,
    LidarBeamCountResponse,
    LidarSensorRequest,
    ListEntitiesRequest,
    ListEntitiesResponse,
    PolicySlotSummary,
    Quat,
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SetSeedsResponse,
    StartViewportStreamRequest,
    StreamPolicySlotStateRequest,
    StreamTelemetryRequest,
    TelemetryFrame,
    TelemetrySchema,
    Transform,
    Vec3,
)
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward

_RPC = "/hazel.rpc."
_BATCH = "/lucky_transport.v1.BatchService/"
_DEFAULT_HZ = 30
_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0xBF58476D1CE4E5B9)
_MIX_C = np.uint64(0x94D049BB133111EB)


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One round of SplitMix64 (Steele, Lea, Flood 2014), a counter-based generator: equal input, equal output."""
    value = value + _MIX_A
    value = (value ^ (value >> np.uint64(30))) * _MIX_B
    value = (value ^ (value >> np.uint64(27))) * _MIX_C
    return value ^ (value >> np.uint64(31))


def _uniform(key: NDArray[np.uint64], columns: int) -> NDArray[np.float32]:
    """Return float32 (len(key), columns) in [-1, 1), a function of `key` alone."""
    counter = key[:, None] + np.arange(columns, dtype=np.uint64) * _MIX_A
    return ((_splitmix64(counter) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23)) - np.float32(1)


def _spec(
    num_envs: int, obs_size: int, act_size: int, episode_steps: int, *, reset_ticks: int, hold: bool
) -> BatchSpec:
    return BatchSpec(
        engine="toy",
        num_envs=num_envs,
        observation=ArraySpec("float32", (obs_size,)),
        action=ArraySpec("float32", (act_size,), -1.0, 1.0),
        reward_terms=("alive", "centred"),
        termination_terms=("out_of_range", "time_out"),
        timeout_terms=("time_out",),
        observation_names=tuple(f"x_{i}" for i in range(obs_size)),
        action_names=tuple(f"a_{i}" for i in range(act_size)),
        reset_ticks=reset_ticks,
        hold=hold,
        step_s=0.02,
        attributes={"task": "toy", "task_description": "stay in the middle", "max_episode_steps": episode_steps},
    )


class ToyEngine(Engine):
    """Drifting points; with `idle=True` a `step` touches nothing: the engine of transport benchmarks."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        obs_size: int = 8,
        act_size: int = 2,
        episode_steps: int = 100,
        seed: int = 0,
        idle: bool = False,
        copy_frame: bool = False,
        step_delay_s: float = 0.0,
        start_delay_s: float = 0.0,
        fail_at: int = 0,
        exit_at: int = 0,
        hang_at: int = 0,
        reset_ticks: int = 0,
        hold: bool = True,
        seedable: bool = True,
        answer_delay_s: float = 0.0,
        faulty: bool = False,
        slots: int = 0,
        parallel_envs: int = 0,
        delays_s: Sequence[float] = (),
    ) -> None:
        """`copy_frame` (with idle) copies a prepared frame each step: 0.5 everywhere, but the first and the last value
        of the batch, which hold the number of the step. `*_at` name the step (from 1) at which the engine
        raises, leaves its process at once, or sleeps without end, as a real fault would; 0 = never. Times in seconds.
        `parallel_envs`: envs step on their own, so many at once. `delays_s`: how long each env waits in a step, a
        batch as long as its slowest; fewer than there are envs are repeated.

        Services: `answer_delay_s` offers GetLidarBeamAngles, which answers after that long; `faulty` offers
        GetLidarBeamCount and StreamViewport, which raise; `slots` offers StreamPolicySlotState with that many items.
        """
        if obs_size < 1 or act_size < 1:
            raise SpecError(f"toy engine: obs_size {obs_size}, act_size {act_size}: both must be at least 1")
        time.sleep(start_delay_s)
        self.spec = _spec(num_envs, obs_size, act_size, episode_steps, reset_ticks=reset_ticks, hold=hold)
        self._episode_steps = episode_steps
        self._idle = idle
        self._step_delay_s = step_delay_s
        self._fail_at, self._exit_at, self._hang_at = fail_at, exit_at, hang_at
        self._misbehaves = bool(step_delay_s or fail_at or exit_at or hang_at)
        self.parallel_envs = parallel_envs
        self._delays_s = np.resize(np.asarray(delays_s, np.float64), num_envs) if len(delays_s) else None
        self._alone = threading.Lock()
        self._seedable = seedable
        self._count = 0
        self._seeds = np.arange(seed, seed + num_envs).astype(np.uint64)
        self._episodes = np.zeros(num_envs, np.uint64)
        self._ticks = np.zeros(num_envs, np.int64)
        self._x = np.zeros((num_envs, obs_size), np.float32)
        self._pattern = np.linspace(1.0, 0.5, obs_size, dtype=np.float32)
        self._scratch = np.empty_like(self._x)
        self._noise = np.full(num_envs, 1.0, np.float32)
        self._next_noise = self._noise.copy()
        self._prepared = np.full((num_envs, obs_size), 0.5, np.float32) if copy_frame else None
        if self._prepared is not None:
            flat: Any = self._prepared.reshape(-1)
            self._stamp: Any = memoryview(flat)
            self._stamp[0] = self._stamp[-1] = 0.0
        self._answer_delay_s = answer_delay_s
        self._faulty = faulty
        self._slots = slots
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        found: dict[str, Handler] = {
            _BATCH + "SetResetOptions": self._set_reset_options,
            _RPC + "TelemetryService/GetTelemetrySchema": self._telemetry_schema,
            _RPC + "MujocoService/GetJointState": self._joint_state,
            _RPC + "SceneService/GetSceneInfo": self._scene_info,
            _RPC + "SceneService/ListEntities": self._list_entities,
        }
        if self._seedable:
            found[_BATCH + "SetSeeds"] = self._set_seeds
        if self._answer_delay_s:
            found[_RPC + "LidarService/GetLidarBeamAngles"] = self._slow_answer
        if self._faulty:
            found[_RPC + "LidarService/GetLidarBeamCount"] = self._failing_answer
        return found

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        found: dict[str, StreamHandler] = {
            _RPC + "TelemetryService/StreamTelemetry": self._stream_telemetry,
            _RPC + "MujocoService/StreamJointState": self._stream_joint_state,
        }
        if self._slots:
            found[_RPC + "AgentService/StreamPolicySlotState"] = self._stream_slots
        if self._faulty:
            found[_RPC + "ViewportService/StreamViewport"] = self._failing_stream
        return found

    def state_of(self, env: int) -> tuple[list[float], list[float], int]:
        """Return an env's point, the actions it was given last, and its ticks since its reset; between steps only."""
        return self._x[env].tolist(), self._buffers.actions[env].tolist(), int(self._ticks[env])

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def bind_slot(self, buffers: Buffers) -> bool:
        if self._idle and self._prepared is None:
            return False
        self._buffers = buffers
        return True

    def step_env(self, env: int, control: int) -> None:
        if self._delays_s is not None:
            time.sleep(self._delays_s[env])
        codes = np.full(self.spec.num_envs, HOLD, np.uint8)
        codes[env] = control
        with self._alone:
            self._step(codes)

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if self._delays_s is not None:
            steps = self._delays_s if control is None else self._delays_s[(control & HOLD) == 0]
            time.sleep(steps.max(initial=0.0))
        self._step(control)

    def _step(self, control: NDArray[np.uint8] | None) -> None:
        if self._misbehaves:
            self._misbehave()
        if self._idle:
            if self._prepared is not None:
                self._stamp[0] = self._stamp[-1] = self._stamp[0] + 1.0
                np.copyto(self._buffers.observations, self._prepared)
            return
        if control is None:
            self._advance(slice(None))
            return
        reset = np.flatnonzero(control & RESET)
        ticks_on_reset = bool(self.spec.reset_ticks)
        if (control & HOLD).any():
            self._reset(reset)
            idle = HOLD if ticks_on_reset else HOLD | RESET
            self._advance(np.flatnonzero((control & idle) == 0), ignore_actions_of=control)
        elif ticks_on_reset:
            self._reset(reset)
            self._advance(slice(None), ignore_actions_of=control)
        else:  # stepping all in place and then resetting some is far cheaper than selecting the envs that step
            if reset.size < self.spec.num_envs:
                self._advance(slice(None))
            self._reset(reset)

    def _misbehave(self) -> None:
        self._count += 1
        if self._count == self._fail_at:
            raise ArithmeticError(f"toy engine was asked to fail at step {self._fail_at}")
        if self._count == self._exit_at:
            os._exit(3)
        if self._count == self._hang_at:
            time.sleep(3600)
        if self._step_delay_s:
            time.sleep(self._step_delay_s)

    def _key(self, envs: Any) -> NDArray[np.uint64]:
        mixed = _splitmix64(self._seeds[envs] * _MIX_B + self._episodes[envs])
        return _splitmix64(mixed + self._ticks[envs].astype(np.uint64))

    def _reset(self, envs: NDArray[np.intp]) -> None:
        self._episodes[envs] += np.uint64(1)
        self._ticks[envs] = 0
        self._noise[envs] = self._next_noise[envs]
        self._x[envs] = _uniform(self._key(envs), self._x.shape[1]) * np.float32(0.3)
        out = self._buffers
        out.observations[envs] = self._x[envs]
        out.rewards[envs] = 0
        out.terminated[envs] = 0
        out.truncated[envs] = 0
        out.signals[:, envs] = 0

    def _advance(self, envs: Any, ignore_actions_of: NDArray[np.uint8] | None = None) -> None:
        out = self._buffers
        push = out.actions[envs].mean(axis=1, dtype=np.float32)
        if ignore_actions_of is not None:
            push[(ignore_actions_of[envs] & RESET) != 0] = 0
        self._ticks[envs] += 1
        drift = np.float32(0.15) * np.tanh(push + _uniform(self._key(envs), 1)[:, 0] * self._noise[envs])
        first = self._drift(envs, drift)
        out_of_range = np.abs(first) > np.float32(0.5)
        time_out = self._ticks[envs] >= self._episode_steps
        out.signals[0, envs] = 1.0
        out.signals[1, envs] = -np.abs(first)
        out.signals[2, envs] = out_of_range
        out.signals[3, envs] = time_out
        out.rewards[envs] = total_reward(out.signals[:2, envs], 2)
        out.terminated[envs] = out_of_range
        out.truncated[envs] = time_out

    def _drift(self, envs: Any, drift: NDArray[np.float32]) -> NDArray[np.float32]:
        """Move the points of `envs`, show them as observations, return their first elements (num_envs of them,)."""
        if isinstance(envs, slice):  # the whole batch: in place, nothing allocated
            np.multiply(self._x, np.float32(0.9), self._x)
            np.einsum("i,j->ij", drift, self._pattern, out=self._scratch)  # half the time of a broadcast multiply
            np.add(self._x, self._scratch, self._x)
            np.copyto(self._buffers.observations, self._x)
            return self._x[:, 0]
        x = np.multiply(self._x[envs], np.float32(0.9), dtype=np.float32) + drift[:, None] * self._pattern
        self._x[envs] = x
        self._buffers.observations[envs] = x
        return x[:, 0]

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        return answer_seeds(request, self.spec.num_envs, self._take_seeds)

    def _take_seeds(self, seeds: dict[int, int]) -> None:
        for env, seed in seeds.items():
            self._seeds[env], self._episodes[env] = seed, 0

    def _set_reset_options(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        """Noise is `joint_position_noise` of the contract, or the option "noise"; with neither it is as at first."""
        options = requested_options(request) or {}
        check_numbers({name: value for name, value in options.items() if name == "noise"}, {"noise": float})
        if request.contract is not None and request.contract.joint_position_noise:
            options.setdefault("noise", request.contract.joint_position_noise)
        if request.contract is None and not options:
            self._next_noise[:] = 1.0
        if "noise" in options:
            self._next_noise[:] = float(options["noise"])
        return SetResetOptionsResponse(True)

    # the typed methods: they show the points as they are between two steps

    def _telemetry_schema(self, _: GetTelemetrySchemaRequest) -> GetTelemetrySchemaResponse:
        spec = self.spec
        names, actions = list(spec.observation_names), list(spec.action_names)
        return GetTelemetrySchemaResponse(TelemetrySchema(names, actions, spec.observation.size, spec.action.size))

    def _stream_telemetry(self, request: StreamTelemetryRequest, call: Call) -> Iterator[TelemetryFrame]:
        for _ in call.ticks(request.target_fps or _DEFAULT_HZ):
            with call.between_steps():
                point, action, tick = self.state_of(0)
            yield TelemetryFrame(time.time_ns() // 1_000_000, tick, 0, point, action)

    def _joint_state(self, request: GetJointStateRequest) -> GetJointStateResponse:
        spec = self.spec
        env = agent_index(spec, request.robot_name)
        if env < 0:
            known = f"there are agent_0 to agent_{spec.num_envs - 1}"
            return GetJointStateResponse(False, f"no robot {request.robot_name!r}; {known}")
        point, _, _ = self.state_of(env)
        return GetJointStateResponse(True, "", JointState(point, [], len(point), 0))

    def _stream_joint_state(self, request: GetJointStateRequest, call: Call) -> Iterator[GetJointStateResponse]:
        for _ in call.ticks(_DEFAULT_HZ):
            with call.between_steps():
                state = self._joint_state(request)
            yield state
            if not state.success:
                return

    def _scene_info(self, _: GetSceneInfoRequest) -> GetSceneInfoResponse:
        return GetSceneInfoResponse("toy", "", self.spec.num_envs)

    def _list_entities(self, request: ListEntitiesRequest) -> ListEntitiesResponse:
        entities: list[EntityInfo] = []
        for env in range(self.spec.num_envs):
            entity = EntityInfo(EntityId(env + 1), f"agent_{env}")
            if request.include_transforms:
                place = Vec3(self.state_of(env)[0][0], 0.0, 0.0)
                upright, as_authored = Quat(w=1.0), Vec3(1.0, 1.0, 1.0)
                entity.transform = Transform(place, upright, as_authored)
            if request.include_components:
                entity.components = ["point"]
            entities.append(entity)
        return ListEntitiesResponse(entities)

    def _slow_answer(self, request: LidarSensorRequest) -> LidarBeamAnglesResponse:
        time.sleep(self._answer_delay_s)
        return LidarBeamAnglesResponse(request.sensor)

    def _failing_answer(self, request: LidarSensorRequest) -> LidarBeamCountResponse:
        raise LookupError(f"toy engine was asked to fail over sensor {request.sensor}")

    def _failing_stream(self, _: StartViewportStreamRequest, call: Call) -> Iterator[ImageFrame]:
        for number in range(2):
            yield ImageFrame(frame_number=number)
        raise ArithmeticError("toy engine was asked to fail in this stream")

    def _stream_slots(self, request: StreamPolicySlotStateRequest, call: Call) -> Iterator[PolicySlotSummary]:
        for slot in range(self._slots):
            if call.is_over:
                return
            yield PolicySlotSummary(slot_id=slot, name=f"slot_{slot}")
