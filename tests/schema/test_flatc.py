"""Code that flatc makes of schema/hazel_rpc.fbs exchanges bytes with us."""

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given

from lucky_transport.codec.envelope import Envelope, Kind, decode_envelope, encode_envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.fields import Field, fields_of, member
from tests.support.command import execute, stdout_of
from tests.support.message_strategies import any_message, messages

SCHEMA = Path(__file__).parents[2] / "schema" / "hazel_rpc.fbs"
NAMESPACE = "Lucky.Rpc"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile the schema to Python with flatc and make the result importable."""
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed: apt-get install flatbuffers-compiler")
    folder = tmp_path_factory.mktemp("generated")
    stdout_of(execute(flatc, "--python", "--gen-object-api", "-o", folder, SCHEMA))
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


def entry_name(field: Field) -> str:
    """Return the table of a map's entries."""
    one = field.message.__name__ if field.message else {"f32": "float", "str": "string"}.get(field.kind, field.kind)
    return f"{one[0].upper()}{one[1:]}Entry"


def to_generated(message: Any, write_empty: bool) -> Any:
    """Return the object of the generated class that says the same."""
    made = generated_class(type(message).__name__, "T")()
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if value or write_empty or field.kind in ("f32", "f64") or field.optional:
            setattr(made, generated_name(field.name), part_to_generated(field, value, write_empty))
    return made


def part_to_generated(field: Field, value: Any, write_empty: bool) -> Any:
    if field.shape == "list" and field.message:
        return [to_generated(element, write_empty) for element in value]
    if field.shape == "map":
        entries: list[Any] = []
        for key in sorted(value):
            entry = generated_class(entry_name(field), "T")()
            entry.key = key
            entry.value = to_generated(value[key], write_empty) if field.message else value[key]
            entries.append(entry)
        return entries
    if field.message:
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
    if field.enum:
        return member(field.enum, value)
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


@pytest.mark.exhaustive
@pytest.mark.usefixtures("generated")
@given(message=any_message())
def test_generated_code_reads_our_bytes(message: Any) -> None:
    assert repr(unpack(type(message), encode(message))) == repr(message)


@pytest.mark.usefixtures("generated")
@given(message=any_message(), write_empty=...)
def test_we_read_the_bytes_of_generated_code(message: Any, write_empty: bool) -> None:
    again = decode(type(message), pack(to_generated(message, write_empty)))
    assert unsigned_zeros(again) == unsigned_zeros(message)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("generated")
@given(envelope=messages(Envelope))
def test_generated_code_reads_and_writes_our_envelopes(envelope: Envelope) -> None:
    envelope.kind = Kind.ERROR
    assert unpack(Envelope, encode_envelope(envelope)) == envelope
    assert decode_envelope(pack(to_generated(envelope, write_empty=False))) == envelope
