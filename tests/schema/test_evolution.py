"""The schema only grows: whatever would break a deployed peer is found, all at once; the kits' vectors are current."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.flatbuffers import violations
from generators.vectors import files
from tests.support.command import execute, stdout_of
from tests.support.kit_engine import KITS

SCHEMAS = Path(__file__).parents[2] / "schema"
RELEASED = """\
namespace Lucky.Rpc;

enum MethodId:uint {
  NONE = 0,
  SceneService_ListEntities = 61,
  SceneService_GetEntity = 62,
}

/// A comment says nothing.
struct Vec3 {
  x:float;
  y:float;
}

table Entry {
  key:string (key);
  value:float;
}

table Entity {
  id:ulong;
  name:string;
  place:Vec3;
  weight:float = null;
  tags:[string];
  numbers:[Entry];
}

table Idle {
  id:int;
}

root_type Entity;
"""

#: What is edited, into what, and whether flatc sees that it breaks a released peer.
BREAKS: dict[str, tuple[str, str, bool]] = {
    "moved": ("  id:ulong;\n  name:string;\n", "  name:string;\n  id:ulong;\n", True),
    "inserted": ("  numbers:[Entry];\n", "  more:int;\n  numbers:[Entry];\n", True),
    "removed from the end": ("  numbers:[Entry];\n", "", False),
    "removed from the middle": ("  tags:[string];\n", "", True),
    "renamed": ("  name:string;", "  title:string;", False),
    "renamed and retyped": ("  name:string;", "  age:uint;", True),
    "retyped": ("  id:ulong;", "  id:long;", True),
    "made a list": ("  name:string;", "  name:[string];", True),
    "given a default": ("  id:ulong;", "  id:ulong = 7;", True),
    "made mandatory": ("weight:float = null;", "weight:float;", True),
    "no key any more": ("key:string (key);", "key:string;", False),
    "required from now on": ("  tags:[string];", "  tags:[string] (required);", False),
    "appended as required": ("  numbers:[Entry];\n", "  numbers:[Entry];\n  more:string (required);\n", False),
    "table removed": ("table Idle {\n  id:int;\n}\n", "", False),
    "struct became a table": ("struct Vec3", "table Vec3", True),
    "struct grew": ("  y:float;\n", "  y:float;\n  z:float;\n", False),
    "struct reordered": ("  x:float;\n  y:float;\n", "  y:float;\n  x:float;\n", True),
    "id changed": ("GetEntity = 62", "GetEntity = 63", True),
    "id reused": ("SceneService_GetEntity = 62", "SceneService_Other = 62", False),
    "ids swapped": (
        "ListEntities = 61,\n  SceneService_GetEntity = 62",
        "GetEntity = 61,\n  SceneService_ListEntities = 62",
        True,
    ),
    "id removed": ("  SceneService_GetEntity = 62,\n", "", False),
    "enum of another width": ("MethodId:uint", "MethodId:ushort", False),
    "enum removed": ("enum MethodId", "enum Method", False),
    "another root": ("root_type Entity", "root_type Entry", False),
    "another namespace": ("namespace Lucky.Rpc", "namespace Lucky", False),
}

#: What a newer version may do.
GROWTH = {
    "nothing": ("", ""),
    "a comment": ("/// A comment says nothing.\n", "// Nor does another one.\n"),
    "a field": ("  numbers:[Entry];\n", "  numbers:[Entry];\n  more:[Vec3];\n"),
    "an optional field": ("  numbers:[Entry];\n", "  numbers:[Entry];\n  more:bool = null;\n"),
    "a method": ("GetEntity = 62,\n", "GetEntity = 62,\n  SceneService_GetSceneInfo = 63,\n"),
    "a table": ("root_type", "table Other {\n  id:int;\n}\n\nroot_type"),
    "a struct and an enum": ("root_type", "struct Two {\n  a:int;\n}\n\nenum Mode:int {\n  A = 0,\n}\n\nroot_type"),
    "a field out of use": ("  tags:[string];", "  tags:[string] (deprecated);"),
}


def edited(old: str, new: str) -> str:
    """Return the released schema with one thing changed."""
    assert old in RELEASED
    return RELEASED.replace(old, new, 1)


def test_what_breaks_a_released_peer_is_found() -> None:
    for name, (old, new, _) in BREAKS.items():
        assert violations(RELEASED, edited(old, new)), name


def test_growth_is_allowed() -> None:
    for name, (old, new) in GROWTH.items():
        assert violations(RELEASED, edited(old, new)) == [], name


def test_every_violation_is_reported_and_not_only_the_first() -> None:
    text = RELEASED
    for name in ("retyped", "made mandatory", "struct grew", "id removed", "another root"):
        text = text.replace(*BREAKS[name][:2], 1)
    assert violations(RELEASED, text) == [
        "enum MethodId:uint: SceneService_GetEntity = 62 was removed or changed",
        "struct Vec3 changed; a struct never does",
        "table Entity: id:ulong; was in slot 0, now id:long; is",
        "table Entity: weight:float = null; was in slot 3, now weight:float; is",
        "root_type Entity; was removed",
    ]


def test_the_schema_keeps_what_was_released() -> None:
    released, new = ((SCHEMAS / name).read_text(encoding="utf-8") for name in ("released.fbs", "hazel_rpc.fbs"))
    assert violations(released, new) == []


def test_the_kits_conformance_vectors_are_those_of_the_python_implementation() -> None:
    committed = {path.name: path.read_text() for path in (KITS / "vectors").glob("*.json")}
    assert files.render() == committed


@given(data=st.data())
def test_a_table_that_lost_shuffled_or_replaced_fields_is_never_taken_for_grown(data: st.DataObject) -> None:
    fields = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["int", "[float]", "string"]))
    tables = st.lists(fields, max_size=6, unique_by=lambda field: field[0])
    old, new = data.draw(tables), data.draw(tables)
    found = violations(table(old), table(new))
    assert (found == []) == (new[: len(old)] == old)


def table(fields: list[tuple[str, str]]) -> str:
    return "table T {\n" + "".join(f"  {name}:{kind};\n" for name, kind in fields) + "}\n"


@given(data=st.data())
def test_an_enum_may_only_gain_members(data: st.DataObject) -> None:
    members = st.dictionaries(st.sampled_from("ABCDEF"), st.integers(0, 5), max_size=6).filter(
        lambda found: len(set(found.values())) == len(found)
    )
    old, new = data.draw(members), data.draw(members)
    assert (violations(enum(old), enum(new)) == []) == (old.items() <= new.items())


def enum(members: dict[str, int]) -> str:
    return "enum E:int {\n" + "".join(f"  {name} = {value},\n" for name, value in members.items()) + "}\n"


@pytest.fixture(scope="module")
def flatc() -> str:
    found = shutil.which("flatc")
    if found is None:
        pytest.skip("flatc is not installed: apt-get install flatbuffers-compiler")
    return found


def conforms(flatc: str, folder: Path, text: str) -> bool:
    """Return flatc's judgement of `text` as a newer version of the released schema."""
    (folder / "released.fbs").write_text(RELEASED)
    (folder / "new.fbs").write_text(text)
    done = execute(flatc, "--conform", "released.fbs", "new.fbs", cwd=folder)
    output = done.stdout + done.stderr
    assert done.returncode == 0 or "schemas don't conform" in output, f"no judgement but an error: {output}"
    return done.returncode == 0


def test_what_flatc_refuses_is_refused_here_and_more_than_that(flatc: str, tmp_path: Path) -> None:
    for name, (old, new, seen_by_flatc) in BREAKS.items():
        assert conforms(flatc, tmp_path, edited(old, new)) == (not seen_by_flatc), name
    for name, (old, new) in GROWTH.items():
        assert conforms(flatc, tmp_path, edited(old, new)), name


def test_flatc_too_takes_the_schema_for_a_newer_version_of_the_released_one(flatc: str) -> None:
    stdout_of(execute(flatc, "--conform", SCHEMAS / "released.fbs", SCHEMAS / "hazel_rpc.fbs"))
