"""FlatBuffers for every message class, derived from its fields.

    data = encode(GetAgentSchemaRequest(agent_name="agent_0"))  # any FlatBuffers peer reads it: schema/hazel_rpc.fbs
    message = decode(GetAgentSchemaRequest, data)               # verified while it is read

Rule 1: two ways lead to the same messages: the short one (`template`) for what is exactly as expected, the generic one
        (`derive`) for all else: peers that lay their buffers out differently, unusual values, faults and their words.
Rule 2: bytes from a peer raise RemoteProtocolError and nothing else; values from our caller TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from lucky_transport.codec.derive import table_of
from lucky_transport.codec.pieces import classes_in
from lucky_transport.codec.place import Misfit
from lucky_transport.codec.template import FAULTS, Template, template_of
from lucky_transport.codec.verifier import Verifier
from lucky_transport.codec.writer import Writer
from lucky_transport.errors import RemoteProtocolError

__all__ = ["decode", "encode", "encoder_of"]

M = TypeVar("M")


def encode(message: Any, prefix_bytes: int = 0) -> bytes:
    """Return the message as a FlatBuffers buffer, aligned for being read `prefix_bytes` behind an 8-byte boundary.

    Byte fields are copied once, straight into the result. Raises TypeError or ValueError, with the field's path and
    value, for what does not fit the field's type.
    """
    try:
        return _WRITERS[message.__class__](message, prefix_bytes)
    except FAULTS:
        return _encode_generic(message, prefix_bytes)


def encoder_of(cls: type[Any], without: str = "") -> Callable[[Any], bytes]:
    """Return what does as `encode` to messages of exactly this class, and is quicker.

    without: a field of bytes that is taken for empty, whatever it is.
    """
    template = template_of(cls, without) if _template_of(cls) else None
    if template is None:
        return lambda message: encode(replace(message, **{without: b""}) if without else message)
    write = template.write

    def encode_one(message: Any) -> bytes:
        try:
            return write(message, 0)
        except FAULTS:
            return _encode_generic(replace(message, **{without: b""}) if without else message, 0)

    return encode_one


def decode(cls: type[M], data: bytes) -> M:
    """Return the message of class `cls` that `data` holds; absent fields have their defaults.

    Raises RemoteProtocolError, with the field's path and the offending values, for anything but a sound buffer.
    """
    if data.__class__ is not bytes:
        data = bytes(data)  # a private copy: nobody changes what was verified
    try:
        return _READERS[cls](data)
    except FAULTS:
        return _decode_generic(cls, data)


def _encode_generic(message: Any, prefix_bytes: int) -> bytes:
    cls = cast("type[Any]", type(message))
    writer = Writer(prefix_bytes)
    try:
        return writer.finish(table_of(cls).write(writer, message))
    except Misfit as misfit:
        raise misfit.kind(f"{misfit.place(cls.__name__)}: {misfit.text}") from misfit.__cause__


def _decode_generic(cls: type[M], data: bytes) -> M:
    verifier = Verifier(data)
    try:
        return table_of(cls).read(verifier, verifier.root())
    except Misfit as misfit:
        raise RemoteProtocolError(
            f"malformed {misfit.place(cls.__name__)} in {verifier.size} bytes: {misfit.text}",
            hint="the peer is broken or speaks another protocol",
        ) from misfit.__cause__


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
    return template_of(cls)


def _writer_of(cls: type[Any]) -> Callable[..., bytes]:
    template = _template_of(cls)
    return template.write if template else _encode_generic


def _reader_of(cls: type[Any]) -> Callable[..., Any]:
    template = _template_of(cls)
    return template.read if template else partial(_decode_generic, cls)


_WRITERS = _Made(_writer_of)
_READERS = _Made(_reader_of)
