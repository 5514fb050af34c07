"""A client of any Holodeck engine, as the original's own: agents, sensors, commands, resets, ticks.

    with WorldClient.attach(Names("demo"), scenario, settings) as world:
        state = world.reset()                           agent -> sensor -> array
        world.agents["uav0"].act([0, 0, 2, 1000])
        state = world.tick()

Every wait is bounded, and a dead engine ends it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.closing import Closing
from lucky_transport.config import Settings, environment
from lucky_transport.deadline import Deadline
from lucky_transport.errors import LocalProtocolError, PeerDied, SpecError
from lucky_transport.process import ChildProcess
from lucky_transport_holodeck import semaphores
from lucky_transport_holodeck.blocks import REFUSED_BYTES, map_block
from lucky_transport_holodeck.commands import BUFFER_BYTES, HolodeckCommand, add_sensor, encode, spawn_agent
from lucky_transport_holodeck.handshake import ClientHandshake
from lucky_transport_holodeck.names import COMMAND_BOOL, COMMAND_BUFFER, REFUSED, RESET, Names, find_peer
from lucky_transport_holodeck.options import WorldOptions
from lucky_transport_holodeck.remote_agent import RemoteAgent
from lucky_transport_holodeck.scenario import Scenario
from lucky_transport_holodeck.semaphores import Semaphore, unlink
from lucky_transport_holodeck.sensor_types import wire_type

#: Agent -> sensor -> array of the sensor's own dtype and shape.
State = dict[str, dict[str, NDArray[Any]]]

_LOADING_TICKS = 3
_CONNECT_HINT = (
    "connect again once no other client drives it, raise connect_timeout_s (LUCKY_CONNECT_TIMEOUT_S), or restart it"
)


class AttachedEngine:
    """An engine that was running before. Where its process cannot be seen, only deadlines end a wait for it."""

    ends_with_us = False

    def __init__(self, names: Names) -> None:
        self._peer = find_peer(Names.file_of(names.server))

    @property
    def is_alive(self) -> bool:
        """False once the engine is known to be dead."""
        return self._peer is None or self._peer.alive

    def check(self) -> None:
        if self._peer is not None and not self._peer.alive:
            raise PeerDied(
                f"the Holodeck engine (pid {self._peer.pid}) ended",
                backend="holodeck",
                hint="start it and connect again",
            )

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()


class StartedEngine(ChildProcess):
    """An engine that is started here, with the original's command line.

    Raises NotReachable when it ends before it posts LOADING, or does not post it in time.
    """

    ends_with_us = True

    def __init__(self, names: Names, scenario: Scenario, options: WorldOptions, start_timeout_s: float) -> None:
        width, height = scenario.window
        unlink(names.loading)
        loading = Semaphore.create(names.loading, 0, "block")
        try:
            super().__init__(
                "holodeck",
                [
                    *(options.binary, scenario.world, "-HolodeckOn", "-LOG=HolodeckLog.txt", "-ForceRes"),
                    *(f"-ResX={width}", f"-ResY={height}", f"--HolodeckUUID={names.uuid}"),
                    f"-TicksPerSec={scenario.ticks_per_second}",
                    *scenario.launch,
                ],
                environ=environment(),
            )
            with ExitStack() as stack:
                stack.callback(self.close)
                late = "raise start_timeout_s, or run it by hand"
                self.await_ready(loading.wait, Deadline(start_timeout_s), late=late, ended="run it by hand")
                stack.pop_all()
        finally:
            unlink(names.loading)
            loading.close()

    def check(self) -> None:
        if report := self.exit_report(0.0):
            raise PeerDied(f"the Holodeck engine ended: {report}", backend="holodeck", hint="start it again")

    def close(self) -> None:
        self.kill()  # as the original does: it has no other way to end
        self.stop()


class WorldClient(Closing):
    """Made by `attach` or `start`; the first tick comes with `reset`. `agents`: by name, once it was reset. is_ready:
    True from the end of a reset until the next one begins.

    A reset is the original's, tick by tick: three ticks for the world to load, then agents and sensors, then
    `pre_start_steps` and one more. An agent that the scenario calls existing is not spawned; it gets its sensors and
    acts like the others.
    """

    def __init__(
        self,
        names: Names,
        scenario: Scenario,
        settings: Settings,
        link: AttachedEngine | StartedEngine,
        *,
        pre_start_steps: int = 2,
    ) -> None:
        self.scenario = scenario
        self.agents: dict[str, RemoteAgent] = {}
        self.is_ready = False
        self._is_ticking = False
        self._names = names
        self._settings = settings
        self._link = link
        self._pre_start_steps = pre_start_steps
        self._commands: list[HolodeckCommand] = []
        self._is_closed = False
        self._generators = [random.Random() for _ in scenario.agents]
        self._handshake = ClientHandshake(names, settings.wait, link.check)
        try:
            self._flag = map_block(names.block(COMMAND_BOOL), "uint8", (1,))
            self._buffer = map_block(names.block(COMMAND_BUFFER), "uint8", (BUFFER_BYTES,))
            self._reset = map_block(names.block(RESET), "uint8", (1,))
            self._refused = map_block(names.block(REFUSED), "uint8", (REFUSED_BYTES,))
            self._handshake.wait(Deadline(settings.connect_timeout_s), _CONNECT_HINT)
        except BaseException:
            self._handshake.close()
            raise

    @classmethod
    def attach(cls, names: Names, scenario: Scenario, settings: Settings, *, pre_start_steps: int = 2) -> WorldClient:
        """Return a client of a running engine; raises NotReachable, PeerTimeout (another client has it), PeerDied."""
        link = AttachedEngine(names)
        try:
            return cls(names, scenario, settings, link, pre_start_steps=pre_start_steps)
        except BaseException:
            if not link.is_alive:
                _remove(names)
            link.close()
            raise

    @classmethod
    def start(cls, names: Names, scenario: Scenario, settings: Settings, options: WorldOptions) -> WorldClient:
        """Return a client of an engine that it starts, and ends with `close`; raises NotReachable, PeerDied."""
        link = StartedEngine(names, scenario, options, settings.start_timeout_s)
        try:
            return cls(names, scenario, settings, link, pre_start_steps=options.pre_start_steps)
        except BaseException:
            link.close()
            _remove(names)
            raise

    # -- commands and ticks -------------------------------------------------------------------------------------------

    def send(self, *commands: HolodeckCommand) -> None:
        """Have the engine carry out commands before its next tick."""
        self._commands += commands

    def world_command(self, name: str, numbers: Iterable[float] = (), strings: Iterable[str] = ()) -> None:
        """Send a command of the world's own, for instance ("SetWeather", strings=["rain"])."""
        self.send(HolodeckCommand("CustomCommand", (name, *strings), tuple(map(float, numbers))))

    def begin_tick(self) -> None:
        """Have the engine tick, with the commands that wait; raises SpecError when they are too long, and drops them.

        A tick that was not waited for to its end is waited for first.
        """
        if self._is_ticking:
            self.finish_tick()
        commands, self._commands = self._commands, []
        if commands:
            batch = encode(commands)
            self._buffer[: len(batch)] = np.frombuffer(batch, np.uint8)
            self._flag[0] = 1
        self._is_ticking = True
        self._handshake.post()

    def finish_tick(self, deadline: Deadline | None = None) -> None:
        """Wait for the end of the tick; raises PeerTimeout (the tick may still end), PeerDied."""
        self._handshake.wait(Deadline.after(deadline, self._settings.step_timeout_s))
        self._is_ticking = False

    def tick(self, count: int = 1) -> State:
        """Let `count` ticks pass and return the state after the last one."""
        if not self.is_ready:
            raise LocalProtocolError("tick() before reset()", backend="holodeck", hint="call reset() first")
        for _ in range(count):
            self.begin_tick()
            self.finish_tick()
        return self.state()

    def step(self, action: Any, ticks: int = 1) -> tuple[dict[str, NDArray[Any]], float, bool]:
        """Have the main agent act, let ticks pass, and return its sensors, its reward and whether its episode ended."""
        agent = self.main_agent
        agent.act(action)
        state = self.tick(ticks)[agent.plan.name]
        reward, terminal = reward_and_terminal(agent, state)
        return state, reward, terminal

    @property
    def main_agent(self) -> RemoteAgent:
        """The scenario's main agent, or its only one; raises LocalProtocolError where neither is clear."""
        name = self.scenario.main_agent or (next(iter(self.agents)) if len(self.agents) == 1 else "")
        if name not in self.agents:
            raise LocalProtocolError(
                f"the world has the agents {list(self.agents)} and no main agent",
                backend="holodeck",
                hint="reset() first, name a main_agent in the scenario, or use agents[name].act() and tick()",
            )
        return self.agents[name]

    # -- resets -------------------------------------------------------------------------------------------------------

    def reset(self) -> State:
        """Load the world anew, with the scenario's agents, and return its first state.

        Raises SpecError for agents and sensors that an engine of ours does not have.
        """
        for _ in self.reset_ticks():
            self.begin_tick()
            self.finish_tick()
        return self.state()

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Have the starts that the scenario randomizes follow from `seeds`, one per agent (None: as they are)."""
        for generator, seed in zip(self._generators, seeds, strict=True):
            if seed is not None:
                generator.seed(seed)

    def reset_ticks(self) -> Iterator[None]:
        """Prepare each tick of a reset in turn: have one pass at each item. Commands that waited are dropped."""
        self.is_ready = False
        self._commands.clear()
        self._reset[0] = 1
        for agent in self.agents.values():
            agent.stop_acting()
        for _ in range(_LOADING_TICKS):
            yield
        self._populate()
        for _ in range(self._pre_start_steps + 1):
            yield
        refused = self._refused.tobytes().rstrip(b"\0").decode(errors="replace")
        if refused:
            raise SpecError(refused, backend="holodeck", hint="take it out of the scenario, or serve what it asks for")
        self.is_ready = True

    def _populate(self) -> None:
        main = self.scenario.main_agent
        self.agents = {}
        self._refused[:] = 0
        for plan, generator in zip(self.scenario.agents, self._generators, strict=True):
            self.agents[plan.name] = RemoteAgent(plan, self._names)
            location, rotation = plan.start(generator)
            if not plan.exists:
                is_main = plan.name == main
                self.send(spawn_agent(plan.name, plan.kind.wire_name, location, rotation, is_main=is_main))
            for each in plan.sensors:
                kind = wire_type(each.kind)
                self.send(
                    add_sensor(plan.name, each.name, kind, each.config, each.socket, each.location, each.rotation)
                )

    # -- the state ----------------------------------------------------------------------------------------------------

    def state(self, *, copy: bool = True) -> State:
        """Return what all sensors show; without `copy` the arrays are live views, which the next tick changes."""
        return {
            name: {sensor: array.copy() if copy else array for sensor, array in agent.sensors.items()}
            for name, agent in self.agents.items()
        }

    def close(self) -> None:
        """End an engine that was started here, leave one that was running before. Idempotent.

        An engine that goes on keeps all blocks: it maps each once, and would go on with files that have no name any
        more.
        """
        if self._is_closed:
            return
        self._is_closed = True
        ends = self._link.ends_with_us or not self._link.is_alive
        if not ends:
            self._handshake.leave()
        self._handshake.close()
        self._link.close()
        if ends:
            for agent in self.agents.values():
                agent.unlink()
            _remove(self._names)


def reward_and_terminal(agent: RemoteAgent, state: dict[str, NDArray[Any]]) -> tuple[float, bool]:
    """Return the sum of the rewards of the agent's tasks, and whether one of them has ended its episode."""
    tasks = [state[sensor.name] for sensor in agent.plan.sensors if sensor.is_task]
    return float(sum(task[0] for task in tasks)), any(task[1] == 1 for task in tasks)


def _remove(names: Names) -> None:
    """Remove the semaphores of an engine that is no more, and the blocks that every pair has."""
    for name in (names.server, names.client, names.loading):
        semaphores.unlink(name)
    for key in (COMMAND_BOOL, COMMAND_BUFFER, RESET, REFUSED):
        names.block(key).unlink(missing_ok=True)
