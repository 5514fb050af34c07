"""The `.proto` files as the generators see them: the messages that typed calls carry, with their comments and marks.

A comment line that begins with `lucky:` says what protobuf has no word for:

    lucky: id=3 effect=world runs=engine        a method of the table; stream=latest or stream=every for a stream
    lucky: struct                               a message that FlatBuffers carries as a struct
    lucky: buffer                               bytes that may lie in memory of the engine
    lucky: class=Unit                           a message or enum of another system's calls that a world uses as `Unit`
    lucky: session                              a field of such a message that the world does not have
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os.path import commonprefix

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

__all__ = ["ProtoEnum", "ProtoError", "ProtoField", "ProtoFile", "ProtoMessage", "ProtoMethod", "read"]

_Type = FieldDescriptorProto
#: The kinds of `lucky_transport.messages.fields` by protobuf's types.
_KINDS = {
    _Type.TYPE_FLOAT: "f32",
    _Type.TYPE_DOUBLE: "f64",
    _Type.TYPE_INT32: "i32",
    _Type.TYPE_UINT32: "u32",
    _Type.TYPE_UINT64: "u64",
    _Type.TYPE_BOOL: "bool",
    _Type.TYPE_STRING: "str",
    _Type.TYPE_BYTES: "bytes",
}
_MARKS = {"id", "effect", "runs", "stream", "struct", "buffer", "class", "session"}


class ProtoError(Exception):
    """A `.proto` file says what the generators cannot express; the text names the place."""


@dataclass(frozen=True)
class Comment:
    """The paragraphs of a comment, each on one line, and its marks: `effect=read` as a pair, `struct` with ""."""

    paragraphs: tuple[str, ...] = ()
    marks: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ProtoField:
    """One field: `kind` is a scalar's, "message" or "enum", whose class `type` names; `shape` is one, list or map."""

    name: str
    kind: str
    shape: str
    type: str
    optional: bool
    one_of: bool
    comment: Comment


@dataclass(frozen=True)
class ProtoMessage:
    """One message, its fields in the order of their numbers."""

    name: str
    comment: Comment
    fields: tuple[ProtoField, ...]


@dataclass(frozen=True)
class ProtoEnum:
    """One enum, its members without the prefix that they share."""

    name: str
    comment: Comment
    members: tuple[tuple[str, int, Comment], ...]


@dataclass(frozen=True)
class ProtoMethod:
    """One method that has an id; `stream` is None for a unary one."""

    id: int
    path: str
    request: str
    response: str
    effect: str
    runs: str
    stream: str | None


@dataclass(frozen=True)
class ProtoFile:
    """What one file adds to the typed calls; `module` is its name without ".proto"."""

    module: str
    comment: Comment
    enums: tuple[ProtoEnum, ...]
    messages: tuple[ProtoMessage, ...]
    methods: tuple[ProtoMethod, ...]


def read(descriptors: bytes) -> list[ProtoFile]:
    """Return the files that typed calls and worlds need, imports first; messages that only gRPC uses are left out.

    Raises ProtoError for a mark, field or message that cannot be generated.
    """
    files = [_file(each) for each in FileDescriptorSet.FromString(descriptors).file]
    _refuse_duplicates(files)
    used = _used(files)
    found: list[ProtoFile] = []
    for file in files:
        enums = tuple(enum for enum in file.enums if enum.name in used)
        messages = tuple(message for message in file.messages if message.name in used)
        if enums or messages:
            found.append(ProtoFile(file.module, file.comment, enums, messages, file.methods))
    return found


def _refuse_duplicates(files: list[ProtoFile]) -> None:
    names = [each.name for file in files for each in (*file.enums, *file.messages)]
    ids = [str(method.id) for file in files for method in file.methods]
    for what, values in (("name", names), ("method id", ids)):
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise ProtoError(f"the {what} {', '.join(sorted(twice))} is used twice")


def _used(files: list[ProtoFile]) -> set[str]:
    """Return the names of all messages and enums that methods with an id reach, or that a world uses."""
    messages = {message.name: message for file in files for message in file.messages}
    open_names = [name for file in files for method in file.methods for name in (method.request, method.response)]
    open_names += [one.name for one in messages.values() if "class" in one.comment.marks]
    used: set[str] = set()
    while open_names:
        name = open_names.pop()
        if name not in used:
            used.add(name)
            open_names += [each.type for each in messages[name].fields if each.type] if name in messages else []
    return used


def _file(file: FileDescriptorProto) -> ProtoFile:
    comments = _Comments(file)
    enums = [_enum(each, (5, at), comments) for at, each in enumerate(file.enum_type)]
    messages = [_message(each, (4, at), comments) for at, each in enumerate(file.message_type)]
    classes = {
        each.name: each.comment.marks["class"] for each in (*enums, *messages) if each.comment.marks.get("class")
    }
    enums = [replace(enum, name=classes.get(enum.name, enum.name)) for enum in enums]
    messages = [_renamed(message, classes) for message in messages]
    methods = [
        found
        for at, service in enumerate(file.service)
        for row, method in enumerate(service.method)
        if (found := _method(f"/{file.package}.{service.name}", method, comments.at(6, at, 2, row)))
    ]
    module = file.name.removesuffix(".proto")
    return ProtoFile(module, comments.at(12), tuple(enums), tuple(messages), tuple(methods))


def _renamed(message: ProtoMessage, classes: dict[str, str]) -> ProtoMessage:
    """Return the message with the names of classes, and without the fields of the session alone."""
    fields = [each for each in message.fields if "session" not in each.comment.marks]
    return replace(
        message,
        name=classes.get(message.name, message.name),
        fields=tuple(replace(each, type=classes.get(each.type, each.type)) for each in fields),
    )


class _Comments:
    """The comments of a file, by the path of what they belong to."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._name = file.name
        self._found = {tuple(location.path): location for location in file.source_code_info.location}

    def at(self, *path: int) -> Comment:
        location = self._found.get(path)
        if location is None:
            return Comment()
        detached = location.leading_detached_comments if path == (12,) else ()
        text = "\n".join([*detached, location.leading_comments, location.trailing_comments])
        lines = [line.strip() for line in text.splitlines()]
        marks: dict[str, str] = {}
        for line in lines:
            if line.startswith("lucky:"):
                marks |= {name: value for name, _, value in (word.partition("=") for word in line.split()[1:])}
        if marks.keys() - _MARKS:
            raise ProtoError(f"{self._name}: unknown marks {', '.join(sorted(marks.keys() - _MARKS))}")
        said = "\n".join(line for line in lines if not line.startswith("lucky:"))
        paragraphs = (" ".join(paragraph.split()) for paragraph in said.split("\n\n"))
        return Comment(tuple(paragraph for paragraph in paragraphs if paragraph), marks)


def _enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: _Comments) -> ProtoEnum:
    prefix = commonprefix([value.name for value in enum.value]).rpartition("_")[0]  # noqa: RUF071 (names, no paths)
    members = [
        (value.name.removeprefix(f"{prefix}_"), value.number, comments.at(*path, 2, at))
        for at, value in enumerate(enum.value)
    ]
    return ProtoEnum(enum.name, comments.at(*path), tuple(members))


def _message(message: DescriptorProto, path: tuple[int, ...], comments: _Comments) -> ProtoMessage:
    numbers = [each.number for each in message.field]
    if numbers != list(range(1, len(numbers) + 1)):
        raise ProtoError(f"{message.name}: fields must be in the order of their numbers, from 1 and without gaps")
    maps = {nested.name: nested.field[1] for nested in message.nested_type if nested.options.map_entry}
    fields = [_field(message, each, maps, comments.at(*path, 2, at)) for at, each in enumerate(message.field)]
    return ProtoMessage(message.name, comments.at(*path), tuple(fields))


def _field(
    message: DescriptorProto, found: FieldDescriptorProto, maps: dict[str, FieldDescriptorProto], comment: Comment
) -> ProtoField:
    value = maps.get(found.type_name.rpartition(".")[2], found)
    shape = "map" if value is not found else "list" if found.label == _Type.LABEL_REPEATED else "one"
    named = value.type in (_Type.TYPE_MESSAGE, _Type.TYPE_ENUM)
    kind = {_Type.TYPE_MESSAGE: "message", _Type.TYPE_ENUM: "enum"}.get(value.type) or _KINDS.get(value.type)
    if kind is None:
        raise ProtoError(f"{message.name}.{found.name}: no codec knows its type")
    one_of = found.HasField("oneof_index") and not found.proto3_optional
    # In a oneof every number may be a given zero; for a text, absent and empty are the same.
    optional = found.proto3_optional or (one_of and not named and kind not in ("str", "bytes"))
    if "buffer" in comment.marks and kind != "bytes":
        raise ProtoError(f"{message.name}.{found.name}: only bytes can be marked as a buffer")
    return ProtoField(
        found.name, kind, shape, value.type_name.rpartition(".")[2] if named else "", optional, one_of, comment
    )


def _method(service: str, method: MethodDescriptorProto, comment: Comment) -> ProtoMethod | None:
    """Return the method, None where it has no marks: only gRPC has it."""
    marks = comment.marks
    if not marks:
        return None
    path = f"{service}/{method.name}"
    required = {"id", "effect", "runs"} | ({"stream"} if method.server_streaming else set())
    if marks.keys() != required or method.client_streaming:
        raise ProtoError(f"{path}: marks must be {', '.join(sorted(required))}, and the request no stream")
    request, response = (name.rpartition(".")[2] for name in (method.input_type, method.output_type))
    known = {"effect": ("read", "view", "world"), "runs": ("inline", "engine", "pool"), "stream": ("latest", "every")}
    for name in required - {"id"}:
        if marks[name] not in known[name]:
            raise ProtoError(f"{path}: {name}={marks[name]} is none of {', '.join(known[name])}")
    stream = marks.get("stream")
    return ProtoMethod(int(marks["id"]), path, request, response, marks["effect"], marks["runs"], stream)
