"""The bridge's methods, one row each, as both ends need them; paths, arities and message classes stand nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from lucky_transport_grpc.runtime import grpc
from lucky_transport_openra import _pb

__all__ = ["LOOK", "METHODS", "SESSION", "BridgeMethod"]

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
