"""Messages of the core (dataclasses) to and from protobuf, derived from the dataclasses' annotations.

Rule 1: nothing here is written per message or per method; `lucky_transport.messages.fields` tells what a field is.
Rule 2: a plan is made once per pair of classes; encoding and decoding only walk it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from lucky_transport.messages.fields import Field, fields_of

__all__ = ["decode", "encode"]

_Convert = Callable[[Any], Any]


def encode(message: Any, kind: type, pb: type[Message]) -> Message:
    """Return the protobuf message of class `pb` that says what `message`, a dataclass of class `kind`, says.

    Lists of numbers may be NumPy arrays. Raises TypeError or ValueError, naming the message, for another class and for
    a value its field cannot hold.
    """
    try:
        return _encoder(kind, pb)(message)
    except (TypeError, ValueError) as error:
        category = TypeError if isinstance(error, TypeError) else ValueError
        raise category(f"{kind.__name__}: {error}") from error


def decode(message: Message, kind: type) -> Any:
    """Return the dataclass of class `kind` that says what the protobuf `message` says."""
    return _decoder(kind, type(message))(message)


@cache
def _encoder(kind: type, pb: type[Message]) -> _Convert:
    plan = [(field.name, _to_pb(field, _nested(field, pb))) for field in fields_of(kind)]

    def convert(message: Any) -> Message:
        if not isinstance(message, kind):
            raise TypeError(f"got {type(message).__name__}, expected {kind.__name__}")
        values: dict[str, Any] = {}
        for name, to_pb in plan:
            value = getattr(message, name)
            if value is not None:
                values[name] = to_pb(value) if to_pb else value
        return pb(**values)

    return convert


@cache
def _decoder(kind: type, pb: type[Message]) -> _Convert:
    plan = [(field.name, field, _from_pb(field, _nested(field, pb))) for field in fields_of(kind)]

    def convert(message: Any) -> Any:
        values: dict[str, Any] = {}
        for name, field, from_pb in plan:
            if field.message is not None and field.shape == "one" and not message.HasField(name):
                continue  # absent: the dataclass says None
            value = getattr(message, name)
            values[name] = from_pb(value) if from_pb else value
        return kind(**values)

    return convert


def _nested(field: Field, pb: type[Message]) -> type[Message] | None:
    """Return the protobuf class of a message field, of its elements or of its map's values."""
    if field.message is None:
        return None
    descriptor: Any = pb.DESCRIPTOR.fields_by_name[field.name].message_type
    if field.shape == "map":
        descriptor = descriptor.fields_by_name["value"].message_type
    return GetMessageClass(descriptor)


def _to_pb(field: Field, pb: type[Message] | None) -> _Convert | None:
    if field.message is None or pb is None:
        return _plain_list if field.shape == "list" else None
    return _shaped(field.shape, _encoder(field.message, pb))


def _from_pb(field: Field, pb: type[Message] | None) -> _Convert | None:
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
