"""Code that flatc makes of a schema exchanges bytes with us, for sorts of fields that our own schema has none of."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.messages.scalars import F32, F64, U64
from tests.support.message_strategies import messages
from tests.support.sample_messages import Mixed, Point
from tests.support.waiting import PATIENCE_S

SCHEMA = """
namespace Sorts;
struct Point { x: float; y: float; }
struct Mixed { flag: bool; wide: double; count: int; }
table FlagEntry { key: string (key); value: bool; }
table WideEntry { key: string (key); value: double; }
table Holder {
  point: Point; mixed: Mixed; points: [Point]; mixeds: [Mixed]; exact: double; exacts: [double]; big: ulong;
  maybe: float = null; perhaps: bool = null; raw: [ubyte]; flag_of: [FlagEntry]; wide_of: [WideEntry];
}
root_type Holder;
"""


@dataclass(slots=True)
class Holder:
    """The table of the schema above."""

    point: Point | None = None
    mixed: Mixed | None = None
    points: list[Point] = field(default_factory=list[Point])
    mixeds: list[Mixed] = field(default_factory=list[Mixed])
    exact: F64 = 0.0
    exacts: list[F64] = field(default_factory=list[F64])
    big: U64 = 0
    maybe: F32 | None = None
    perhaps: bool | None = None
    raw: bytes = b""
    flag_of: dict[str, bool] = field(default_factory=dict[str, bool])
    wide_of: dict[str, F64] = field(default_factory=dict[str, F64])


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


def point(made: Any) -> Point | None:
    return made and Point(made.x, made.y)


def mixed(made: Any) -> Mixed | None:
    return made and Mixed(bool(made.flag), made.wide, made.count)


def plain(values: Any) -> list[Any]:
    return [] if values is None else np.asarray(values).tolist()


def from_generated(made: Any) -> Holder:
    return Holder(
        point(made.point),
        mixed(made.mixed),
        [Point(each.x, each.y) for each in made.points or []],
        [Mixed(bool(each.flag), each.wide, each.count) for each in made.mixeds or []],
        made.exact,
        plain(made.exacts),
        made.big,
        made.maybe,
        made.perhaps,
        bytes(plain(made.raw)),
        {each.key.decode(): bool(each.value) for each in made.flagOf or []},
        {each.key.decode(): each.value for each in made.wideOf or []},
    )


def to_generated(sorts: Any, message: Holder) -> Any:
    def made(name: str, **values: Any) -> Any:
        result = getattr(sorts(name), name + "T")()
        for key, value in values.items():
            setattr(result, key, value)
        return result

    def made_point(each: Point) -> Any:
        return made("Point", x=each.x, y=each.y)

    def made_mixed(each: Mixed) -> Any:
        return made("Mixed", flag=each.flag, wide=each.wide, count=each.count)

    return made(
        "Holder",
        point=message.point and made_point(message.point),
        mixed=message.mixed and made_mixed(message.mixed),
        points=[made_point(each) for each in message.points],
        mixeds=[made_mixed(each) for each in message.mixeds],
        exact=message.exact,
        exacts=message.exacts,
        big=message.big,
        maybe=message.maybe,
        perhaps=message.perhaps,
        raw=list(message.raw),
        flagOf=[made("FlagEntry", key=key, value=value) for key, value in message.flag_of.items()],
        wideOf=[made("WideEntry", key=key, value=value) for key, value in message.wide_of.items()],
    )


@given(message=messages(Holder), prefix_bytes=st.sampled_from([0, 8]))
def test_generated_code_reads_our_bytes(sorts: Any, message: Holder, prefix_bytes: int) -> None:
    data = encode(message, prefix_bytes=prefix_bytes)
    made = sorts("Holder").HolderT.InitFromObj(sorts("Holder").Holder.GetRootAs(data))
    assert repr(from_generated(made)) == repr(message)


@given(message=messages(Holder))
def test_we_read_the_bytes_of_generated_code(sorts: Any, message: Holder) -> None:
    message.exact += 0.0  # generated code takes -0.0 for the default and does not write it
    message.wide_of = {key: value + 0.0 for key, value in message.wide_of.items()}
    builder = flatbuffers.Builder(0)
    builder.Finish(to_generated(sorts, message).Pack(builder))
    assert repr(decode(Holder, bytes(builder.Output()))) == repr(message)
