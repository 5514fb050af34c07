"""Messages as JSON data, derived from the message dataclasses.

    codec = JsonStyle().codec_of(SetSeedsRequest)
    codec.plain(SetSeedsRequest([1, 2], b"ab"))              # {"seeds": [1, 2], "mask": "YWI="}
    codec.message({"seeds": [1, 2], "mask": "YWI="})

Bytes are base64 text. How keys and members of enums are written is the protocol's that is spoken.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, cast

from lucky_transport.messages.fields import Field, fields_of, member
from lucky_transport.messages.values import Convert, EncodeError, argument, converter, shaped, unknown_field


class JsonStyle:
    """How a protocol writes messages.

    key: a field's name as a key. enum_names: members of enums are their names, else their numbers, also those that only
    a newer peer knows. skips_unknown: a key that is no field's is passed over, else it is refused.
    """

    def __init__(
        self, key: Callable[[str], str] = str, *, enum_names: bool = True, skips_unknown: bool = False
    ) -> None:
        self.key = key
        self.enum_names = enum_names
        self.skips_unknown = skips_unknown
        self._codecs: dict[type[Any], JsonCodec] = {}

    def codec_of(self, cls: type[Any]) -> JsonCodec:
        """Return the codec of a message class. Raises TypeError for an annotation that no codec knows."""
        codec = self._codecs.get(cls)
        if codec is None:
            codec = self._codecs[cls] = JsonCodec(cls, self)
        return codec


class JsonCodec:
    """Writes and reads messages of one class as JSON data; made by `JsonStyle.codec_of`."""

    def __init__(self, cls: type[Any], style: JsonStyle) -> None:
        self._cls = cls
        self._skips_unknown = style.skips_unknown
        self._writers = [(style.key(field.name), field.name, _writer(field, style)) for field in fields_of(cls)]
        self._readers = {style.key(field.name): (field.name, _reader(field, style)) for field in fields_of(cls)}

    def plain(self, message: Any) -> dict[str, Any]:
        """Return the message as JSON data; what a field holds is not checked."""
        return {
            key: getattr(message, name) if write is None else write(getattr(message, name))
            for key, name, write in self._writers
        }

    def message(self, plain: Any) -> Any:
        """Return the message that JSON data describes; fields that it does not name have their defaults.

        What a field may be made of besides is taken too: a number for an EntityId, a list for a struct. Raises
        EncodeError, a ValueError, with the path of what does not fit.
        """
        try:
            return self.read(plain)
        except EncodeError as error:
            raise error.within(self._cls.__name__) from None

    def read(self, plain: Any) -> Any:
        """Return the message as a part of another: the path of what does not fit begins with a key."""
        if not isinstance(plain, Mapping):
            raise EncodeError(f"expected an object with fields of {self._cls.__name__}, got {type(plain).__name__}")
        found: dict[str, Any] = {}
        for key, value in cast("Mapping[str, Any]", plain).items():
            field = self._readers.get(key)
            if field is not None:
                name, read = field
                try:
                    found[name] = read(value)
                except EncodeError as error:
                    raise error.within(f".{key}") from None
            elif not self._skips_unknown:
                raise unknown_field(key, self._readers)
        return self._cls(**found)


def _writer(field: Field, style: JsonStyle) -> Convert | None:
    """Return what makes a field's value plain, None when it is plain already."""
    one = _one_writer(field, style)
    if one is not None and field.shape == "list":
        return lambda values: [one(value) for value in values]
    if one is not None and field.shape == "map":
        return lambda values: {key: one(value) for key, value in values.items()}
    return one


def _one_writer(field: Field, style: JsonStyle) -> Convert | None:
    if field.kind == "bytes":
        return lambda value: base64.b64encode(value).decode()
    if field.message is not None:
        cls = field.message  # its codec is made when it is needed: a class may contain itself
        return lambda value: None if value is None else style.codec_of(cls).plain(value)
    if field.enum is not None and style.enum_names:
        enum = field.enum
        return lambda value: known.name if isinstance(known := member(enum, value), IntEnum) else value
    return None


def _reader(field: Field, style: JsonStyle) -> Convert:
    """Return what makes a field's value of JSON data, and checks it as a caller's argument."""
    if field.kind == "bytes":
        before: Convert = _of_base64
    elif field.message is not None:
        cls = field.message
        before = lambda value: style.codec_of(cls).read(value) if isinstance(value, Mapping) else value  # noqa: E731
    elif field.enum is not None and not style.enum_names:
        enum, number = field.enum, argument(field._replace(enum=None))
        return shaped(field, lambda value: member(enum, number(value)))
    else:
        return converter(field)
    check = argument(field)
    return shaped(field, lambda value: check(before(value)))


def _of_base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise EncodeError(f"no base64: {error}") from None
