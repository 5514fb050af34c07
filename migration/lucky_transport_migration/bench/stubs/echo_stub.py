"""A stub and a servicer that do what protoc's gRPC plugin writes, for a service whose messages protobuf has itself.

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

_SERVICE = "lucky_transport.bench.Echo"
_REGISTERED: dict[str, Any] = (
    {"_registered_method": True}
    if "_registered_method" in inspect.signature(grpc.Channel.unary_unary).parameters
    else {}
)


#: Method -> its arity, and the classes of its request and its response.
_METHODS: dict[str, tuple[str, Any, Any]] = {
    "Ask": ("unary_unary", StringValue, StringValue),
    "AskInline": ("unary_unary", StringValue, StringValue),
    "Send": ("unary_unary", BytesValue, BytesValue),
    "Watch": ("unary_stream", UInt64Value, BytesValue),
}


class EchoStub:
    """The client's end of the service."""

    Ask: Any
    AskInline: Any
    Send: Any
    Watch: Any

    def __init__(self, channel: Any) -> None:
        for name, (arity, request, response) in _METHODS.items():
            codec = {
                "request_serializer": request.SerializeToString,
                "response_deserializer": response.FromString,
            }
            setattr(self, name, getattr(channel, arity)(f"/{_SERVICE}/{name}", **codec, **_REGISTERED))


class EchoServicer:
    """What a server answers."""


def add_EchoServicer_to_server(servicer: EchoServicer, server: Any) -> None:  # noqa: N802 - as it is generated
    """Register the servicer's methods."""
    handlers = {
        name: getattr(grpc, f"{arity}_rpc_method_handler")(
            getattr(servicer, name),
            request_deserializer=request.FromString,
            response_serializer=response.SerializeToString,
        )
        for name, (arity, request, response) in _METHODS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers(_SERVICE, handlers)
