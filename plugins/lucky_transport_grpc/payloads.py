"""Bytes that programs of gRPC exchange, as messages of the core."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError, Message

from lucky_transport.messages.methods import Method
from lucky_transport_grpc import _pb
from lucky_transport_grpc.codec import decode

__all__ = ["request_in", "response_in"]


def request_in(method: Method, payload: bytes) -> Any:
    """Return the request of `method` that the bytes are; raises ValueError as `response_in`."""
    return _message_in(payload, _pb.methods()[method.name].request, method.request, f"request of {method.name}")


def response_in(method: Method, payload: bytes) -> Any:
    """Return the response of `method` that the bytes are.

    Raises ValueError for bytes that are none, or that say more than the message can: what a newer proto has in addition
    would be lost.
    """
    return _message_in(payload, _pb.methods()[method.name].response, method.response, f"response of {method.name}")


def _message_in(payload: bytes, pb: type[Message], kind: type, what: str) -> Any:
    message = pb()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise ValueError(f"{len(payload)} bytes are no {what}: {error}") from error
    size = message.ByteSize()
    message.DiscardUnknownFields()  # pyright: ignore[reportAttributeAccessIssue]  # not in the stubs of every version
    if message.ByteSize() != size:
        raise ValueError(f"a {what} has fields that this version does not know")
    return decode(message, kind)
