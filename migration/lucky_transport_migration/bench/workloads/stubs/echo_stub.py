"""A stub and a servicer as protoc's gRPC plugin writes them, for a service whose messages protobuf has itself.

    service Echo {
      rpc Ask (google.protobuf.StringValue) returns (google.protobuf.StringValue);
      rpc AskInline (google.protobuf.StringValue) returns (google.protobuf.StringValue);
      rpc Send (google.protobuf.BytesValue) returns (google.protobuf.BytesValue);
      rpc Watch (google.protobuf.UInt64Value) returns (stream google.protobuf.BytesValue);
    }

The same classes serve sync and asyncio, as generated ones do. What grpcio 1.60 does not know yet (registered methods)
is left out there, as its own generator does.
"""

from __future__ import annotations

import inspect
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

__all__ = ["EchoServicer", "EchoStub", "add_EchoServicer_to_server"]

_SERVICE = "lucky_transport.bench.Echo"
_REGISTERED: dict[str, Any] = (
    {"_registered_method": True}
    if "_registered_method" in inspect.signature(grpc.Channel.unary_unary).parameters
    else {}
)


class EchoStub:
    """The client's end of the service."""

    def __init__(self, channel: Any) -> None:
        self.Ask = _unary(channel, "Ask")
        self.AskInline = _unary(channel, "AskInline")
        self.Send: Any = channel.unary_unary(
            f"/{_SERVICE}/Send",
            request_serializer=BytesValue.SerializeToString,
            response_deserializer=BytesValue.FromString,
            **_REGISTERED,
        )
        self.Watch: Any = channel.unary_stream(
            f"/{_SERVICE}/Watch",
            request_serializer=UInt64Value.SerializeToString,
            response_deserializer=BytesValue.FromString,
            **_REGISTERED,
        )


def _unary(channel: Any, method: str) -> Any:
    return channel.unary_unary(
        f"/{_SERVICE}/{method}",
        request_serializer=StringValue.SerializeToString,
        response_deserializer=StringValue.FromString,
        **_REGISTERED,
    )


class EchoServicer:
    """What a server answers."""

    Ask: Any
    AskInline: Any
    Send: Any
    Watch: Any


def add_EchoServicer_to_server(servicer: EchoServicer, server: Any) -> None:  # noqa: N802 - as it is generated
    """Register the servicer's methods."""
    unary = {
        "request_deserializer": StringValue.FromString,
        "response_serializer": StringValue.SerializeToString,
    }
    handlers = {
        "Ask": grpc.unary_unary_rpc_method_handler(servicer.Ask, **unary),
        "AskInline": grpc.unary_unary_rpc_method_handler(servicer.AskInline, **unary),
        "Send": grpc.unary_unary_rpc_method_handler(
            servicer.Send,
            request_deserializer=BytesValue.FromString,
            response_serializer=BytesValue.SerializeToString,
        ),
        "Watch": grpc.unary_stream_rpc_method_handler(
            servicer.Watch,
            request_deserializer=UInt64Value.FromString,
            response_serializer=BytesValue.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers(_SERVICE, handlers)
