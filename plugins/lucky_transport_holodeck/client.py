"""Steps the agents of any Holodeck engine as one batch: `connect`.

    env             one agent of the scenario; all must be alike
    observation     what its sensors show: of one sensor its array, of several a dict by their names
    reward          a term for each Task sensor
    terminated      a term for each Task sensor

Mixed worlds, teleports and commands are for `lucky_transport_holodeck.world_client`.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import check_request, check_unary
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET, Buffers
from lucky_transport.engine_options import answer_seeds
from lucky_transport.errors import (
    LocalProtocolError,
    NotReachable,
    PeerDied,
    SpecError,
    TransportError,
    Unimplemented,
)
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages import SetSeedsRequest, SetSeedsResponse
from lucky_transport.messages.methods import Method
from lucky_transport.messages.methods import method as method_of
from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec, total_reward
from lucky_transport.spec.composite import Part, pack, views
from lucky_transport.transport import Capabilities, Frame
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.options import WorldOptions
from lucky_transport_holodeck.scenario import AgentPlan, Scenario, SensorPlan
from lucky_transport_holodeck.world_client import WorldClient

_SLEEP_S = 0.01
_SET_SEEDS = method_of("BatchService/SetSeeds")


def connect(endpoint: Endpoint, settings: Settings) -> WorldTransport:
    """Return a transport to the engine of `holodeck://UUID`, which is started where the endpoint names its binary.

    Raises NotReachable, PeerTimeout (another client has it), PeerDied, ConfigError (for instance for want of a
    scenario), SpecError (a scenario that is no batch).
    """
    names = Names(endpoint.address)
    options = WorldOptions.of(endpoint)
    scenario = options.load()
    spec = _batch_of(scenario, options)  # an error in it is raised before anything is touched
    if options.binary:
        named = names if names.uuid else Names(str(uuid.uuid4()))
        return WorldTransport(WorldClient.start(named, scenario, settings, options), spec, options)
    deadline = Deadline(settings.connect_timeout_s)
    while not Names.file_of(names.server).exists():
        if deadline.expired:
            raise NotReachable(
                f"no engine at {endpoint} after {deadline.timeout_s} s",
                backend="holodeck",
                hint="start it, check the uuid, and that both run as the same user",
            )
        time.sleep(_SLEEP_S)
    world = WorldClient.attach(names, scenario, settings, pre_start_steps=options.pre_start_steps)
    return WorldTransport(world, spec, options)


class WorldTransport(LockstepTransport):
    """Made by `connect`. `world`: the client underneath, for teleports, commands and whole states.

    The agents share a world, and a reset loads it anew for all. So when one env ends, the others are truncated with it
    ("world_reset"), and only all of them can be reset together. Holodeck has no typed calls. Only where the scenario
    randomizes the agents' starts, which the client draws, SetSeeds decides the starts of the following resets.
    """

    name = "holodeck"
    capabilities = Capabilities(hold=False, commands=False)

    def __init__(self, world: WorldClient, spec: BatchSpec, options: WorldOptions) -> None:
        self._buffers = Buffers.allocate(spec)
        super().__init__(spec, self._buffers.actions)
        self.world = world
        self._ticks_per_step = options.ticks_per_step
        self._agents = world.scenario.agents
        self._tasks = tuple(sensor.name for sensor in self._agents[0].sensors if sensor.is_task)
        self._rows = _observation_rows(self.spec, self._agents[0], self._buffers.observations)
        self._frame = Frame.showing(self._buffers)
        self._plan: Iterator[None] = iter(())
        self._is_reset = False

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        checked, control = self._check(actions, control)
        resets = control is not None and self._resets(control)
        if not (resets or self.world.is_ready):
            raise LocalProtocolError("a step before the first reset", backend="holodeck", hint="reset every env first")
        self._keep(checked)
        self._plan = self.world.reset_ticks() if resets else self._step_ticks()
        self._is_reset = resets
        next(self._plan)
        self.world.begin_tick()
        self._lockstep.on(LockstepEvent.SEND)

    def _resets(self, control: NDArray[np.uint8]) -> bool:
        reset = (control & RESET) != 0
        if reset.any() and not reset.all():
            raise LocalProtocolError(
                f"envs {np.flatnonzero(reset).tolist()} of {len(reset)} cannot be reset by themselves: they share a "
                f"Holodeck world",
                backend="holodeck",
                hint="reset all envs together",
            )
        return bool(reset.all())

    def _step_ticks(self) -> Iterator[None]:
        for env, plan in enumerate(self._agents):
            self.world.agents[plan.name].act(self.actions[env])
        for _ in range(self._ticks_per_step):
            yield

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        try:
            self.world.finish_tick(deadline)
            while self._begin_next_tick():
                self.world.finish_tick(deadline)
        except PeerDied:
            self._lockstep.on(LockstepEvent.LOST)
            raise
        self._lockstep.on(LockstepEvent.FRAME)
        self._read()
        return self._numbered(self._frame)

    def _begin_next_tick(self) -> bool:
        """Begin the next tick of the exchange, False after its last one; where that fails, nothing is outstanding."""
        try:
            for _ in self._plan:
                self.world.begin_tick()
                return True
        except BaseException:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise
        return False

    def _read(self) -> None:
        """Fill the frame from the sensors."""
        out, tasks = self._buffers, len(self._tasks)
        for env, plan in enumerate(self._agents):
            sensors = self.world.agents[plan.name].sensors
            for name, rows in self._rows.items():
                rows[env] = sensors[name]
            for number, name in enumerate(self._tasks):
                out.signals[number, env] = sensors[name][0]
                out.signals[self._reward_terms + number, env] = sensors[name][1] == 1
        out.terminated[:] = out.signals[self._reward_terms : self._reward_terms + tasks].any(axis=0)
        out.truncated[:] = (out.terminated == 0) & bool(out.terminated.any())
        if len(self._agents) > 1:
            out.signals[-1] = out.truncated
        if self._is_reset:
            for array in (out.signals, out.terminated, out.truncated):
                array[...] = 0
        total_reward(out.signals, self._reward_terms, out.rewards)

    @property
    def _reward_terms(self) -> int:
        return len(self.spec.reward_terms)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        if self._lockstep.state in (LockstepState.CLOSED, LockstepState.LOST):
            raise self._lockstep.state_error(LockstepEvent.SEND)
        self._check_process()
        check_unary(method)
        check_request(method, request)
        if not self.implements(method):
            raise self._unimplemented(method)
        return self._set_seeds(request)

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        envs = range(len(self._agents))
        return answer_seeds(request, len(envs), lambda seeds: self.world.seed([seeds.get(env) for env in envs]))

    def _unimplemented(self, method: Method) -> TransportError:
        return Unimplemented(f"engine {self.spec.engine!r} does not implement {method.name}", backend="holodeck")

    def implements(self, method: Method) -> bool:
        return method is _SET_SEEDS and any(agent.is_random for agent in self._agents)

    def close(self) -> None:
        if self._lockstep.state is not LockstepState.CLOSED:
            self._lockstep.on(LockstepEvent.CLOSE)
            if os.getpid() == self._pid:
                self.world.close()


def _batch_of(scenario: Scenario, options: WorldOptions) -> BatchSpec:
    """Return the spec of the scenario's agents; raises SpecError when they are no batch."""
    if not scenario.agents:
        raise SpecError("the scenario has no agents", backend="holodeck")
    first = scenario.agents[0]
    for other in scenario.agents[1:]:
        if _likeness(other) != _likeness(first):
            raise SpecError(
                f"agents {first.name!r} and {other.name!r} differ in type, control scheme or sensors: no batch",
                backend="holodeck",
                hint="lucky_transport_holodeck.world_client.WorldClient drives mixed worlds",
            )
    shown = _shown(first)
    if not shown:
        raise SpecError(f"agent {first.name!r} has no sensor to observe with", backend="holodeck")
    tasks = tuple(sensor.name for sensor in first.sensors if sensor.is_task)
    shared = ("world_reset",) if len(scenario.agents) > 1 else ()
    observation, parts = _array(shown[0]), ()
    if len(shown) > 1:
        observation, parts, _ = pack([Part((sensor.name,), _array(sensor)) for sensor in shown])
    scheme = first.kind.schemes[first.control_scheme]
    limit = list(scheme.limit) if isinstance(scheme.limit, tuple) else scheme.limit
    low = [-each for each in limit] if isinstance(limit, list) else None if limit is None else -limit
    return BatchSpec(
        engine=f"holodeck:{scenario.world}",
        num_envs=len(scenario.agents),
        observation=observation,
        action=ArraySpec("float32", (scheme.size,), low, limit),
        reward_terms=tasks or ("reward",),
        termination_terms=(*tasks, *shared),
        timeout_terms=shared,
        hold=False,
        step_s=options.ticks_per_step / scenario.ticks_per_second,
        observation_parts=parts,
    )


def _likeness(agent: AgentPlan) -> tuple[Any, ...]:
    return agent.kind, agent.control_scheme, tuple((each.name, each.kind, each.shape) for each in agent.sensors)


def _shown(agent: AgentPlan) -> list[SensorPlan]:
    return [sensor for sensor in agent.sensors if not sensor.is_task]


def _array(sensor: SensorPlan) -> ArraySpec:
    return ArraySpec(sensor.shape.dtype, sensor.shape.shape)


def _observation_rows(spec: BatchSpec, agent: AgentPlan, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return sensor name -> view of `observations`, (num_envs, *its shape)."""
    if not spec.observation_parts:
        return {_shown(agent)[0].name: observations}
    return {str(path[0]): view for path, view in views(observations, spec.observation_parts).items()}
