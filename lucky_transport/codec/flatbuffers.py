"""FlatBuffers for every message class, derived from its fields.

    data = encode(GetAgentSchemaRequest(agent_name="agent_0"))  # any FlatBuffers peer reads it: schema/hazel_rpc.fbs
    message = decode(GetAgentSchemaRequest, data)               # verified while it is read
    ENCODERS[cls](message), DECODERS[cls](data)                 # the same, where every function called counts

Rule 1: two ways lead to the same messages: the short one (`template`) for what is exactly as expected, and behind it
        the `generic` one for all else: peers that lay their buffers out differently, unusual values, faults.
Rule 2: bytes from a peer raise RemoteProtocolError and nothing else; values from our caller TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from lucky_transport.codec.derive import table_of
from lucky_transport.codec.generic import decode_generic, encode_generic
from lucky_transport.codec.pieces import classes_in
from lucky_transport.codec.template import Template, template_of

__all__ = ["DECODERS", "ENCODERS", "decode", "encode"]

M = TypeVar("M")


def encode(message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a FlatBuffers buffer, aligned for being read `prefix_bytes` behind an 8-byte boundary.

    Byte fields are copied once, straight into the result. Raises TypeError or ValueError, with the field's path and
    value, for what does not fit the field's type.
    """
    return ENCODERS[message.__class__](message, prefix_bytes)


def decode(cls: type[M], data: bytes) -> M:
    """Return the message of class `cls` that `data` holds; absent fields have their defaults.

    Raises RemoteProtocolError, with the field's path and the offending values, for anything but a sound buffer.
    """
    # A private copy of what is not bytes: nobody changes what was verified.
    return DECODERS[cls](data if data.__class__ is bytes else bytes(data))


class _Made(dict[type, Callable[..., Any]]):
    """Functions by message class, made when first needed."""

    def __init__(self, make: Callable[[type[Any]], Callable[..., Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cls: type[Any]) -> Callable[..., Any]:
        self[cls] = function = self._make(cls)
        return function


def _template_of(cls: type[Any]) -> Template | None:
    for each in classes_in(cls):
        table_of(each)  # raises TypeError for a class that FlatBuffers cannot carry
    return template_of(cls, patient=True)


def _writer_of(cls: type[Any]) -> Callable[..., bytes]:
    template = _template_of(cls)
    return template.write if template else encode_generic


def _reader_of(cls: type[Any]) -> Callable[..., Any]:
    template = _template_of(cls)
    return template.read if template else partial(decode_generic, cls)


#: By class, what does as `encode` to messages of exactly that class, and as `decode` to bytes.
ENCODERS = _Made(_writer_of)
DECODERS = _Made(_reader_of)
