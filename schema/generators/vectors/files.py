"""The files of `schema/kits/vectors`, whose README says how each is read. Bytes are hexadecimal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from generators.vectors.envelopes import envelopes
from generators.vectors.exchanges import exchanges, pendulum
from generators.vectors.memory import rings, segments
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import TransportError
from lucky_transport.messages import (
    GetJointStateRequest,
    GetJointStateResponse,
    ImageFrame,
    JointState,
    SetSeedsRequest,
    SetSeedsResponse,
    StreamCameraRequest,
)
from lucky_transport.spec import batch_spec

__all__ = ["render"]


@patch.object(batch_spec, "version", str)  # the kits say none
def render() -> dict[str, str]:
    """Return the text of each file of `schema/kits/vectors`, by its name."""
    files = {
        "segments.json": list(segments()),
        "rings.json": list(rings()),
        "envelopes.json": list(envelopes()),
        "messages.json": list(_messages()),
        "exchanges.json": list(exchanges()),
        "errors.json": list(_errors()),
        "pendulum.json": pendulum(),
    }
    return {name: json.dumps(content, indent=1) + "\n" for name, content in files.items()}


def _messages() -> Iterator[dict[str, Any]]:
    for message in (
        GetJointStateRequest(),
        GetJointStateRequest("agent_3"),
        GetJointStateResponse(True, "", JointState([0.5], [-1.25], 1, 1)),
        GetJointStateResponse(False, "no robot 'agent_9'"),
        SetSeedsRequest([1, 2, (1 << 64) - 1], b"\1\0\1"),
        SetSeedsResponse(True),
        SetSeedsResponse(False, "3 seeds for 2 envs: expected one per env"),
        StreamCameraRequest(name="front", target_fps=10, width=64, height=48),
        ImageFrame(b"\1\2\3\4", 1, 1, 4, "raw", 1_700_000_000_000, 7, 0.0),
        ImageFrame(b"", 64, 64, 4, "raw", 1_700_000_000_000, 8, 0.0),
    ):
        data = encode(message)
        assert decode(type(message), data) == message
        yield {"message": type(message).__name__, "fields": _values(message), "bytes": data.hex()}


def _values(message: Any) -> Any:
    if dataclasses.is_dataclass(message):
        return {field.name: _values(getattr(message, field.name)) for field in dataclasses.fields(message)}
    return message.hex() if isinstance(message, bytes) else message


def _errors() -> Iterator[dict[str, Any]]:
    for cls in (TransportError, *TransportError.__subclasses__()):
        yield {"error": cls.__name__, "wire_code": cls.wire_code}
