"""Code that flatc makes of a schema exchanges bytes with us, for sorts of fields that our own schema has none of."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.fields import Field, fields_of
from lucky_transport.messages.scalars import F32, F64, U64
from tests.support.message_strategies import Leaf, Mixed, Point, messages
from tests.support.waiting import PATIENCE_S

SCHEMA = """
namespace Sorts;
struct Point { x: float; y: float; }
struct Mixed { flag: bool; wide: double; count: int; }
table FlagEntry { key: string (key); value: bool; }
table WideEntry { key: string (key); value: double; }
table Leaf { id: ulong; name: string; }
table LeafEntry { key: string (key); value: Leaf; }
table NameEntry { key: string (key); value: string; }
table Holder {
  point: Point; mixed: Mixed; points: [Point]; mixeds: [Mixed]; exact: double; exacts: [double]; big: ulong;
  maybe: float = null; perhaps: bool = null; raw: [ubyte]; flag_of: [FlagEntry]; wide_of: [WideEntry];
  name: string; names: [string]; leaf: Leaf; leaves: [Leaf]; leaf_of: [LeafEntry]; name_of: [NameEntry];
}
root_type Holder;
"""


@dataclass(slots=True)
class Holder:
    """The table of the schema above."""

    point: Point | None = None
    mixed: Mixed | None = None
    points: list[Point] = dataclasses.field(default_factory=list[Point])
    mixeds: list[Mixed] = dataclasses.field(default_factory=list[Mixed])
    exact: F64 = 0.0
    exacts: list[F64] = dataclasses.field(default_factory=list[F64])
    big: U64 = 0
    maybe: F32 | None = None
    perhaps: bool | None = None
    raw: bytes = b""
    flag_of: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    wide_of: dict[str, F64] = dataclasses.field(default_factory=dict[str, F64])
    name: str = ""
    names: list[str] = dataclasses.field(default_factory=list[str])
    leaf: Leaf | None = None
    leaves: list[Leaf] = dataclasses.field(default_factory=list[Leaf])
    leaf_of: dict[str, Leaf] = dataclasses.field(default_factory=dict[str, Leaf])
    name_of: dict[str, str] = dataclasses.field(default_factory=dict[str, str])


@pytest.fixture(scope="module")
def sorts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Compile the schema to Python with flatc; what is returned finds a generated class by its name."""
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed: apt-get install flatbuffers-compiler")
    folder = tmp_path_factory.mktemp("sorts")
    (folder / "sorts.fbs").write_text(SCHEMA)
    command = [flatc, "--python", "--gen-object-api", "-o", str(folder), str(folder / "sorts.fbs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"Sorts.{name}")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == "Sorts"]:
        del sys.modules[name]


ENTRIES = {"bool": "FlagEntry", "f64": "WideEntry", "message": "LeafEntry", "str": "NameEntry"}


def camel(name: str) -> str:
    """Return a field's name as flatc spells it."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def from_generated(cls: type, made: Any) -> Any:
    """Return our message, or struct, that says the same as an object of the generated class."""
    return made and cls(*(part_of(field, getattr(made, camel(field.name))) for field in fields_of(cls)))


def part_of(field: Field, value: Any) -> Any:
    of = Field("value", field.kind, "one", field.message)
    if field.shape == "map":
        return {entry.key.decode(): part_of(of, entry.value) for entry in value or []}
    if field.kind == "bytes":
        return bytes([] if value is None else bytearray(value))
    if field.shape == "list":
        return [part_of(of, each) for each in ([] if value is None else value)]
    if field.message:
        return from_generated(field.message, value)
    if field.kind == "str":
        return (value or b"").decode()
    return value if value is None else bool(value) if field.kind == "bool" else np.asarray(value).item()


def to_generated(sorts: Any, message: Any) -> Any:
    """Return the object of the generated class that says the same."""
    made = getattr(sorts(type(message).__name__), type(message).__name__ + "T")()
    for field in fields_of(type(message)):
        setattr(made, camel(field.name), part_for(sorts, field, getattr(message, field.name)))
    return made


def part_for(sorts: Any, field: Field, value: Any) -> Any:
    of = Field("value", field.kind, "one", field.message)
    if field.shape == "map":
        entry = ENTRIES[field.kind]
        made = [(getattr(sorts(entry), entry + "T")(), key) for key in value]
        for each, key in made:
            each.key, each.value = key, part_for(sorts, of, value[key])
        return [each for each, _ in made]
    if field.shape == "list":
        return [part_for(sorts, of, each) for each in value]
    if field.message:
        return value and to_generated(sorts, value)
    return list(value) if field.kind == "bytes" else value


@given(message=messages(Holder), prefix_bytes=st.sampled_from([0, 8]))
def test_generated_code_reads_our_bytes(sorts: Any, message: Holder, prefix_bytes: int) -> None:
    data = encode(message, prefix_bytes=prefix_bytes)
    made = sorts("Holder").HolderT.InitFromObj(sorts("Holder").Holder.GetRootAs(data))
    assert repr(from_generated(Holder, made)) == repr(message)


@given(message=messages(Holder))
def test_we_read_the_bytes_of_generated_code(sorts: Any, message: Holder) -> None:
    message.exact += 0.0  # generated code takes -0.0 for the default and does not write it
    message.wide_of = {key: value + 0.0 for key, value in message.wide_of.items()}
    builder = flatbuffers.Builder(0)
    builder.Finish(to_generated(sorts, message).Pack(builder))
    assert repr(decode(Holder, bytes(builder.Output()))) == repr(message)
