"""The envs of a host as the agents of a Holodeck world, for a Holodeck client.

    tick: commands · reset · teleports · one exchange of the engine · sensors

Each tick of the client is one step with the actions in force.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.errors import RemoteProtocolError, TransportError, to_wire_error
from lucky_transport.host.host import Host, Lease
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport_holodeck.blocks import BlockFiles, ControlBlocks
from lucky_transport_holodeck.commands import HolodeckCommand, problem_of
from lucky_transport_holodeck.dialect import is_holoocean_command
from lucky_transport_holodeck.hosted_agent import ActionRows, HostedAgent
from lucky_transport_holodeck.population import Population
from lucky_transport_holodeck.poses import Poses
from lucky_transport_holodeck.sources import Sources

_log = logging.getLogger("lucky_transport")
#: Texts that are remembered as logged: a client's scenario has far fewer.
_MOST_LOGGED = 1000
_SET_SEEDS = "SetSeeds"
_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
#: Commands of Holodeck's own worlds that our engines have nothing for.
_WITHOUT_EFFECT = {
    *("SetWeather", "SetHour", "SetFogDensity", "SetDayCycle", "SpawnProp"),
    *("CupGameConfig", "StartCupGame", "CleanUpConfig"),
}


class HostedWorld:
    """Lives as long as one client drives. `owner`: the client's name in texts.

    An env whose agent was just spawned is reset in that tick, so the client sees its reset observation; from then on
    each tick is one step with the action in force. An env that ended holds until the client's next reset: reward 0,
    terminal 1. Envs without an agent hold too. (An engine that cannot hold resets the ended env in the next tick, and
    steps envs without agents.) The protocol has no way to refuse: what cannot be done is logged, once for each client,
    and the agents of a failed engine are terminal, with reward 0, until the next reset. A client of ours is told which
    agents and sensors are not there.
    """

    def __init__(self, host: Host, files: BlockFiles, owner: str) -> None:
        spec = host.spec
        self._host = host
        self._owner = owner
        self._blocks = ControlBlocks(files)
        self._buffers = Buffers.allocate(spec)
        self._poses = Poses(host)
        self._sources = Sources(spec, self._buffers, self._poses)
        self._actions = ActionRows(spec, self._buffers.actions)
        self._logged: set[str] = set()
        self._population = Population(
            host, files, self._sources, self._actions.size, self._on_spawn, self._warn, self._refuse
        )
        self._agents = self._population.agents
        self._lease: Lease | None = None
        self._has_failed = False
        self._idle_control = HOLD if spec.hold else 0
        self._control = np.full(spec.num_envs, self._idle_control, np.uint8)

    @property
    def made_ns(self) -> int:
        """When the client made the command block."""
        return self._blocks.made_ns

    def tick(self) -> None:
        """Do what one tick of the client asks for; its sensors are written last. What fails in it ends this world."""
        for part in (self._obey, self._step, self._show):
            try:
                part()
            except BaseException as error:  # engines, and what a client writes, may lead to anything
                self._fail(to_wire_error(self._host.spec.engine, "a tick", error))

    def _obey(self) -> None:
        """Carry out the client's commands, its reset and its teleports."""
        self._carry_out_commands()
        if self._blocks.pop_reset():
            self._empty()
        for agent in self._agents.values():
            teleport = agent.pop_teleport()
            if teleport is not None and agent.env >= 0:
                self._poses.move(agent.env, teleport)

    def close(self) -> None:
        """Release the engine and close all blocks."""
        self._empty()
        self._blocks.close()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _carry_out_commands(self) -> None:
        try:
            commands = self._blocks.pop_commands()
        except RemoteProtocolError as error:
            self._refuse(f"{self._owner} sent {error}")
            return
        self._sources.is_holoocean |= any(map(is_holoocean_command, commands))
        for command in commands:
            problem = problem_of(command) or self._carry_out(command)
            if problem:
                tell = self._refuse if command.kind in ("SpawnAgent", "AddSensor") else self._warn
                tell(f"a command of {self._owner} was dropped: {problem}")

    def _warn(self, text: str) -> None:
        """Log a text, once: a scenario says the same at every reset."""
        if text not in self._logged:
            if len(self._logged) < _MOST_LOGGED:
                self._logged.add(text)
            _log.warning("%s", text)

    def _refuse(self, text: str, seen: str = "zeros") -> None:
        """Log what the engine does not have, and tell a client of ours, whose reset raises it. `seen`: by another."""
        self._warn(f"{text}; the original's client sees {seen}")
        self._blocks.refuse(text)

    def _carry_out(self, command: HolodeckCommand) -> str:
        """Carry out a command; returns what is wrong with it, "" when nothing is."""
        handler = self._population.handlers.get(command.kind)
        try:
            if handler is not None:
                handler(command)
            else:
                _carry_out_for_world(self._host, command)
        except BaseException as error:  # a client may write anything
            return f"{command.kind} {' '.join(command.strings)}: {error}"
        return ""

    def _empty(self) -> None:
        """Remove all agents; the next one that is spawned is reset."""
        self._population.empty()
        self._actions.clear()
        self._control[:] = self._idle_control
        self._has_failed = False

    def _on_spawn(self, agent: HostedAgent, command: HolodeckCommand) -> None:
        if agent.env >= 0:
            self._control[agent.env] = RESET
            self._poses.set_start(agent.env, command.numbers[:3], command.numbers[3:6])

    def _step(self) -> None:
        """Do one exchange with the actions in force."""
        if self._has_failed or not self._agents:
            return
        self._act()
        control = self._control
        if self._lease is None:
            self._lease = self._host.drive(self._owner, self._buffers)
        self._lease.step(control if control.any() else None)
        control[control == RESET] = 0
        self._poses.apply_starts()
        ended = (self._buffers.terminated | self._buffers.truncated) != 0
        if ended.any():
            following = HOLD if self._idle_control else RESET
            self._warn_of_ends(ended & (control != following))
            control[ended] = following

    def _warn_of_ends(self, ended: NDArray[np.bool_]) -> None:
        """Log the agents whose episode has just ended and that have no sensor to show it."""
        envs = set(np.flatnonzero(ended).tolist())
        for agent in self._agents.values() if envs else ():
            if agent.env in envs and not agent.has_task:
                then = (
                    "stands still until the client resets" if self._idle_control else "starts again with the next tick"
                )
                self._warn(f"the episode of agent {agent.name!r} has ended, and no Task sensor shows it; it {then}")

    def _act(self) -> None:
        attended = [agent for agent in self._agents.values() if agent.env >= 0]
        for agent in attended:
            agent.read_action(self._actions.rows[agent.env])
        self._actions.convert()
        if self._actions.is_choice:
            for agent in attended:
                choice = agent.chosen_move()
                if choice >= 0:
                    self._actions.choose(agent.env, choice)

    def _fail(self, error: TransportError) -> None:
        if not self._has_failed:
            _log.error("%s cannot go on: %s; its agents are shown as terminal until it resets", self._owner, error)
        self._has_failed = True
        self._buffers.terminated[:] = 1
        self._buffers.rewards[:] = 0

    def _show(self) -> None:
        if not self._agents:
            return
        self._poses.refresh()
        self._sources.refresh()
        for agent in self._agents.values():
            for sensor in agent.sensors.values():
                sensor.show()
        if self._idle_control:
            self._buffers.rewards[self._control == HOLD] = 0  # shown once; from now on it holds


def _carry_out_for_world(host: Host, command: HolodeckCommand) -> None:
    """Carry out a command that is about no agent; raises RemoteProtocolError or the engine's own TransportError.

    "SetSeeds" with one number gives env i that number plus i, from the next reset on. The original ends its process on
    an unknown CustomCommand.
    """
    if command.kind != "CustomCommand":
        return
    name = command.strings[0]
    if name == _SET_SEEDS and len(command.numbers) == 1 and command.numbers[0] >= 0:
        first = int(command.numbers[0])
        answer = host.call(_SEEDS, SetSeedsRequest([first + env for env in range(host.spec.num_envs)]))
        if not answer.success:
            raise RemoteProtocolError(f"the engine refused seed {first}: {answer.message}")
    elif name not in _WITHOUT_EFFECT:
        raise RemoteProtocolError(
            f"CustomCommand {name!r} with the numbers {command.numbers}", hint=f"known: {_SET_SEEDS} with one number"
        )
