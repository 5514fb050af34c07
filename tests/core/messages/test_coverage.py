"""The .proto files, the .fbs and the dataclasses agree field by field, for every message of every service.

The .proto files are read as text: the core knows nothing of protobuf. That their compiled form says the same, and
that luckyrobots' own does, is tested with the grpc plugin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.messages.scalars import one_of_fields
from lucky_transport.testing.messages import message_classes
from lucky_transport.testing.schema import Item, Schema, read_schema

ROOT = Path(__file__).parents[3]
PROTOS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "proto").glob("*.proto"))}
CLASSES = {cls.__name__: cls for cls in message_classes()}
ENUMS = {field.enum.__name__: field.enum for cls in CLASSES.values() for field in fields_of(cls) if field.enum}

#: How many methods each service of luckyrobots 0.5.0 has.
METHODS_OF = {"Agent": 31, "Camera": 4, "Debug": 1, "Lidar": 14, "Mujoco": 3, "MujocoScene": 7, "Scene": 8}
METHODS_OF |= {"Telemetry": 2, "Viewport": 2}

#: Messages that no method uses.
UNUSED = {"GetViewportFrameRequest", "StopViewportStreamRequest", "StopViewportStreamResponse"}
#: What only gRPC needs for stepping a batch; shared memory has its regions for it.
ONLY_GRPC = {"GetSpec", "Exchange", "Attach"}
ONLY_GRPC_MESSAGES = {"GetSpecRequest", "GetSpecResponse", "ExchangeRequest", "ExchangeResponse"}
ONLY_GRPC_MESSAGES |= {"AttachRequest", "AttachEvent"}

KINDS = {"float": "f32", "double": "f64", "int32": "i32", "uint32": "u32", "uint64": "u64", "bool": "bool"}
KINDS |= {"string": "str", "bytes": "bytes"}
SPELLINGS = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "u64": "ulong", "bool": "bool"}
SPELLINGS |= {"str": "string", "bytes": "[ubyte]"}


@dataclass(frozen=True)
class Told:
    """What each of the three says of a field: name, a scalar kind or a class's name, shape, None told from zero."""

    name: str
    type: str
    shape: str = "one"
    optional: bool = False


@dataclass(frozen=True)
class Proto:
    """One message of the .proto files: its fields in the order of their numbers, and those in its oneof."""

    fields: tuple[Told, ...]
    one_of: tuple[str, ...]


FIELD = re.compile(r"(optional |repeated |)(?:map<string, (\w+)>|[\w.]*?(\w+)) (\w+) = (\d+)(?: \[packed = true\])?;")


def blocks(kind: str) -> dict[str, list[str]]:
    """Return the lines inside each `message`, `enum` or `service` of the .proto files, by its full name."""
    found: dict[str, list[str]] = {}
    for text in PROTOS.values():
        text = re.sub(r"[ \t]*//.*", "", text)
        package = re.findall(r"^package ([\w.]+);", text, re.MULTILINE)[0]
        for name, body in re.findall(rf"^{kind} (\w+) \{{(.*?)^\}}$", with_ends(text), re.DOTALL | re.MULTILINE):
            found[f"{package}.{name}"] = [line.strip() for line in body.splitlines() if line.strip()]
    return found


def with_ends(text: str) -> str:
    """Return the text with the end of an empty block on a line of its own, as that of every other."""
    return re.sub(r"\{\}$", "{\n}", text, flags=re.MULTILINE)


def read_message(lines: list[str]) -> Proto:
    """Return what the lines inside a message declare; refuses what it cannot read."""
    numbered: list[tuple[int, Told]] = []
    rivals: list[str] = []
    in_oneof = False
    for line in lines:
        if line.startswith("oneof") or line == "}":
            in_oneof = line != "}"
            continue
        found = FIELD.fullmatch(line)
        assert found, f"this test cannot read {line!r}"
        label, of_map, plain, name, number = found.groups()
        kind = of_map or plain
        shape = "map" if of_map else "list" if label == "repeated " else "one"
        # In a oneof every scalar may be a given zero, only of a text it makes no difference.
        optional = label == "optional " or (in_oneof and kind in KINDS and kind != "string")
        numbered.append((int(number), Told(name, KINDS.get(kind, kind), shape, optional)))
        if in_oneof:
            rivals.append(name)
    numbered.sort(key=lambda pair: pair[0])
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1)), "numbers leave no gap"
    return Proto(tuple(told for _, told in numbered), tuple(rivals))


MESSAGES = {name.rpartition(".")[2]: read_message(lines) for name, lines in blocks("message").items()}
RPC = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\);")


@pytest.fixture(scope="module")
def schema() -> Schema:
    return read_schema((ROOT / "schema" / "hazel_rpc.fbs").read_text(encoding="utf-8"))


def test_every_message_of_the_protocol_has_a_dataclass_and_a_table_or_struct(schema: Schema) -> None:
    assert len(MESSAGES) == len(blocks("message")), "no name is there twice"
    assert set(CLASSES) == set(MESSAGES) - UNUSED - ONLY_GRPC_MESSAGES
    assert {*schema.tables, *schema.structs} >= set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_dataclass_has_the_fields_of_its_message_in_the_order_of_their_numbers(name: str) -> None:
    assert tuple(told_of_field(field) for field in fields_of(CLASSES[name])) == MESSAGES[name].fields
    assert one_of_fields(CLASSES[name]) == MESSAGES[name].one_of


@pytest.mark.parametrize("name", CLASSES)
def test_a_table_has_the_fields_of_its_message_in_the_order_of_their_numbers(name: str, schema: Schema) -> None:
    items = {**schema.tables, **schema.structs}[name]
    assert tuple(told_of(item, schema) for item in items) == MESSAGES[name].fields


def told_of_field(field: Field) -> Told:
    """Return what a field of a dataclass says."""
    named = field.message or field.enum
    return Told(field.name, named.__name__ if named else field.kind, field.shape, field.optional)


def told_of(item: Item, schema: Schema) -> Told:
    """Return what a field of the schema says, in the words of the dataclasses."""
    kinds = {spelling: kind for kind, spelling in SPELLINGS.items()}
    optional = item.default == "null"
    if item.type in kinds or not item.type.startswith("["):
        return Told(item.name, kinds.get(item.type, item.type), "one", optional)
    inner = item.type[1:-1]
    entry = schema.tables.get(inner, ())
    if entry and entry[0].mark == "key":
        return Told(item.name, kinds.get(entry[1].type, entry[1].type), "map", optional)
    return Told(item.name, kinds.get(inner, inner), "list", optional)


@pytest.mark.parametrize("name", ENUMS)
def test_an_enum_has_the_members_of_the_protocols_enum_without_their_prefix(name: str, schema: Schema) -> None:
    members = dict(line.rstrip(";").split(" = ") for line in blocks("enum")[f"hazel.rpc.{name}"])
    ours = {each.name: each.value for each in ENUMS[name]}
    assert [int(value) for value in members.values()] == list(ours.values())
    assert all(theirs.endswith(f"_{mine}") for theirs, mine in zip(members, ours, strict=True))
    assert schema.enums[name].members == ours


def test_every_enum_of_the_protocol_is_there() -> None:
    assert {f"hazel.rpc.{name}" for name in ENUMS} == set(blocks("enum"))


def test_the_table_has_the_methods_of_the_protocol_with_their_messages_and_arity() -> None:
    declared = [
        (f"/{service}/{found[1]}", found[2], found[4], found[3] is not None)
        for service, lines in blocks("service").items()
        for found in map(RPC.fullmatch, lines)
        if found and found[1] not in ONLY_GRPC
    ]
    rows = [(row.name, row.request.__name__, row.response.__name__, row.stream is not None) for row in METHODS]
    assert sorted(rows) == sorted(declared)


def test_the_nine_services_have_their_72_methods() -> None:
    counted = {name: sum(row.service == f"hazel.rpc.{name}Service" for row in METHODS) for name in METHODS_OF}
    assert counted == METHODS_OF
    assert sum(counted.values()) == 72
