"""The engine `mujoco`: N quadrupeds with one of the tasks of velocity commands, stepped at 50 Hz of simulated time.

Envs never influence each other: any mix of step, reset and hold gives each env the same trajectory, bit for bit, on any
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, TICK, Buffers, Engine, Handler, StreamHandler
from lucky_transport.engine_options import (
    answer_seeds,
    check_options,
    option_names,
    requested_options,
    unknown_variant,
)
from lucky_transport.errors import SpecError
from lucky_transport.messages import (
    GetCameraFrameRequest,
    NamedImageFrame,
    SetResetOptionsRequest,
    SetResetOptionsResponse,
    SetSeedsRequest,
    SetSeedsResponse,
)
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec, total_reward
from lucky_transport_mujoco import robot, terrain
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD
from lucky_transport_mujoco.physics import Motion, Physics
from lucky_transport_mujoco.randomization import Parameters, Randomization, RandomStreams, findings, rounded
from lucky_transport_mujoco.services.mujoco_services import MujocoServices
from lucky_transport_mujoco.tasks.commands import ActionGroups, Pushes, VelocityCommands, groups
from lucky_transport_mujoco.tasks.velocity import (
    TASKS,
    TERMINATIONS,
    VELOCITY,
    Sight,
    Situation,
    Task,
    judge,
    observation_names,
    observation_terms,
    observe,
)
from lucky_transport_mujoco.world import MujocoWorlds

#: Actions saturate here, ten times their bound: further out lie only numbers whose squares are not finite.
_SATURATION = np.float32(10)


class MujocoEngine(Engine):
    """The engine. `parameters` are the physical parameters of each env since its last reset.

    An action is an offset from the standing pose, per joint, in units of `ACTION_SCALE_RAD`. Before its first reset an
    env stands in the standing pose with the command to stay there. A seed and a contract take effect at an env's next
    reset. A step with actions is exactly what these say; policies and hand-set controls drive in steps without only.
    """

    def __init__(
        self,
        num_envs: int = 1,
        task: Task = VELOCITY,
        /,
        *,
        seed: int = 0,
        episode_s: float = 20.0,
        max_episode_steps: int = 0,
        threads: int = 0,
        renderer: str = "auto",
    ) -> None:
        """Env i draws from seed + i. `max_episode_steps` (0: as many as `episode_s` takes) truncates. `threads` 0: one
        per processor. `renderer`: what takes images, see `lucky_transport_mujoco.sensors.render_thread`.

        Raises SpecError for numbers out of range.
        """
        if seed < 0:
            raise SpecError(f"seed {seed}: expected 0 or more")
        self._robot = robot.load()
        steps = max_episode_steps or episode_s / self._robot.step_s
        self._max_episode_steps = round(steps) if math.isfinite(steps) else 0
        if self._max_episode_steps < 1:
            raise SpecError(f"episode_s {episode_s}, max_episode_steps {max_episode_steps}: expected at least one step")
        self._task = task
        self._num_rewards = len(task.reward_names)
        self.spec = _spec(self._robot, num_envs, self._max_episode_steps, task)
        self._all_envs = np.arange(num_envs)
        self._no_env = np.zeros(num_envs, np.bool_)
        self._ticks = np.zeros(num_envs, np.int64)
        self._streams = RandomStreams(num_envs, seed)
        self._physics = Physics(self._robot, num_envs, threads)
        self._randomization = Randomization(self._robot, self._physics, self._streams, task.contract)
        self._commands = VelocityCommands(num_envs, self._robot.step_s, self._streams, task.contract)
        self._pushes = Pushes(num_envs, self._robot.step_s, self._streams)
        self._groups = ActionGroups(self.spec)
        self._world = MujocoWorlds(
            self.spec, task, self._robot, self._physics, self._randomization, self._commands.values
        )
        self._services = MujocoServices(self._world, renderer)
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        return {
            **self._services.handlers,
            "/hazel.rpc.AgentService/SetActionGroup": self._groups.put,
            "/lucky_transport.v1.BatchService/SetSeeds": self._set_seeds,
            "/lucky_transport.v1.BatchService/SetResetOptions": self._set_reset_options,
        }

    @property
    def streams(self) -> Mapping[str, StreamHandler]:
        return self._services.streams

    @property
    def world(self) -> MujocoWorlds:
        """What the services see, for the process that owns the engine; between steps only."""
        return self._world

    @property
    def parameters(self) -> Parameters:
        """The physical parameters, valid until an env is reset; not to be written to."""
        return self._randomization.parameters

    @property
    def physics(self) -> Physics:
        """The worlds themselves, for the process that owns the engine; between steps only."""
        return self._physics

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._world.agent_drives[:] = False

    def bind_slot(self, buffers: Buffers) -> bool:
        self._buffers = buffers
        return True

    def step(self, control: NDArray[np.uint8] | None) -> None:
        if control is None:
            self._advance(self._all_envs, self._no_env, self._no_env)
            return
        fresh = (control & RESET) != 0
        envs = np.flatnonzero(fresh | ((control & HOLD) == 0))
        if fresh.any():
            self._reset(np.flatnonzero(fresh))
        if envs.size:
            self._advance(envs, fresh[envs], ((control & TICK) != 0)[envs])

    def check_camera_requests(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> None:
        self._services.cameras.check(env, requests)

    def camera_frames(self, env: int, requests: Sequence[GetCameraFrameRequest]) -> list[NamedImageFrame]:
        return self._services.cameras.frames(env, requests)

    def _reset(self, envs: NDArray[np.intp]) -> None:
        self._streams.begin(envs)
        self._randomization.reset(envs)
        self._commands.reset(envs, self._randomization.contract)
        self._pushes.reset(envs, self._randomization.contract)
        self._world.controllers.reset(envs)
        self._ticks[envs] = 0

    def _advance(self, envs: NDArray[np.intp], fresh: NDArray[np.bool_], ticking: NDArray[np.bool_]) -> None:
        """Do one control step of `envs` and write their rows.

        `fresh` ones, just reset, do it with zero action; `ticking` ones with what drives them here.
        """
        world = self._world
        previous = world.actions[envs]
        action = self._buffers.actions[envs]
        for row in np.flatnonzero(ticking & ~fresh) if ticking.any() else ():
            env = int(envs[row])
            world.driving.fill(env, action[row], takes_over=bool(world.agent_drives[env]))
        action = self._groups.over(envs, action)
        action = np.clip(action, -_SATURATION, _SATURATION)
        action[fresh] = 0
        world.actions[envs] = action
        world.agent_drives[envs] = with_actions = ~(fresh | ticking)
        world.driving.release(envs[with_actions | fresh])
        self._pushes.apply(envs, self._ticks[envs], self._physics.qvel)
        targets = self._robot.joint_home + ACTION_SCALE_RAD * action.astype(np.float64)
        world.ctrl[envs] = targets
        diverged = self._physics.advance(envs, targets + self.parameters.motor_offset[envs])
        self._ticks[envs] += ~fresh  # the tick of a reset does not count towards the episode
        world.frames[envs] += 1
        self._write(envs, previous, diverged)

    def _write(self, envs: NDArray[np.intp], previous: NDArray[np.float32], diverged: NDArray[np.bool_]) -> None:
        """Write the frame's rows of `envs`: outcomes under the command they had, then what they see next."""
        physics, parameters, out = self._physics, self.parameters, self._buffers
        slope = terrain.angle(parameters.terrain[envs], parameters.difficulty[envs])
        motion = Motion.of(physics.qpos[envs], physics.qvel[envs], self._robot.joint_home, slope)
        action, ticks = self._world.actions[envs], self._ticks[envs]
        situation = Situation(
            motion, self._commands.values[envs], action, previous, physics.torques[envs], ticks, diverged
        )
        signals = judge(situation, self._max_episode_steps, self._task)
        ended = signals[self._num_rewards :] != 0
        out.signals[:, envs] = signals
        out.rewards[envs] = total_reward(signals, self._num_rewards)
        out.terminated[envs] = ended[~_TIMEOUTS].any(axis=0)
        out.truncated[envs] = ended[_TIMEOUTS].any(axis=0)
        self._commands.update(envs, ticks)
        out.observations[envs] = observe(Sight(motion, self._commands.values[envs], action, ticks), self._task)

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        return answer_seeds(request, self.spec.num_envs, self._plan_seeds)

    def _plan_seeds(self, seeds: dict[int, int]) -> None:
        for env, seed in seeds.items():
            self._streams.plan(env, seed)

    def _set_reset_options(self, request: SetResetOptionsRequest) -> SetResetOptionsResponse:
        """Keep the contract for all later resets. This engine knows no other option, and ignores those of others."""
        options = requested_options(request)
        if request.contract is not None:
            problems = findings(request.contract)
            if problems:
                return SetResetOptionsResponse(False, "; ".join(problems))
            self._randomization.contract = rounded(request.contract)
        elif not options:  # nothing at all asks for what holds without any contract
            self._randomization.contract = self._task.contract
        return SetResetOptionsResponse(True)

    def close(self) -> None:
        self._services.close()
        self._physics.close()


_TIMEOUTS = np.array([term.is_timeout for term in TERMINATIONS])


def _spec(body: robot.Robot, num_envs: int, max_episode_steps: int, task: Task) -> BatchSpec:
    return BatchSpec(
        engine=f"mujoco:{task.variant}",
        num_envs=num_envs,
        observation=ArraySpec("float32", (len(observation_names(body, task)),)),
        action=ArraySpec("float32", (body.nu,), -1.0, 1.0),
        reward_terms=task.reward_names,
        termination_terms=tuple(term.name for term in TERMINATIONS),
        timeout_terms=tuple(term.name for term in TERMINATIONS if term.is_timeout),
        observation_names=observation_names(body, task),
        action_names=body.actuator_names,
        observation_terms=observation_terms(body, task),
        action_groups=groups(body),
        reset_ticks=1,  # a reset is followed by one tick with zero action, as in LuckyEngine
        hold=True,
        step_s=body.step_s,
        attributes={
            "task": task.name,
            "task_description": task.description,
            "max_episode_steps": max_episode_steps,
            "render_fps": round(1 / body.step_s),
        },
    )


def make_engine(variant: str = "", num_envs: int = 1, **options: Any) -> MujocoEngine:
    """Return a MujocoEngine; `variant` is that of a task, "" the first one's.

    Raises UnknownName for another variant, ConfigError for options it does not take, SpecError for their values.
    """
    tasks = {task.variant: task for task in TASKS}
    task = tasks.get(variant or VELOCITY.variant)
    if task is None:
        raise unknown_variant("mujoco", variant, tasks)
    check_options("mujoco", options, option_names(MujocoEngine))
    try:
        return MujocoEngine(num_envs, task, **options)
    except TypeError as error:
        raise SpecError(f"mujoco engine: {error}", hint="see MujocoEngine for its options") from error
