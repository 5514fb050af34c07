"""Files of JSON lines: what a version does not know is refused with file, line and key; what was torn is counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.errors import ConfigError
from lucky_transport_migration.evidence.lines import describe_process, read_programs
from lucky_transport_migration.evidence.record import read_folder
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.jsonl import Damage
from lucky_transport_migration.recording.entries import Header, RecordedCall, Recording, Step, line_of
from lucky_transport_migration.stages.journal import Entry, Journal
from lucky_transport_migration.stages.stage import Placement
from tests.support.fixtures.migration_evidence import seen

STAGES = Placement.parse("shm"), Placement.parse("shadow")


def a_program(folder: Path) -> str:
    describe_process(folder)
    return (folder / "programs.jsonl").read_text()


def recorded(entry: RecordedCall | Step) -> Callable[[Path], str]:
    return lambda _: line_of(Header("shm", "shm://demo", "toy", 7, {"num_envs": 2})) + line_of(entry)


#: Kind of file -> its name, what writes its lines, of which the last one is changed, and what reads them.
FILES: dict[str, tuple[str, Callable[[Path], str], Callable[[Path], Any]]] = {
    "header": ("run.jsonl", lambda _: line_of(Header("shm", seed=7)), lambda folder: Recording(folder / "run.jsonl")),
    "call": (
        "run.jsonl",
        recorded(RecordedCall("/a.B/C", requests=(b"1",), items=(b"2",), metadata=(("a", b"b"),))),
        lambda folder: list(Recording(folder / "run.jsonl").entries()),
    ),
    "step": (
        "run.jsonl",
        recorded(Step(1, b"actions")),
        lambda folder: list(Recording(folder / "run.jsonl").entries()),
    ),
    "evidence": (
        "calls-1.jsonl",
        lambda _: seen("/a.B/C").write(),
        lambda folder: list(read_folder(folder)),
    ),
    "programs": ("programs.jsonl", a_program, lambda folder: read_programs(folder, Damage())),
    "journal": (
        "demotions.jsonl",
        lambda _: Entry(1000.0, "demoted", "/a.B/C", *STAGES, "differs").line() + "\n",
        lambda folder: list(Journal(folder).entries()),
    ),
    "looks": (
        "looks.jsonl",
        lambda _: '{"v": 1, "at": "2026-01-01T00:00:00.000Z", "method": "/a.B/C", "seen": [1, 0]}\n',
        lambda folder: Looks(folder).take({"/a.B/C": (1, 0)}, lambda *_: False),
    ),
}
of_each_file = pytest.mark.parametrize("kind", FILES)


def read_with(folder: Path, kind: str, changed: Callable[[str], str]) -> Any:
    """Return what is read of a file of that kind whose last line was changed."""
    name, write, read = FILES[kind]
    *before, last = write(folder).splitlines()
    (folder / name).write_text("".join(f"{line}\n" for line in (*before, changed(last))))
    return read(folder)


@of_each_file
def test_a_line_as_it_was_written_is_read(tmp_path: Path, kind: str) -> None:
    assert read_with(tmp_path, kind, str)


@of_each_file
def test_a_key_that_is_not_known_is_refused_by_file_line_and_name(tmp_path: Path, kind: str) -> None:
    line = 2 if kind in ("call", "step") else 1
    with pytest.raises(ConfigError, match=rf"{FILES[kind][0]}: line {line}: .*'colour'"):
        read_with(tmp_path, kind, lambda text: json.dumps(json.loads(text) | {"colour": "red"}))


#: Kind of file, key and a value there that it cannot have: JSON values of another kind, and words that are none.
WRONG: list[tuple[str, str, Any]] = [
    *(("header", key, value) for key, value in {"seed": "7", "transport": 5, "spec": [], "at": None}.items()),
    *(
        ("call", key, value)
        for key, value in {
            "call": 5,
            "form": "zzz",
            "arity": 5,
            "requests": [{"b65": "MQ=="}],
            "items": ["text"],
            "metadata": [["key"]],
            "trailing": [["a", "b", "c"]],
            "headers": {"a": 1},
            "us": "x",
            "more": 1.5,
            "left": 1,
            "timeout_s": True,
            "channel": [["grpc.x", None]],
            "described": "text",
        }.items()
    ),
    ("call", "arity", "unary_twice"),
    ("header", "what", "something else"),
    ("step", "step", "1"),
    ("step", "actions", "text"),
    ("evidence", "verdict", "equl"),
    ("evidence", "kind", "lives"),
    ("evidence", "shadow", []),
    ("evidence", "authority", {"transport": "grpc", "us": "fast"}),
    ("evidence", "authority", {"transport": "grpc", "colour": "red"}),
    ("evidence", "authority", {}),
    ("evidence", "left_out", {"field": 3}),
    ("programs", "pid", "4460"),
    ("programs", "versions", {"python": 3}),
    ("programs", "command", [1]),
    ("journal", "event", "forgotten"),
    ("journal", "to", "nowhere"),
    ("journal", "at", "yesterday"),
    ("journal", "cool_down_s", "long"),
    ("looks", "seen", [1]),
    ("looks", "method", None),
    *((kind, "v", 2) for kind in ("header", "evidence", "programs", "journal", "looks")),
]


@pytest.mark.parametrize(("kind", "key", "value"), WRONG, ids=lambda one: json.dumps(one))
def test_a_value_of_another_kind_is_refused_by_file_line_and_key(
    tmp_path: Path, kind: str, key: str, value: Any
) -> None:
    words = {"v": "version 2", "what": "is no recording"}.get(key, rf": line \d: .*{key}")
    with pytest.raises(ConfigError, match=rf"{FILES[kind][0]}.*{words}"):
        read_with(tmp_path, kind, lambda text: json.dumps(json.loads(text) | {key: value}))


@pytest.mark.parametrize(
    ("kind", "key"), [("call", "call"), ("step", "actions"), ("evidence", "authority"), ("journal", "to")]
)
def test_a_key_that_is_missing_is_named(tmp_path: Path, kind: str, key: str) -> None:
    def without(text: str) -> str:
        plain = json.loads(text)
        del plain[key]
        return json.dumps(plain | ({"us": 1.0} if kind == "call" else {}))

    with pytest.raises(ConfigError, match=rf"{FILES[kind][0]}: line \d: "):
        read_with(tmp_path, kind, without)


#: What a killed process, a full disk or a foreign program leaves: no JSON object.
TORN = ["", "nonsense", '{"v": 1, "at"', "\0\0\0", "\x85", "[]", "5", "[" * 66 + "]" * 66, '{"a":' * 100_000]


@pytest.mark.parametrize("torn", TORN, ids=lambda text: ascii(text[:9]))
@of_each_file
def test_what_is_no_object_hides_no_other_line_of_what_many_write_and_ends_a_recording(
    tmp_path: Path, kind: str, torn: str
) -> None:
    if kind in ("header", "call", "step"):
        with pytest.raises(ConfigError, match=r"run\.jsonl(: line 2| is no recording)"):
            read_with(tmp_path, kind, lambda _: torn)
    else:
        whole = read_with(tmp_path, kind, str)
        assert read_with(tmp_path, kind, lambda text: f"{text}\n{torn}\n{text}\n{text[:-9]}") == (
            whole if kind == "looks" else whole * 2
        )
