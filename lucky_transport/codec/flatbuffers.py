"""FlatBuffers for every message class, derived from its fields; schema/hazel_rpc.fbs is the schema of the same bytes.

    data = encode(GetAgentSchemaRequest(agent_name="agent_0"))
    message = decode(GetAgentSchemaRequest, data)

`ENCODERS[cls](message)` and `DECODERS[cls](data)` do the same with one call less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lucky_transport.codec.compiled import codec_of
from lucky_transport.lazy_dict import LazyDict

M = TypeVar("M")


def encode(message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a FlatBuffers buffer, aligned for being read `prefix_bytes`, a multiple of 4, behind an
    8-byte boundary. Byte fields are copied once, straight into the result.

    Raises EncodeError (a ValueError, for wrong types a TypeError too), with the path of the field, for a value that its
    field cannot hold.
    """
    return ENCODERS[message.__class__](message, prefix_bytes)


def decode(cls: type[M], data: bytes) -> M:
    """Return the message of class `cls` that `data` holds; absent fields have their defaults.

    Raises RemoteProtocolError, with the field's path and the offending values, for anything but a sound buffer.
    """
    # A private copy of what is not bytes: it cannot change after it was verified.
    return DECODERS[cls](data if data.__class__ is bytes else bytes(data))


#: By message class: `encode` for messages of exactly that class, `decode` for bytes.
ENCODERS = LazyDict[type[Any], Callable[..., Any]](lambda cls: codec_of(cls).encode)
DECODERS = LazyDict[type[Any], Callable[..., Any]](lambda cls: codec_of(cls).decode)
