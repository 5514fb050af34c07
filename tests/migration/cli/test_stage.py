"""`lucky-transport stage` as a user types it."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.support.command import invoke
from tests.support.fixtures.migration_evidence import demote, seen
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
    done = stage("show", "SceneService/*Entit*")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines() if line.startswith("  Scene")]
    assert lines == [
        ["SceneService/ListEntities", "read", "shadow", "SceneService/*", *"----"],
        ["SceneService/GetEntity", "read", "canary", "10%", "SceneService/GetEntity", "3", "-", "-", "-"],
        ["SceneService/SetEntityTransform", "world", "shadow", "SceneService/*", *"----"],
    ]
    assert "row 'SceneService/GetEntitty' fits no method that is known here" in done.output


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
    done = stage("promote", "SceneService/GetEntity", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
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
        done = stage(*command)
        assert done.exit_code == 1
        assert "mend the file" in done.output


@pytest.mark.parametrize("command", [[], ["show"], ["set"], ["promote"], ["demote"]])
def test_each_help_ends_with_an_example(command: list[str]) -> None:
    done = stage(*command, "--help")
    assert done.exit_code == 0
    assert done.output.rstrip().splitlines()[-1].strip().startswith("lucky-transport stage ")
