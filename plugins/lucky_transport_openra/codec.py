"""A world's messages as the bridge's, and back: derived from equal names of fields, nothing is written per message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lucky_transport.errors import Unimplemented
from lucky_transport.messages.fields import fields_of
from lucky_transport.world import Worlds
from lucky_transport_grpc import codec
from lucky_transport_openra import _pb

__all__ = ["BridgeCodec"]


class BridgeCodec:
    """Translates for worlds whose messages are `observation` and `action`; what these lack stays empty.

    What belongs to the session and not to the world (done, reward, result, episode, interrupts) is not touched.
    """

    def __init__(self, observation: type, action: type) -> None:
        self._observation = observation
        self._action = action

    @classmethod
    def of(cls, worlds: Worlds, engine: str) -> BridgeCodec:
        """Return the codec of an engine's worlds; raises Unimplemented where they speak of something else."""
        for kind, wire in ((worlds.observation, _pb.GameObservation), (worlds.action, _pb.AgentAction)):
            foreign = [field.name for field in fields_of(kind) if field.name not in wire.DESCRIPTOR.fields_by_name]
            if foreign:
                raise Unimplemented(
                    f"engine {engine!r} has no bridge messages: {kind.__name__}.{foreign[0]} is not in "
                    f"{wire.DESCRIPTOR.name}",
                    backend="openra",
                    hint="use its sessions (SessionService), which are served at the same address",
                )
        return cls(worlds.observation, worlds.action)

    def observation_to_wire(self, message: Any) -> Any:
        """Return a world's observation as a `GameObservation`."""
        return codec.encode(message, self._observation, _pb.GameObservation)

    def observation_from_wire(self, wire: Any) -> Any:
        """Return the world's observation that a `GameObservation` holds."""
        return codec.decode(wire, self._observation)

    def action_from_wire(self, commands: Iterable[Any]) -> Any:
        """Return a world's action with the commands (`Command`) of an `AgentAction`."""
        return codec.decode(_pb.AgentAction(commands=commands), self._action)

    def action_to_wire(self, message: Any) -> Any:
        """Return a world's action as an `AgentAction`."""
        return codec.encode(message, self._action, _pb.AgentAction)
