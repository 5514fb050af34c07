"""`lucky-transport stage` and `gate` as a user types them."""

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.jsonl import moment
from tests.support.command import invoke, json_of, output_of
from tests.support.fixtures.migration_evidence import demote, promote, seen
from tests.support.weather import WeatherPrograms

_FILE = """
[stages]
control = "grpc://127.0.0.1:50051"

[stages.methods]
"SceneService/*" = "shadow"
"SceneService/GetEntity" = "canary 10%"
"SceneService/GetEntitty" = "shm"
"""
_ENTITY = "/hazel.rpc.SceneService/GetEntity"


stage = partial(invoke, "stage")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a file of stages."""
    (tmp_path / "lucky_transport.toml").write_text(_FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_show_lists_effect_stage_row_and_what_was_seen(project: Path) -> None:
    evidence = project / "lucky-evidence"
    evidence.mkdir()
    (evidence / "calls-1.jsonl").write_text(seen(_ENTITY).write() * 3)
    text = output_of(stage("show", "SceneService/*Entit*"))
    lines = [line.split() for line in text.splitlines() if line.startswith("  Scene")]
    assert lines == [
        ["SceneService/ListEntities", "read", "shadow", "SceneService/*", *"----"],
        ["SceneService/GetEntity", "read", "canary", "10%", "SceneService/GetEntity", "3", "-", "-", "-"],
        ["SceneService/SetEntityTransform", "world", "shadow", "SceneService/*", *"----"],
    ]
    assert "row 'SceneService/GetEntitty' fits no method that is known here" in text


def test_show_says_why_a_method_is_held_back_and_why_it_has_its_effect(project: Path) -> None:
    demote(project / "lucky-evidence", _ENTITY, "canary 10%", "shadow", "item 0 differs")
    done = stage("show", "SceneService/GetEntity", "--reasons")
    assert "read: one entity at that moment  shadow  demoted: item 0 differs (in cool-down for " in done.output


def test_show_has_all_methods_as_json() -> None:
    found = json.loads(stage("show", "--json").stdout)
    assert (found["control"], found["unused_rows"]) == ("grpc://127.0.0.1:50051", ["SceneService/GetEntitty"])
    rows = {row["method"]: row for row in found["methods"]}
    assert len(rows) > 70
    assert (rows[_ENTITY]["effect"], rows[_ENTITY]["stage"], rows[_ENTITY]["seen"]) == ("read", "canary 10%", {})
    assert rows["/hazel.rpc.AgentService/ResetAgent"]["by"] == "with AgentService/Step"


def test_show_says_which_lines_of_evidence_do_not_count(project: Path) -> None:
    file = project / "lucky-evidence" / "calls-1.jsonl"
    file.parent.mkdir()
    file.write_text(seen(_ENTITY).write() + "torn\n" + seen(_ENTITY).write())
    done = stage("show", "SceneService/GetEntity")
    assert done.output.endswith(f"1 damaged line of evidence is not counted; first: {file}, line 2\n")
    assert json.loads(stage("show", "--json").stdout)["damaged"] == {"lines": 1, "file": str(file), "line": 2}


def test_show_says_that_the_environment_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_TRANSPORT", "grpc")
    assert "grpc   LUCKY_TRANSPORT" in stage("show", "SceneService/GetEntity").output


def test_set_promote_and_demote_say_what_moved() -> None:
    assert stage("set", "SceneService/GetEntity", "shm").stdout == f"{_ENTITY}: canary 10% -> shm\n"
    assert stage("set", "SceneService/GetEntity", "shm").output == f"{_ENTITY}: stays at shm\n"
    assert stage("promote", "SceneService/GetEntity", "--force").stdout == f"{_ENTITY}: shm -> complete\n"
    assert (
        stage("demote", "SceneService/GetEntity", "--to", "canary 1%").output == f"{_ENTITY}: complete -> canary 1%\n"
    )
    refused = stage("promote", "SceneService/GetEntity")
    assert refused.exit_code == 1
    assert f"{_ENTITY}: not moved to canary 10%: demoted to canary 1% (by hand), in cool-down for " in refused.output


def test_a_method_that_gets_no_shadow_is_named_with_what_to_write(project: Path, weather: WeatherPrograms) -> None:
    shutil.copy(weather.descriptor_set, project / "weather.binpb")
    assert stage("register", "weather.binpb").exit_code == 0
    done = stage("set", "Weather/*", "shadow")
    assert done.exit_code == 0
    changing, _, unsaid = done.stderr.partition("`record` and `replay`. ")
    assert changing.startswith(
        "note: no shadow is asked of Weather/Chat, Weather/PutStation, Weather/Report and 2 more"
    )
    assert unsaid.startswith("Of Weather/Chat, Weather/Report, Weather/SetStation and 1 more nothing says what it ")
    assert unsaid.rstrip().endswith('[stages.effects] "Weather/Chat" = "read"')
    declared = f'{(project / "lucky_transport.toml").read_text()}[stages.effects]\n"Weather/Watch*" = "read"\n'
    (project / "lucky_transport.toml").write_text(declared.replace('"Weather/*" = "shadow"\n', ""))
    assert stage("set", "Weather/WatchForecast", "shadow").stderr == ""


def test_a_row_of_effects_that_fits_no_method_of_another_service_is_named(project: Path) -> None:
    rows = '[stages.effects]\n"SceneService/*" = "read"\n"Weather/*" = "read"\n'
    (project / "lucky_transport.toml").write_text(rows)
    assert json.loads(stage("show", "--json").stdout)["unused_rows"] == ["SceneService/*", "Weather/*"]


def test_a_move_without_evidence_is_named_and_one_with_it_is_not(project: Path) -> None:
    done = stage("set", "SceneService/GetEntity", "complete")
    assert (
        done.stderr == f"note: moved without evidence: {_ENTITY} is at complete, and no call of it was ever compared\n"
    )
    folder = project / "lucky-evidence"
    (folder / "calls-1.jsonl").write_text(seen(_ENTITY).write())
    stage("set", "SceneService/GetEntity", "shadow")
    assert json.loads(stage("set", "SceneService/GetEntity", "complete", "--json").stdout)["notes"] == []


def test_moves_have_json_and_an_exit_code() -> None:
    found = json_of(stage("promote", "SceneService/GetEntity", "--json"), 1)
    (row,) = found["methods"]
    assert found["moved"] is False
    assert (row["method"], row["from"], row["to"]) == (_ENTITY, "canary 10%", "canary 50%")
    assert "no call of it was compared" in row["refused"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("set", "SceneService/GetEntity", "canary"), 2, "'canary' is no stage: expected grpc, shadow, canary 10%"),
        (("set", "SceneService/GetEntitty", "shm"), 1, "did you mean SceneService/GetEntity?"),
        (("demote", "Nothing/*"), 1, "no method fits 'Nothing/*'"),
        (("show", "Nothing/*"), 1, "no method fits 'Nothing/*'"),
        (("show", "SceneService/GetEntitty"), 1, "did you mean SceneService/GetEntity?"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = stage(*arguments)
    assert (done.exit_code, message in done.output) == (code, True), done.output


def test_a_broken_file_is_one_line(project: Path) -> None:
    (project / "lucky_transport.toml").write_text("[stages")
    for command in (("show",), ("set", "*", "shm"), ("promote", "*"), ("demote", "*")):
        assert "mend the file" in output_of(stage(*command), 1)


@pytest.mark.parametrize("command", [[], ["show"], ["set"], ["promote"], ["demote"]])
def test_each_help_ends_with_an_example(command: list[str]) -> None:
    assert output_of(stage(*command, "--help")).rstrip().splitlines()[-1].strip().startswith("lucky-transport stage ")


READ, OTHER = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.CameraService/ListCameras"


gate = partial(invoke, "gate")


def keep(folder: Path, rows: Iterable[Any], pid: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"calls-{pid}.jsonl").write_text("".join(row.write() for row in rows))
    return folder


@pytest.fixture
def judged(project: Path) -> Path:
    (project / "lucky_transport.toml").write_text(
        "[stages]\nevidence = 'seen'\n[gate]\ncalls = 20\nmismatch_limit = 0.2\n"
    )
    return project


def test_a_green_gate_exits_with_zero_and_fixed_json_and_shows_people_a_table_and_a_word(judged: Path) -> None:
    keep(judged / "seen", [seen()] * 20)
    text = output_of(gate())
    assert READ in text
    assert "400 µs    40.0 µs  yes" in text
    assert text.endswith("\nPROMOTE: 1 method may move on.\n")
    found = json_of(gate("--json"))
    assert found["promote"] is True
    assert found["reasons"] == []
    assert found["methods"][READ]["compared"] == 20


def test_a_red_gate_exits_with_one_and_names_the_reasons(judged: Path) -> None:
    keep(judged / "seen", [seen()] * 15, pid=1)
    keep(judged / "seen", [seen(verdict="different")] * 5, pid=2)
    text = output_of(gate(), 1)
    assert "5 differed and 0 failed" in text
    assert text.endswith("\nHOLD: 1 of 1 method may not move on yet; the reasons are above.\n")
    assert json.loads(gate("--json").stdout)["promote"] is False


def test_a_promotion_that_the_limits_allow_says_what_differed_all_the_same(judged: Path) -> None:
    file = judged / "lucky_transport.toml"
    file.write_text(file.read_text() + '[stages.methods]\n"SceneService/GetEntity" = "shadow"\n')
    keep(judged / "seen", [*[seen()] * 200, seen(verdict="different")])
    done = stage("promote", "SceneService/GetEntity")
    assert done.stdout == f"{READ}: shadow -> canary 1%\n"
    assert f"note: {READ}: DIFFERENT: of 201 compared calls 1 differed and 0 failed" in done.stderr


def test_what_was_moved_without_evidence_is_listed_and_holds_nothing_back(judged: Path) -> None:
    file = judged / "lucky_transport.toml"
    file.write_text(file.read_text() + '[stages.methods]\n"CameraService/*" = "complete"\n')
    keep(judged / "seen", [*[seen()] * 20, replace(seen(OTHER, "not_compared"), shadow=None, stage="complete")])
    assert f"moved without evidence: {OTHER} is at complete, and no call of it was ever compared\n" in output_of(gate())
    assert json.loads(gate("--json").stdout)["unproven"] == {OTHER: "complete"}
    assert json.loads(gate("--json", "--method", "SceneService/*").stdout)["unproven"] == {}
    keep(judged / "seen", [*[seen()] * 20, seen(OTHER)])
    promote(judged / "seen", OTHER, "shadow", "complete")
    assert json.loads(gate("--json").stdout)["unproven"] == {}, "it was compared before its last move"


def test_lines_that_are_no_evidence_are_counted_and_the_first_is_named(judged: Path) -> None:
    keep(judged / "seen", [seen()] * 20, pid=1)
    damaged = keep(judged / "seen", [seen()], pid=2) / "calls-2.jsonl"
    with damaged.open("a") as file:
        file.write("[]\n" + seen().write() + seen().write()[:40])
    assert f"\n2 damaged lines of evidence are not counted; first: {damaged}, line 2\n" in output_of(gate())
    found = json.loads(gate("--json").stdout)
    assert found["damaged"] == {"lines": 2, "file": str(damaged), "line": 2}
    assert found["methods"][READ]["compared"] == 22


def test_each_look_is_counted_and_a_restart_forgets_none(judged: Path) -> None:
    numbers: list[int] = []
    keep(judged / "seen", []).joinpath("looks.jsonl").touch()
    for calls in (10, 20, 20, 30, 40):
        keep(judged / "seen", [seen()] * calls)
        numbers.append(json.loads(gate("--json").stdout)["methods"][READ]["look"])
    assert numbers == [1, 1, 1, 2, 3]  # too few calls, and calls that were looked at before, are no look


def test_what_is_not_judged_is_said(judged: Path) -> None:
    (judged / "lucky_transport.toml").write_text(
        "[stages]\nevidence = 'seen'\ndefault = 'shadow'\n[gate]\ncalls = 20\n"
    )
    world = replace(
        seen("/hazel.rpc.SceneService/SetEntityTransform", "not_compared"), shadow=None, why="it changes it"
    )
    keep(judged / "seen", [*[seen()] * 20, world])
    output = gate().output
    assert f"not judged of {READ}: its p99: at shadow no caller waits for both transports" in output
    assert "not judged of /hazel.rpc.SceneService/SetEntityTransform: the answers to 1 call: it changes it" in output


def test_one_method_or_a_pattern_can_be_asked_for(judged: Path) -> None:
    keep(judged / "seen", [*[seen()] * 20, seen(OTHER)])
    assert gate().exit_code == 1
    assert gate("--method", "SceneService/*").exit_code == 0
    assert gate("--method", "CameraService/ListCameras").exit_code == 1


def test_evidence_from_before_a_fix_can_be_passed_over(judged: Path) -> None:
    old = [seen(verdict="different", at="2026-01-01T12:00:00.000Z")] * 30
    keep(judged / "seen", [*old, *[seen()] * 40])
    assert gate().exit_code == 1
    assert gate("--since", "2026-01-02").exit_code == 0
    assert gate("--since", "2026-01-01T11:00:00").exit_code == 1


def test_a_folder_without_evidence_is_red(judged: Path) -> None:
    text = output_of(gate(), 1)
    assert "no evidence: no call of a method that is on its way was seen" in text
    assert text.endswith("\nHOLD: there is no evidence.\n")


def test_an_aa_run_can_be_judged_for_itself_and_that_is_no_look(judged: Path) -> None:
    folder = keep(judged / "twins", [seen(kind="aa", at=moment(time.time()))] * 60)
    assert gate(str(folder), "--aa").exit_code == 0
    assert not (folder / "looks.jsonl").exists()
    assert gate(str(folder)).exit_code == 1
