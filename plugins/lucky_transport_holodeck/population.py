"""The agents of a hosted world and their sensors, as the client's commands make them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.host.host import Host
from lucky_transport.nesting import parse_json
from lucky_transport_holodeck.agent_types import AGENT_TYPES
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.commands import HolodeckCommand
from lucky_transport_holodeck.dialect import TICKS_PER_CAPTURE
from lucky_transport_holodeck.hosted_agent import HostedAgent, HostedSensor, agent_blocks
from lucky_transport_holodeck.sensor_types import CAMERAS, SILENT_AS_NAN, SensorShape, is_task, sensor_shape
from lucky_transport_holodeck.sources import Source, Sources, engine_camera


class Population:
    """`agents`: by name. handlers: what carries out a command, by the command's kind; each raises RemoteProtocolError,
    SpecError or ValueError (a configuration that is no JSON) for a command that makes no sense.

    Agents get envs in the order in which they are spawned. action_size: values that an action of the engine has.
    on_spawn: called with each agent that has just come. warn: logs a text, once. refuse: tells it
    to a client of ours too.
    """

    def __init__(
        self,
        host: Host,
        files: BlockFiles,
        sources: Sources,
        action_size: int,
        on_spawn: Callable[[HostedAgent, HolodeckCommand], None],
        warn: Callable[[str], None],
        refuse: Callable[..., None],
    ) -> None:
        self.agents: dict[str, HostedAgent] = {}
        self.handlers: Mapping[str, Callable[[HolodeckCommand], None]] = {
            "SpawnAgent": self._spawn,
            "AddSensor": self._add_sensor,
            "RemoveSensor": self._remove_sensor,
            "RGBCameraRate": self._set_rate,
            "RaycastLidarRate": self._set_rate,
        }
        self._host = host
        self._files = files
        self._sources = sources
        self._action_size = action_size
        self._on_spawn = on_spawn
        self._warn = warn
        self._refuse = refuse

    def empty(self) -> None:
        """Remove all agents."""
        for agent in self.agents.values():
            agent.close()
        self.agents.clear()

    def _spawn(self, command: HolodeckCommand) -> None:
        wire_type, name = command.strings
        self._files.note(*agent_blocks(name))
        kind = AGENT_TYPES.get(wire_type)
        if kind is None:
            raise RemoteProtocolError(f"no agent type {wire_type!r}; known: {', '.join(AGENT_TYPES)}")
        before = self.agents.pop(name, None)
        if before is not None:
            before.close()
        env = self._free_env() if before is None else before.env
        agent = self.agents[name] = HostedAgent(name, kind, env, self._files)
        if env < 0:
            self._refuse(f"agent {name!r} has no env: the engine has {self._host.spec.num_envs}; serve more")
        elif kind.action_size < self._action_size:
            what = f"{kind.action_size} of the {self._action_size} values of an action"
            self._warn(f"agent {name!r} ({wire_type}) has {what}; the others are 0")
        self._on_spawn(agent, command)

    def _free_env(self) -> int:
        taken = {agent.env for agent in self.agents.values()}
        return next((env for env in range(self._host.spec.num_envs) if env not in taken), -1)

    def _add_sensor(self, command: HolodeckCommand) -> None:
        agent_name, name, sensor_type, config_text, socket = command.strings
        key = f"{agent_name}_{name}_sensor_data"
        self._files.note(*agent_blocks(agent_name), key)
        agent = self._agent(agent_name)
        config: Any = parse_json(config_text) if config_text else None
        config = config if isinstance(config, dict) else {}
        shape = self._shape(agent, key, sensor_type, config)
        self._forget_sensor(agent, name)
        source, why = None, ""
        try:
            source = self._source(agent, name, sensor_type, config, socket, shape)
        except SpecError as error:
            why = f" ({error})"
        if source is not None:
            rate = max(1, int(config.get(TICKS_PER_CAPTURE, 1)))
            file = self._files.open(key, shape.nbytes)
            agent.sensors[name] = HostedSensor(file, source, rate=rate, is_task=is_task(sensor_type))
            return
        is_silent = sensor_type in SILENT_AS_NAN
        if is_silent:
            with contextlib.closing(self._files.open(key, shape.nbytes)) as file:
                file.write(np.full(shape.shape, np.nan, shape.dtype).data)
        if agent.env >= 0:
            what = "no camera" if sensor_type in CAMERAS else "nothing"
            sensor = f"sensor {name!r} ({sensor_type}) of agent {agent_name!r}"
            self._refuse(
                f"engine {self._host.spec.engine!r} has {what} for {sensor}{why}", "NaN" if is_silent else "zeros"
            )

    def _shape(self, agent: HostedAgent, key: str, sensor_type: str, config: Mapping[str, Any]) -> SensorShape:
        if sensor_type == "WorldNumSensor":  # what the client calls BallLocationSensor has this type, but one byte
            path = self._files.names.block(key)
            if path.exists() and os.stat(path).st_size == 1:
                sensor_type = "BallLocationSensor"
        return sensor_shape(sensor_type, agent.kind, config)

    def _source(
        self,
        agent: HostedAgent,
        name: str,
        sensor_type: str,
        config: Mapping[str, Any],
        socket: str,
        shape: SensorShape,
    ) -> Source | None:
        if agent.env < 0:
            return None
        if sensor_type in CAMERAS:
            key = str(config.get("Key", "") or socket or name)
            return self._sources.image(agent.env, key, shape) or engine_camera(self._host, agent.env, key, shape)
        return self._sources.find(agent.env, sensor_type, name, config, shape)

    def _remove_sensor(self, command: HolodeckCommand) -> None:
        self._forget_sensor(self._agent(command.strings[0]), command.strings[1])

    @staticmethod
    def _forget_sensor(agent: HostedAgent, name: str) -> None:
        sensor = agent.sensors.pop(name, None)
        if sensor is not None:
            sensor.close()

    def _set_rate(self, command: HolodeckCommand) -> None:
        sensor = self._agent(command.strings[0]).sensors.get(command.strings[1])
        if sensor is None:
            raise RemoteProtocolError(f"agent {command.strings[0]!r} has no sensor {command.strings[1]!r}")
        sensor.rate = max(1, int(command.numbers[0]))

    def _agent(self, name: str) -> HostedAgent:
        agent = self.agents.get(name)
        if agent is None:
            raise RemoteProtocolError(
                f"no agent {name!r}; there are {list(self.agents)}",
                hint='the world has no agents of its own: take "existing" out of the scenario',
            )
        return agent
