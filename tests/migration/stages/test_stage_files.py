"""The file of stages and the journal of demotions: what they say, whoever wrote them, and however they were cut off."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import ConfigError
from lucky_transport.messages.methods import Effect
from lucky_transport_migration.jsonl import Damage, moment
from lucky_transport_migration.stages.evidence_window import count_evidence, recent_evidence
from lucky_transport_migration.stages.journal import Entry, Journal
from lucky_transport_migration.stages.stage import LADDER, ROLES, Placement, Stage
from lucky_transport_migration.stages.stage_plan import StagePlan
from tests.support.fixtures.migration_evidence import seen
from tests.support.waiting import at_once

Write = Callable[[str], Path]


_FILE = """
wait = "block"

[stages]
default = "shadow"
control = "grpc://127.0.0.1:50051"
candidate = "shm://demo"
evidence = "seen"
sample = 0.25
metrics_port = 9464

[stages.methods]
"SceneService/*" = "grpc"
"SceneService/ListEntities" = "canary 10%"
"/hazel.rpc.CameraService/*" = "shm"

[gate]
calls = 7
"""


def test_a_file_says_where_each_method_is(write: Write) -> None:
    path = write(_FILE)
    plan = StagePlan.load()
    assert (plan.path, plan.evidence) == (path, path.parent / "seen")
    assert (plan.control, plan.candidate) == ("grpc://127.0.0.1:50051", "shm://demo")
    assert (plan.sample, plan.metrics_port) == (0.25, 9464)
    for name, placement in {
        "/hazel.rpc.SceneService/GetEntity": "grpc",
        "/hazel.rpc.SceneService/ListEntities": "canary 10%",
        "/hazel.rpc.CameraService/ListCameras": "shm",
        "/hazel.rpc.LidarService/GetLidarScan": "shadow",
        "/my.team.Robots/Grip": "shadow",
    }.items():
        assert str(plan.placement(name)) == placement, name
    assert plan.effect("/hazel.rpc.SceneService/GetEntity") is Effect.READ


def test_the_nearest_file_counts(write: Write, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('[stages]\ndefault = "shm"\n')
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert (StagePlan.load().path, str(StagePlan.load().default)) == (path, "shm")
    assert StagePlan.load(project).path == path


def test_without_a_file_everything_is_at_grpc(project: Path) -> None:
    plan = StagePlan.load(project)
    assert str(plan.placement("/hazel.rpc.SceneService/GetEntity")) == "grpc"
    assert (plan.path, plan.evidence) == (project / "lucky_transport.toml", project / "lucky-evidence")


@pytest.mark.parametrize(
    ("said", "placement"),
    [("grpc", "grpc"), ("shm", "complete"), ("staged", "shadow"), ("auto", "shadow"), ("", "shadow")],
)
def test_the_environment_overrides_every_stage(
    write: Write, monkeypatch: pytest.MonkeyPatch, said: str, placement: str
) -> None:
    write(_FILE)
    monkeypatch.setenv("LUCKY_TRANSPORT", said)
    assert str(StagePlan.load().placement("/hazel.rpc.LidarService/GetLidarScan")) == placement


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[stages]\ndefault = "canary"', r"\[stages\]: default = 'canary'; expected grpc, shadow, canary 10% \(any"),
        ("[stages]\nsample = 1.5", r"\[stages\]: sample = 1.5; expected a share from 0 to 1, e.g. 0.1"),
        ("[stages]\nsample = true", r"sample = True; expected a share"),
        ("[stages]\nsample = nan", r"sample = nan; expected a share"),
        ("[stages]\nmetrics_port = 70000", r"metrics_port = 70000; expected a port from 1 to 65535, or 0 for none"),
        ('[stages]\ncontrol = "localhost"', r"control = 'localhost'; expected the endpoint of gRPC, e.g. 'grpc://"),
        ("[stages]\ncandidate = 3", r"candidate = 3; expected the endpoint of shared memory, e.g. 'shm://demo'"),
        ('[stages]\nevidence = ""', r"evidence = ''; expected a folder's name, e.g. 'lucky-evidence'"),
        ('[stages]\ncandidat = "x"', r"\[stages\]: unknown key 'candidat'; did you mean 'candidate'\?"),
        ("[stages]\nxyz = 1", r"unknown key 'xyz'; known keys: default, control, candidate, evidence"),
        ('[stages.methods]\n"A/*" = "half"', r"\[stages.methods\] 'A/\*' = 'half'; expected grpc, shadow"),
        (
            '[stages.effects]\n"Weather/Get*" = "reads"',
            r"\[stages.effects\] 'Weather/Get\*' = 'reads'; expected one of .read., .view., .idempotent., .world.",
        ),
        (
            '[stages.effects]\n"AgentService/Step" = "read"',
            r"'AgentService/Step': what a method of LuckyEngine changes",
        ),
        ("[stages]\neffects = 3", r"\[stages.effects\]: effects = 3; write a table, \[stages.effects\]"),
        ("stages = 3", r"\[stages\]: stages = 3; write a table, \[stages\]"),
        ("[stages]\nmethods = 3", r"\[stages.methods\]: methods = 3; write a table, \[stages.methods\]"),
        ("[stages", r"lucky_transport.toml: .*; mend the file"),
    ],
)
def test_a_wrong_line_is_named_with_its_remedy(write: Write, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(ConfigError, match=message) as raised:
        StagePlan.load()
    assert str(path) in str(raised.value)


def test_a_transport_that_is_no_override_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_TRANSPORT", "pigeon")
    with pytest.raises(
        ConfigError, match="environment variable LUCKY_TRANSPORT: transport = 'pigeon'; expected grpc or"
    ):
        StagePlan.load()


_values = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.integers()), st.none())


@given(st.sampled_from(["default", "control", "candidate", "evidence", "sample", "metrics_port"]), _values)
def test_any_value_is_read_or_a_config_error(key: str, value: object) -> None:
    def table(name: str, directory: Path | None = None) -> tuple[dict[str, object], str]:
        return ({key: value} if name == "stages" else {}), name

    with patch("lucky_transport_migration.stages.stage_plan.load_table", table), suppress(ConfigError):
        plan = StagePlan.load()
        assert isinstance(plan.default, Placement)
        assert 0 <= plan.sample <= 1
        assert 0 <= plan.metrics_port < 65536


_placements = st.one_of(
    st.sampled_from([Placement(stage) for stage in Stage if stage is not Stage.CANARY]),
    st.floats(0.001, 99.999).map(lambda percent: Placement(Stage.CANARY, round(percent, 3))),
)


@given(_placements)
def test_a_placement_is_read_as_it_is_printed(placement: Placement) -> None:
    assert Placement.parse(str(placement)) == placement


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("canary 10%", Placement(Stage.CANARY, 10)),
        ("canary 10", Placement(Stage.CANARY, 10)),
        ("Canary  0.5 %", Placement(Stage.CANARY, 0.5)),
        (" SHM ", Placement(Stage.SHM)),
    ],
)
def test_people_spell_a_placement_as_they_like(text: str, placement: Placement) -> None:
    assert Placement.parse(text) == placement


@pytest.mark.parametrize(
    "text",
    ["", "canary", "canary 0%", "canary 100%", "canary -1%", "canary nan%", "shm 10%", "gRPC!", 3, None, ["shm"]],
)
def test_what_is_no_placement_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        Placement.parse(text)


@given(st.text())
def test_any_text_is_a_placement_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert Placement.parse(text).stage in Stage


def test_a_share_belongs_to_a_canary() -> None:
    with pytest.raises(ValueError, match="has no share"):
        Placement(Stage.SHM, 10)


def test_promotions_climb_the_whole_ladder_and_stop_at_its_end() -> None:
    rung, climbed = LADDER[0], [LADDER[0]]
    while rung.following != rung:
        rung = rung.following
        climbed.append(rung)
    assert (
        " -> ".join(map(str, climbed)) == "grpc -> shadow -> canary 1% -> canary 10% -> canary 50% -> shm -> complete"
    )


@given(_placements)
def test_a_promotion_goes_up_and_a_fallback_to_where_grpc_answers(placement: Placement) -> None:
    assert placement.following > placement or placement == LADDER[-1]
    assert placement.fallback < placement or placement == LADDER[0]
    assert ROLES[placement.fallback.stage].primary == "grpc"


@given(st.lists(_placements, max_size=6))
def test_placements_are_ordered_by_stage_and_then_by_share(placements: list[Placement]) -> None:
    order = list(Stage)
    expected = sorted(placements, key=lambda one: (order.index(one.stage), one.percent))
    assert sorted(placements) == expected


_ENTITY, _STEP = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.AgentService/Step"
_GRPC, _SHADOW, _SHM = Placement(Stage.GRPC), Placement(Stage.SHADOW), Placement(Stage.SHM)
_CANARY = Placement(Stage.CANARY, 10)


def test_a_demoted_method_stays_where_it_was_put_until_it_is_promoted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "evidence")
    assert journal.demotions() == {}
    journal.append(Entry(1000.0, "demoted", _ENTITY, _CANARY, _SHADOW, "item 0 differs", 60))
    journal.demote(_STEP, _SHM, _GRPC, "died")
    found = journal.demotions()[_ENTITY]
    assert (found.to, found.why, found.cooling_s(now=1040.0), found.cooling_s(now=1070.0)) == (
        _SHADOW,
        "item 0 differs",
        20.0,
        0.0,
    )
    journal.promote(_ENTITY, _SHADOW, _CANARY)
    assert list(journal.demotions()) == [_STEP]


def test_an_entry_is_one_line_of_json(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    entry = journal.append(Entry(1767225600.0, "demoted", _ENTITY, _CANARY, _SHADOW, "a\nb ü", 300.0))
    (line,) = journal.path.read_text().splitlines()
    assert json.loads(line) == {
        "v": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "event": "demoted",
        "method": _ENTITY,
        "from": "canary 10%",
        "to": "shadow",
        "why": "a\nb ü",
        "cool_down_s": 300.0,
    }
    assert list(journal.entries()) == [entry]


def test_of_two_demotions_the_lower_one_counts_and_the_longer_cool_down(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(Entry(1000.0, "demoted", _ENTITY, _SHM, _GRPC, "died", 100))
    journal.append(Entry(1001.0, "demoted", _ENTITY, _SHM, _SHADOW, "differs", 10))
    found = journal.demotions()[_ENTITY]
    assert (found.to, found.cool_until) == (_GRPC, 1100.0)


def test_many_may_write_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for index in range(20):
            Journal(tmp_path).demote(f"/a.B/{number}_{index}", _SHM, _GRPC, "x" * 500)

    at_once(*(partial(write, number) for number in range(8)))
    assert len(Journal(tmp_path).demotions()) == 160


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match="taken"):
        Journal(tmp_path / "taken").demote(_ENTITY, _SHM, _GRPC, "died")
    assert Journal(tmp_path / "taken").demotions() == {}


METHODS = ("/hazel.rpc.SceneService/GetEntity", "/lab.Arm/Read")


def line(number: int, *, verdict: str = "equal", kind: str = "live") -> str:
    at = f"2099-01-01T00:00:{number % 60:02}.{number % 1000:03}Z"
    return seen(METHODS[number % 2], verdict, kind=kind, at=at).write()


def test_evidence_is_counted_from_the_last_move_of_its_method_on(tmp_path: Path) -> None:
    (tmp_path / "calls-1.jsonl").write_text("".join(map(line, range(40))) + "torn\n[]\n")
    (tmp_path / "calls-2.jsonl").write_text(line(41, verdict="different") + line(42, kind="aa") + "torn")
    damage = Damage()
    assert count_evidence(tmp_path, damage) == {METHODS[0]: {"equal": 21}, METHODS[1]: {"equal": 20, "different": 1}}
    assert (damage.lines, damage.file, damage.line) == (3, str(tmp_path / "calls-1.jsonl"), 41)
    stages = Placement.parse("shadow"), Placement.parse("grpc")
    at = 4_070_908_820.02  # of 2099, at second 20
    moved = Journal(tmp_path).append(Entry(at, "demoted", METHODS[0], *stages, "differs"))
    assert moved.moment == "2099-01-01T00:00:20.020Z"
    assert count_evidence(tmp_path, Damage())[METHODS[0]] == {"equal": 11}
    Journal(tmp_path).append(Entry(at + 86_400, "promoted", METHODS[1], *stages))
    assert count_evidence(tmp_path, Damage())[METHODS[1]] == {}, "a method that was called is named"


METHOD = "/hazel.rpc.SceneService/GetEntity"
DAY_S = 86_400


def test_an_aa_run_tells_for_some_days_what_noise_is_and_then_no_more(tmp_path: Path) -> None:
    now = time.time()
    moments = [moment(now - days * DAY_S) for days in (20, 6.9, 0.1)]
    written = [seen(METHOD, transports=("grpc", "grpc"), kind="aa", at=at) for at in moments]
    (tmp_path / "calls-1.jsonl").write_text("".join(one.write() for one in written))
    assert [one.at for one in recent_evidence(tmp_path)] == moments[1:]
    assert [one.at for one in recent_evidence(tmp_path, 30)] == moments
    assert [one.at for one in recent_evidence(tmp_path, 1)] == moments[2:]


def test_live_evidence_counts_whatever_its_age(tmp_path: Path) -> None:
    """A method that was not moved since stays judged by what was seen of it."""
    old = seen(METHOD, at=moment(0))
    (tmp_path / "calls-1.jsonl").write_text(old.write())
    assert list(recent_evidence(tmp_path)) == [old]
