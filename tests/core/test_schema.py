"""schema/hazel_rpc.fbs says the same as the dataclasses, and code that flatc makes of it exchanges bytes with us."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings

from lucky_transport.codec.envelope import Envelope, Kind, Metadatum, decode_envelope, encode_envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.methods import METHODS
from lucky_transport.testing.messages import any_message, message_classes, messages

SCHEMA = Path(__file__).parents[2] / "schema" / "hazel_rpc.fbs"
NAMESPACE = "Lucky.Rpc"
CLASSES = (Envelope, Metadatum, *message_classes())
SPELLINGS = {"f32": "float", "i32": "int", "u32": "uint", "u64": "ulong", "bool": "bool", "str": "string"}

Fields = list[tuple[str, str]]


class Schema:
    """The tables and enums of the .fbs, in its own words; enum types are replaced by the integers under them."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//.*", "", text)
        self.namespace = re.findall(r"namespace ([\w.]+);", text)
        self.root = re.findall(r"root_type (\w+);", text)
        enums = re.findall(r"enum (\w+):(\w+) \{(.*?)\}", text, re.DOTALL)
        self.enums = {
            name: {member: int(value) for member, value in re.findall(r"(\w+) = (\d+)", body)}
            for name, _, body in enums
        }
        integers = {name: integer for name, integer, _ in enums}
        self.tables: dict[str, Fields] = {}
        for name, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.DOTALL):
            assert name not in self.tables
            lines = [line.strip() for line in body.strip().splitlines() if line.strip()]
            found = [re.fullmatch(r"(\w+):(\[?\w+\]?(?: \(key\))?);", line) for line in lines]
            assert all(found), f"table {name} has a line this test cannot read: {lines}"
            self.tables[name] = [(match[1], integers.get(match[2], match[2])) for match in found if match]


def spelling(field: Field) -> str:
    """Return how the schema spells a field's type."""
    if field.kind == "bytes" and field.shape == "one":
        return "[ubyte]"
    one = field.message.__name__ if field.message else SPELLINGS[field.kind]
    if field.shape == "map":
        return f"[{one[0].upper()}{one[1:]}Entry]"
    return f"[{one}]" if field.shape == "list" else one


def expected_tables() -> dict[str, Fields]:
    """Return the tables as the dataclasses demand them, those for the entries of maps included."""
    tables: dict[str, Fields] = {}
    for cls in CLASSES:
        tables[cls.__name__] = [(field.name, spelling(field)) for field in fields_of(cls)]
        for field in fields_of(cls):
            if field.shape == "map":
                value = spelling(Field("value", field.kind, "one", field.message))
                tables[spelling(field)[1:-1]] = [("key", "string (key)"), ("value", value)]
    return tables


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema(SCHEMA.read_text())


@pytest.mark.parametrize("name", expected_tables())
def test_a_table_has_the_fields_of_its_dataclass_in_the_same_order(name: str, schema: Schema) -> None:
    assert schema.tables.get(name) == expected_tables()[name]


def test_the_schema_holds_no_table_that_no_message_uses(schema: Schema) -> None:
    assert set(schema.tables) == set(expected_tables())


def test_the_method_ids_are_those_of_the_table_of_methods(schema: Schema) -> None:
    ids = {f"{row.service.rpartition('.')[2]}_{row.name.rpartition('/')[2]}": row.id for row in METHODS}
    assert schema.enums["MethodId"] == {"NONE": 0, **ids}


def test_the_kinds_are_those_of_the_envelope(schema: Schema) -> None:
    assert schema.enums["Kind"] == {kind.name: kind.value for kind in Kind}
    assert set(schema.enums) == {"MethodId", "Kind"}


def test_the_root_is_the_envelope_in_a_namespace_apart_from_protobuf(schema: Schema) -> None:
    assert schema.namespace == [NAMESPACE]
    assert schema.root == ["Envelope"]


# --- the code that flatc generates ---


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile the schema to Python with flatc and make the result importable."""
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed: apt-get install flatbuffers-compiler")
    folder = tmp_path_factory.mktemp("generated")
    command = [flatc, "--python", "--gen-object-api", "-o", str(folder), str(SCHEMA)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == NAMESPACE.split(".")[0]]:
        del sys.modules[name]


def generated_class(name: str, suffix: str = "") -> Any:
    """Return the generated class `name`, or with suffix "T" its object form."""
    return getattr(importlib.import_module(f"{NAMESPACE}.{name}"), name + suffix)


def generated_name(name: str) -> str:
    """Return a field's name as flatc spells it: observation_names -> observationNames."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def to_generated(message: Any, write_empty: bool) -> Any:
    """Return the object of the generated class that says the same."""
    made = generated_class(type(message).__name__, "T")()
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if value or write_empty or field.kind == "f32":
            setattr(made, generated_name(field.name), part_to_generated(field, value, write_empty))
    return made


def part_to_generated(field: Field, value: Any, write_empty: bool) -> Any:
    if field.shape == "list" and field.kind == "message":
        return [to_generated(element, write_empty) for element in value]
    if field.shape == "map":
        entries: list[Any] = []
        for key in sorted(value):
            entry = generated_class(spelling(field)[1:-1], "T")()
            entry.key = key
            entry.value = to_generated(value[key], write_empty) if field.message else value[key]
            entries.append(entry)
        return entries
    if field.kind == "message":
        return None if value is None else to_generated(value, write_empty)
    return list(value) if field.kind == "bytes" else value


def from_generated(cls: type, made: Any) -> Any:
    """Return our message that says the same as an object of the generated class."""
    names = {field: generated_name(field.name) for field in fields_of(cls)}
    values = {field.name: part_from_generated(field, getattr(made, name)) for field, name in names.items()}
    return cls(**{name: value for name, value in values.items() if value is not None})


def part_from_generated(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.shape == "map":
        of = Field("value", field.kind, "one", field.message)
        return {text(entry.key): part_from_generated(of, entry.value) for entry in value}
    if field.shape == "list" and field.message:
        return [from_generated(field.message, element) for element in value]
    if field.message:
        return from_generated(field.message, value)
    if field.kind == "str":
        return [text(element) for element in value] if field.shape == "list" else text(value)
    if field.kind == "bytes":
        return bytes(bytearray(value))
    return value.tolist() if isinstance(value, np.ndarray) else value


def text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def pack(made: Any) -> bytes:
    builder = flatbuffers.Builder(0)
    builder.Finish(made.Pack(builder))
    return bytes(builder.Output())


def unpack(cls: type, data: bytes) -> Any:
    root = generated_class(cls.__name__).GetRootAs(data)
    return from_generated(cls, generated_class(cls.__name__, "T").InitFromObj(root))


def unsigned_zeros(message: Any) -> str:
    """Return the message's text with 0.0 for -0.0: generated code takes both for the default and writes neither."""
    return re.sub(r"-0\.0(?!\d)", "0.0", repr(message))


@pytest.mark.usefixtures("generated")
@settings(max_examples=60, deadline=None)
@given(message=any_message())
def test_generated_code_reads_our_bytes(message: Any) -> None:
    assert repr(unpack(type(message), encode(message))) == repr(message)


@pytest.mark.usefixtures("generated")
@settings(max_examples=60, deadline=None)
@given(message=any_message(), write_empty=...)
def test_we_read_the_bytes_of_generated_code(message: Any, write_empty: bool) -> None:
    again = decode(type(message), pack(to_generated(message, write_empty)))
    assert unsigned_zeros(again) == unsigned_zeros(message)


@pytest.mark.usefixtures("generated")
@settings(max_examples=30, deadline=None)
@given(envelope=messages(Envelope))
def test_generated_code_reads_and_writes_our_envelopes(envelope: Envelope) -> None:
    envelope.kind = Kind.ERROR
    assert unpack(Envelope, encode_envelope(envelope)) == envelope
    assert decode_envelope(pack(to_generated(envelope, write_empty=False))) == envelope
