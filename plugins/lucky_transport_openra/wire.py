"""The bridge's wire, as both ends need it: its methods, one row each, its statuses, a world's messages as the bridge's.

Methods, their paths, arities and classes come from the descriptors. Messages are derived from equal names of fields.

The bridge has a column beside the one table of statuses, `lucky_transport.errors`: where the original engine answers
another status, and what its statuses and texts are raised as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf.message_factory import GetMessageClass

from lucky_transport.errors import Busy, PeerDied, SessionEnded, Status, TransportError, Unimplemented, UnknownSession
from lucky_transport.messages.fields import fields_of
from lucky_transport.world import Worlds
from lucky_transport_grpc import codec
from lucky_transport_grpc.errors import from_rpc, is_ours, refuse
from lucky_transport_grpc.runtime import grpc
from lucky_transport_openra import _pb

# What our clients say beside the bridge's messages; an engine that does not know us ignores it. Wire format: keys are
# only added.
#: On GameSession: the id of the session to be streamed. The original has no word for it.
SESSION = "lucky-session"
#: On FastAdvance: "1": only look, do no tick. The original does at least one.
LOOK = "lucky-look"


@dataclass(frozen=True, slots=True)
class BridgeMethod:
    """One method; `is_stream`: many requests and many responses."""

    path: str
    request: Any
    response: Any
    is_stream: bool

    def handler(self, behaviour: Callable[[Any, Any], Any]) -> Any:
        """Return gRPC's handler that answers it by `behaviour`."""
        make = grpc.stream_stream_rpc_method_handler if self.is_stream else grpc.unary_unary_rpc_method_handler
        return make(behaviour, self.request.FromString, self.response.SerializeToString)

    def stub(self, channel: Any) -> Any:
        """Return gRPC's callable for it."""
        make = channel.stream_stream if self.is_stream else channel.unary_unary
        return make(self.path, self.request.SerializeToString, self.response.FromString)


METHODS: Mapping[str, BridgeMethod] = {
    method.name: BridgeMethod(
        f"/{_pb.SERVICE.full_name}/{method.name}",
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        method.client_streaming,
    )
    for method in _pb.SERVICE.methods
}


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


_Code = grpc.StatusCode

#: What the original says, word for word, when no worker is free: clients may look for it.
BUSY = "All worker slots busy, retry later"

#: The statuses of the bridge's methods that differ from the one table. The original looks five minutes for a session
#: that it does not know and then tells that none became available; its clients try again on that.
STATUSES: Mapping[type[TransportError], Status] = {UnknownSession: Status.UNAVAILABLE}

#: What a status without our metadata is raised as, with the remedy, where the table of all gRPC says something else.
_RAISED: Mapping[Any, tuple[type[TransportError], str]] = {
    _Code.ABORTED: (SessionEnded, "create another one"),
    _Code.UNAVAILABLE: (PeerDied, "see whether the engine and the session still live"),
}


def refuse_bridge(context: Any, error: TransportError) -> NoReturn:
    """End the call of `context` as the original engine would."""
    if type(error) is Busy:
        error = Busy(f"{BUSY} ({error})", backend=error.backend)
    refuse(context, error, STATUSES.get(type(error)))


def from_bridge(error: Any, peer: str) -> TransportError:
    """Return our error for the failed call `error` (a grpc.RpcError) to the engine at `peer`."""
    raised = _RAISED.get(error.code())
    if is_ours(error) or raised is None:
        return from_rpc(error, peer)
    kind, hint = raised
    return kind(f"engine at {peer}: {error.details()}", backend="openra", hint=hint)
