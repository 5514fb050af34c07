"""Messages of the core (dataclasses) to and from protobuf, derived from the dataclasses' annotations; arrays as
packed bytes.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray

from lucky_transport.errors import TransportError
from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.methods import Method
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport.messages.values import EncodeError, checked
from lucky_transport_grpc import _pb

_Convert = Callable[[Any], Any]

#: What a value raises that its field cannot hold.
_FAULTS = (TypeError, ValueError, OverflowError, AttributeError, struct.error)


def encode(message: Any, kind: type, pb: type[Message]) -> Message:
    """Return the protobuf message of class `pb` that says what `message`, a dataclass of class `kind`, says.

    Lists of numbers may be NumPy arrays; a field that is None is left out. Of the fields that protobuf keeps in a oneof
    the first one given travels; one that cannot be None and has its default is not given. Raises TypeError or
    ValueError, naming the message, for another class and for a value its field cannot hold: the same values and texts
    that FlatBuffers refuses.
    """
    try:
        return _encoder(kind, pb)(message)
    except _FAULTS as error:
        raise _refusal(message, kind, error) from error


def _refusal(message: Any, kind: type, error: Exception) -> TypeError | ValueError:
    """Return what is wrong with a message: with the path of the field where FlatBuffers refuses it too."""
    if isinstance(message, kind):
        try:
            checked(message)
        except EncodeError as refusal:
            return refusal
    category = ValueError if isinstance(error, (ValueError, OverflowError, struct.error)) else TypeError
    return category(f"{kind.__name__}: {error}")


def decode(message: Message, kind: type) -> Any:
    """Return the dataclass of class `kind` that says what the protobuf `message` says.

    Messages and optional scalars that are absent are None.
    """
    return _decoder(kind, type(message))(message)


@cache
def _encoder(kind: type, pb: type[Message]) -> _Convert:
    plan = [(field.name, _can_be_none(field), _to_pb(field, _nested(field, pb))) for field in fields_of(kind)]
    names = one_of_fields(kind)
    rivals = [(field.name, _can_be_none(field)) for field in fields_of(kind) if field.name in names]

    def convert(message: Any) -> Message:
        if not isinstance(message, kind):
            raise TypeError(f"got {type(message).__name__}, expected {kind.__name__}")
        values: dict[str, Any] = {}
        for name, can_be_none, to_pb in plan:
            value = getattr(message, name)
            if value is not None:
                values[name] = to_pb(value) if to_pb else value
            elif not can_be_none:
                raise TypeError(f"{name} is None")
        if rivals and _keep_the_first(rivals, values):
            checked(message)  # protobuf does not look at what does not travel, which may be wrong too
        return pb(**values)

    return convert


def _keep_the_first(rivals: Sequence[tuple[str, bool]], values: dict[str, Any]) -> bool:
    """Leave only the first one given of the fields `rivals`, (name, whether None says that it is not given).

    Returns whether any other was given.
    """
    found = further = False
    for name, can_be_none in rivals:
        if name in values:
            given = can_be_none or bool(values[name])
            if found or not given:
                del values[name]
                further |= given
            else:
                found = True
    return further


@cache
def _decoder(kind: type, pb: type[Message]) -> _Convert:
    plan = [(field.name, _can_be_none(field), _from_pb(field, _nested(field, pb))) for field in fields_of(kind)]

    def convert(message: Any) -> Any:
        values: dict[str, Any] = {}
        for name, can_be_none, from_pb in plan:
            if can_be_none and not message.HasField(name):
                continue  # absent: the dataclass says None
            value = getattr(message, name)
            values[name] = from_pb(value) if from_pb else value
        return kind(**values)

    return convert


def _can_be_none(field: Field) -> bool:
    return field.shape == "one" and (field.optional or field.message is not None)


def _nested(field: Field, pb: type[Message]) -> type[Message] | None:
    """Return the protobuf class of a message field, of its elements or of its map's values."""
    if field.message is None:
        return None
    descriptor: Any = pb.DESCRIPTOR.fields_by_name[field.name].message_type
    if field.shape == "map":
        descriptor = descriptor.fields_by_name["value"].message_type
    return GetMessageClass(descriptor)


def _to_pb(field: Field, pb: type[Message] | None) -> _Convert | None:
    if field.kind == "bytes":
        return _shaped(field.shape, _blob)
    if field.kind == "str" and field.shape != "map":
        return _shaped(field.shape, _text)
    if field.kind == "f32":
        return {"one": _fitting, "list": _fitting_list, "map": None}[field.shape]
    if field.message is None or pb is None:
        return _plain_list if field.shape == "list" else None
    return _shaped(field.shape, _encoder(field.message, pb))


def _from_pb(field: Field, pb: type[Message] | None) -> _Convert | None:
    if field.enum is not None:
        return _shaped(field.shape, partial(member, field.enum))
    if field.message is None or pb is None:
        return {"one": None, "list": list, "map": dict}[field.shape]
    return _shaped(field.shape, _decoder(field.message, pb))


def _shaped(shape: str, one: _Convert) -> _Convert:
    if shape == "list":
        return lambda values: [one(value) for value in values]
    if shape == "map":
        return lambda values: {key: one(value) for key, value in values.items()}
    return one


def _plain_list(values: Any) -> Any:
    # protobuf takes an array element by element, five times slower than the list of the same numbers
    return values.tolist() if isinstance(values, np.ndarray) else values


def _fitting_list(values: Any) -> Any:
    numbers = _plain_list(values)
    struct.pack(f"<{len(numbers)}f", *numbers)
    return numbers


def _fitting(value: Any) -> Any:
    struct.pack("<f", value)  # protobuf makes infinity of what is too large
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):  # protobuf takes bytes for UTF-8
        raise TypeError(f"got {type(value).__name__}, expected str")
    return value


def _blob(value: Any) -> bytes:
    """Return memory that an engine drew into as bytes, and bytes as they are."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"got {type(value).__name__}, expected bytes")
    return bytes(value)  # pyright: ignore[reportUnknownArgumentType]


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


if sys.byteorder != "little":  # pragma: no cover - no such machine runs an engine
    raise ImportError("lucky_transport packs arrays on little-endian machines only")


def unpack(what: str, data: bytes, dtype: str, shape: tuple[int, ...], refusal: type[TransportError]) -> NDArray[Any]:
    """Return `data` as a read-only array of `dtype` and `shape` that shares its memory and keeps it alive.

    It is row-major, little-endian and without padding.

    Raises `refusal`, naming `what`, when the sizes do not fit.
    """
    kind = np.dtype(dtype)
    # a peer's bytes are checked before the first view of them exists
    expected = math.prod(shape) * kind.itemsize
    if len(data) != expected:
        raise refusal(f"{what}: {len(data)} bytes, expected {expected} ({dtype} {shape})", backend="grpc")
    if kind.kind == "b":  # any nonzero byte is true; NumPy only knows 1
        array = (np.frombuffer(data, np.uint8) != 0).reshape(shape)
        array.flags.writeable = False
        return array
    return np.frombuffer(data, kind).reshape(shape)
