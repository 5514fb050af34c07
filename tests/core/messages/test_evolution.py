"""The schema only grows: whatever would break a deployed peer is found, all of it at once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.testing.evolution import main, violations
from lucky_transport.testing.schema import Enum, Item, Schema, read_schema

SCHEMAS = Path(__file__).parents[3] / "schema"
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

#: What is edited, into what, the sentences that follow, and whether flatc sees it too.
BREAKS: dict[str, tuple[str, str, list[str], bool]] = {
    "moved": (
        "  id:ulong;\n  name:string;\n",
        "  name:string;\n  id:ulong;\n",
        ["Entity.id moved from slot 0 to 1", "Entity.name moved from slot 1 to 0"],
        True,
    ),
    "inserted": (
        "  numbers:[Entry];\n",
        "  more:int;\n  numbers:[Entry];\n",
        [
            "Entity.numbers moved from slot 5 to 6",
            "Entity.more was put into slot 5 before released fields; append it",
        ],
        True,
    ),
    "removed from the end": ("  numbers:[Entry];\n", "", ["Entity.numbers in slot 5 was removed"], False),
    "removed from the middle": (
        "  tags:[string];\n",
        "",
        ["Entity.tags in slot 4 was removed", "Entity.numbers moved from slot 5 to 4"],
        True,
    ),
    "renamed": ("  name:string;", "  title:string;", ["Entity.name in slot 1 became title:string"], False),
    "renamed and retyped": ("  name:string;", "  age:uint;", ["Entity.name in slot 1 became age:uint"], True),
    "retyped": ("  id:ulong;", "  id:long;", ["Entity.id was ulong and is long"], True),
    "made a list": ("  name:string;", "  name:[string];", ["Entity.name was string and is [string]"], True),
    "given a default": ("  id:ulong;", "  id:ulong = 7;", ["Entity.id had the default zero and has 7"], True),
    "made mandatory": (
        "weight:float = null;",
        "weight:float;",
        ["Entity.weight had the default null and has zero"],
        True,
    ),
    "no key any more": ("key:string (key);", "key:string;", ["Entry.key was marked (key) and is marked ()"], False),
    "required from now on": (
        "  tags:[string];",
        "  tags:[string] (required);",
        ["Entity.tags was marked () and is marked (required)"],
        False,
    ),
    "appended as required": (
        "  numbers:[Entry];\n",
        "  numbers:[Entry];\n  more:string (required);\n",
        ["Entity.more is new and required, which no released peer writes"],
        False,
    ),
    "table removed": ("table Idle {\n  id:int;\n}\n", "", ["table Idle was removed"], False),
    "struct became a table": ("struct Vec3", "table Vec3", ["struct Vec3 became a table"], True),
    "struct grew": (
        "  y:float;\n",
        "  y:float;\n  z:float;\n",
        ["struct Vec3 was {x:float, y:float} and is {x:float, y:float, z:float}; a struct never changes"],
        False,
    ),
    "struct reordered": (
        "  x:float;\n  y:float;\n",
        "  y:float;\n  x:float;\n",
        ["struct Vec3 was {x:float, y:float} and is {y:float, x:float}; a struct never changes"],
        True,
    ),
    "id changed": (
        "GetEntity = 62",
        "GetEntity = 63",
        ["MethodId.SceneService_GetEntity was 62 and is 63"],
        True,
    ),
    "id reused": (
        "SceneService_GetEntity = 62",
        "SceneService_Other = 62",
        ["MethodId: the value 62 of SceneService_GetEntity is used again, by SceneService_Other"],
        False,
    ),
    "ids swapped": (
        "ListEntities = 61,\n  SceneService_GetEntity = 62",
        "GetEntity = 61,\n  SceneService_ListEntities = 62",
        [
            "MethodId.SceneService_ListEntities was 61 and is 62",
            "MethodId: the value 61 of SceneService_ListEntities is used again, by SceneService_GetEntity",
            "MethodId.SceneService_GetEntity was 62 and is 61",
            "MethodId: the value 62 of SceneService_GetEntity is used again, by SceneService_ListEntities",
        ],
        True,
    ),
    "id removed": (
        "  SceneService_GetEntity = 62,\n",
        "",
        ["MethodId.SceneService_GetEntity = 62 was removed"],
        False,
    ),
    "enum of another width": (
        "MethodId:uint",
        "MethodId:ushort",
        ["enum MethodId was of uint and is of ushort"],
        False,
    ),
    "enum removed": ("enum MethodId", "enum Method", ["enum MethodId was removed"], False),
    "another root": ("root_type Entity", "root_type Entry", ["the root was Entity and is Entry"], False),
    "another namespace": (
        "namespace Lucky.Rpc",
        "namespace Lucky",
        ["the namespace was Lucky.Rpc and is Lucky"],
        False,
    ),
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


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_a_released_peer_is_named(name: str) -> None:
    old, new, sentences, _ = BREAKS[name]
    assert violations(read_schema(RELEASED), read_schema(edited(old, new))) == sentences


@pytest.mark.parametrize("name", GROWTH)
def test_growth_is_allowed(name: str) -> None:
    assert violations(read_schema(RELEASED), read_schema(edited(*GROWTH[name]))) == []


def test_every_violation_is_reported_and_not_only_the_first() -> None:
    text = RELEASED
    apart = ("retyped", "made mandatory", "struct grew", "id changed", "another root")
    for name in apart:
        text = text.replace(*BREAKS[name][:2], 1)
    found = violations(read_schema(RELEASED), read_schema(text))
    assert sorted(found) == sorted(sentence for name in apart for sentence in BREAKS[name][2])


def test_the_schema_keeps_what_was_released() -> None:
    released, new = (
        read_schema((SCHEMAS / name).read_text(encoding="utf-8")) for name in ("released.fbs", "hazel_rpc.fbs")
    )
    assert violations(released, new) == []


@given(data=st.data())
def test_a_table_that_lost_shuffled_or_replaced_fields_is_never_taken_for_grown(data: st.DataObject) -> None:
    fields = st.builds(Item, st.sampled_from("abcdef"), st.sampled_from(["int", "[float]", "string"]))
    tables = st.lists(fields, max_size=6, unique_by=lambda item: item.name).map(tuple)
    old, new = data.draw(tables), data.draw(tables)
    found = violations(Schema(tables={"T": old}), Schema(tables={"T": new}))
    assert (found == []) == (new[: len(old)] == old)


@given(data=st.data())
def test_an_enum_may_only_gain_members(data: st.DataObject) -> None:
    members = st.dictionaries(st.sampled_from("ABCDEF"), st.integers(0, 5), max_size=6).filter(
        lambda found: len(set(found.values())) == len(found)
    )
    old, new = data.draw(members), data.draw(members)
    found = violations(Schema(enums={"E": Enum("int", old)}), Schema(enums={"E": Enum("int", new)}))
    assert (found == []) == (old.items() <= new.items())


# --- beside flatc's own judgement ---


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
    command = [flatc, "--conform", "released.fbs", "new.fbs"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "schemas don't conform" in said, f"no judgement but an error: {said}"
    return done.returncode == 0


@pytest.mark.parametrize("name", BREAKS)
def test_what_flatc_refuses_is_refused_here_and_more_than_that(name: str, flatc: str, tmp_path: Path) -> None:
    old, new, _, seen_by_flatc = BREAKS[name]
    assert conforms(flatc, tmp_path, edited(old, new)) == (not seen_by_flatc)


@pytest.mark.parametrize("name", GROWTH)
def test_growth_is_allowed_by_flatc_too(name: str, flatc: str, tmp_path: Path) -> None:
    assert conforms(flatc, tmp_path, edited(*GROWTH[name]))


def test_flatc_too_takes_the_schema_for_a_newer_version_of_the_released_one(flatc: str) -> None:
    command = [flatc, "--conform", str(SCHEMAS / "released.fbs"), str(SCHEMAS / "hazel_rpc.fbs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- as a command, and what cannot be read ---


def test_the_command_prints_every_violation_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.fbs").write_text(RELEASED)
    (tmp_path / "new.fbs").write_text(edited(*BREAKS["moved"][:2]))
    assert main([str(tmp_path / "old.fbs"), str(tmp_path / "new.fbs")]) == 1
    assert capsys.readouterr().out.splitlines() == BREAKS["moved"][2]
    assert main([str(tmp_path / "old.fbs"), str(tmp_path / "old.fbs")]) == 0
    assert capsys.readouterr().out == ""


def test_the_command_says_what_it_cannot_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: " in capsys.readouterr().err
    assert main([str(tmp_path / "missing.fbs"), str(tmp_path / "missing.fbs")]) == 2
    assert "missing.fbs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("union Any { A, B }\n", r"'union Any \{ A, B \}' is none of namespace"),
        ('include "other.fbs";\n', r"is none of namespace"),
        ("table T {\n  a:int (id: 3);\n}\n", r"table T: 'a:int \(id: 3\);' is not written as"),
        ("table T {\n  a:int b:int;\n}\n", r"table T: 'a:int b:int;' is not written as"),
        ("table T {\n  a:int;\n  a:int;\n}\n", r"table T: the field a is declared twice"),
        ("table T {\n}\n\nstruct T {\n}\n", r"struct T is declared twice"),
        ("enum E:int {\n  A,\n}\n", r"enum E: 'A,' is not written as `NAME = number,`"),
        ("enum E:int {\n  A = 1,\n  B = 1,\n}\n", r"enum E: 'B = 1,' is there already"),
        ("table T {\n  a:int;\n", r"'table T \{' is none of"),
    ],
)
def test_a_schema_that_cannot_be_read_whole_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_schema(text)
