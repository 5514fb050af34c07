"""The fields of a message that is compared, whoever made its class: this package, or protobuf for another service."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lucky_transport.messages.fields import Field
from lucky_transport.messages.fields import fields_of as fields_of_ours
from lucky_transport_migration.catalogue.descriptors import class_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

#: Protobuf's C++ types of a field, as kinds.
_KINDS = {1: "i32", 2: "i64", 3: "u32", 4: "u64", 5: "f64", 6: "f32", 7: "bool", 8: "i32", 10: "message"}
_REPEATED = 3
_BYTES = 12  # FieldDescriptor.TYPE_BYTES: text and bytes are one C++ type


@cache
def fields_of(message: type) -> tuple[Field, ...]:
    """Return the fields of a message class, in wire order."""
    descriptor = getattr(message, "DESCRIPTOR", None)
    if descriptor is None:
        return fields_of_ours(message)
    return tuple(map(_field, sorted(descriptor.fields, key=lambda one: one.number)))


def name_of(message: type) -> str:
    """Return the name by which rules know a message class: that of ours, the full name of protobuf's."""
    descriptor = getattr(message, "DESCRIPTOR", None)
    return message.__name__ if descriptor is None else descriptor.full_name


def value_of(message: Any, field: Field) -> Any:
    """Return a field's value, None for one that is absent where the wire tells that from its default."""
    if field.shape == "one" and (field.optional or field.message is not None) and hasattr(message, "DESCRIPTOR"):
        return getattr(message, field.name) if message.HasField(field.name) else None
    return getattr(message, field.name)


def unknown_fields(message: Any) -> list[tuple[int, int, str]]:
    """Return number, wire type (-1 of an extension) and content of extensions, and of the fields that the message's
    class does not know, in their order.
    """
    if not hasattr(message, "DESCRIPTOR"):
        return []
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = UnknownFieldSet(message)
    known = message.ListFields() if message.DESCRIPTOR.is_extendable else ()
    extensions = [(field.number, -1, repr(value)) for field, value in known if field.is_extension]
    return sorted([*extensions, *((one.field_number, one.wire_type, _content(one.data)) for one in found)])


def _content(data: Any) -> str:
    """Return what an unknown field holds; a group holds fields itself."""
    return (
        repr(data) if isinstance(data, (int, bytes)) else repr([(one.field_number, _content(one.data)) for one in data])
    )


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field of protobuf's is a list or a map."""
    found = getattr(field, "is_repeated", None)
    return getattr(field, "label", 0) == _REPEATED if found is None else found  # protobuf before 6


def kind_of(field: FieldDescriptor) -> str:
    """Return the kind of a field of protobuf's, of a list that of its items."""
    return _KINDS.get(field.cpp_type) or ("bytes" if field.type == _BYTES else "str")


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return what describes the values of a map, None for a field that is none."""
    entry = field.message_type
    return None if entry is None or not entry.GetOptions().map_entry else entry.fields_by_name["value"]


def _field(field: FieldDescriptor) -> Field:
    value = map_value(field)
    shape = "map" if value is not None else "list" if is_repeated(field) else "one"
    inner = value or field
    message = None if inner.message_type is None else class_of(inner.message_type)
    return Field(field.name, kind_of(inner), shape, message, optional=shape == "one" and field.has_presence)
