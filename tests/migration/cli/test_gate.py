"""`lucky-transport gate` as a user types it."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.jsonl import moment
from tests.support.command import invoke
from tests.support.fixtures.migration_evidence import promote, seen

READ, OTHER = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.CameraService/ListCameras"


gate = partial(invoke, "gate")


def keep(folder: Path, rows: Iterable[Any], pid: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"calls-{pid}.jsonl").write_text("".join(row.write() for row in rows))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lucky_transport.toml").write_text(
        "[stages]\nevidence = 'seen'\n[gate]\ncalls = 20\nmismatch_limit = 0.2\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_green_gate_exits_with_zero_and_fixed_json_and_shows_people_a_table_and_a_word(project: Path) -> None:
    keep(project / "seen", [seen()] * 20)
    done = gate()
    assert done.exit_code == 0
    assert READ in done.output
    assert "400 µs    40.0 µs  yes" in done.output
    assert done.output.endswith("\nPROMOTE: 1 method may move on.\n")
    done = gate("--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["promote"] is True
    assert found["reasons"] == []
    assert found["methods"][READ]["compared"] == 20


def test_a_red_gate_exits_with_one_and_names_the_reasons(project: Path) -> None:
    keep(project / "seen", [seen()] * 15, pid=1)
    keep(project / "seen", [seen(verdict="different")] * 5, pid=2)
    done = gate()
    assert done.exit_code == 1
    assert "5 differed and 0 failed" in done.output
    assert done.output.endswith("\nHOLD: 1 of 1 method may not move on yet; the reasons are above.\n")
    assert json.loads(gate("--json").stdout)["promote"] is False


def test_what_was_moved_without_evidence_is_listed_and_holds_nothing_back(project: Path) -> None:
    file = project / "lucky_transport.toml"
    file.write_text(file.read_text() + '[stages.methods]\n"CameraService/*" = "complete"\n')
    keep(project / "seen", [*[seen()] * 20, replace(seen(OTHER, "not_compared"), shadow=None, stage="complete")])
    done = gate()
    assert done.exit_code == 0, done.output
    assert f"moved without evidence: {OTHER} is at complete, and no call of it was ever compared\n" in done.output
    assert json.loads(gate("--json").stdout)["unproven"] == {OTHER: "complete"}
    assert json.loads(gate("--json", "--method", "SceneService/*").stdout)["unproven"] == {}


def test_what_was_compared_before_its_last_move_was_not_moved_without_evidence(project: Path) -> None:
    file = project / "lucky_transport.toml"
    file.write_text(file.read_text() + '[stages.methods]\n"CameraService/*" = "complete"\n')
    keep(project / "seen", [*[seen()] * 20, seen(OTHER)])
    promote(project / "seen", OTHER, "shadow", "complete")
    assert json.loads(gate("--json").stdout)["unproven"] == {}


def test_lines_that_are_no_evidence_are_counted_and_the_first_is_named(project: Path) -> None:
    keep(project / "seen", [seen()] * 20, pid=1)
    damaged = keep(project / "seen", [seen()], pid=2) / "calls-2.jsonl"
    with damaged.open("a") as file:
        file.write("[]\n" + seen().write() + seen().write()[:40])
    done = gate()
    assert done.exit_code == 0
    assert f"\n2 damaged lines of evidence are not counted; first: {damaged}, line 2\n" in done.output
    found = json.loads(gate("--json").stdout)
    assert found["damaged"] == {"lines": 2, "file": str(damaged), "line": 2}
    assert found["methods"][READ]["compared"] == 22


def test_each_look_is_counted_and_a_restart_forgets_none(project: Path) -> None:
    numbers: list[int] = []
    keep(project / "seen", []).joinpath("looks.jsonl").touch()
    for calls in (10, 20, 20, 30, 40):
        keep(project / "seen", [seen()] * calls)
        numbers.append(json.loads(gate("--json").stdout)["methods"][READ]["look"])
    assert numbers == [1, 1, 1, 2, 3]  # too few calls, and calls that were looked at before, are no look


def test_a_self_check_is_no_look(project: Path) -> None:
    folder = keep(project / "twins", [seen(kind="aa", at=moment(time.time()))] * 60)
    gate(str(folder), "--aa")
    assert not (folder / "looks.jsonl").exists()


def test_what_is_not_judged_is_said(project: Path) -> None:
    (project / "lucky_transport.toml").write_text(
        "[stages]\nevidence = 'seen'\ndefault = 'shadow'\n[gate]\ncalls = 20\n"
    )
    world = replace(
        seen("/hazel.rpc.SceneService/SetEntityTransform", "not_compared"), shadow=None, why="it changes it"
    )
    keep(project / "seen", [*[seen()] * 20, world])
    output = gate().output
    assert f"not judged of {READ}: its p99: at shadow no caller waits for both transports" in output
    assert "not judged of /hazel.rpc.SceneService/SetEntityTransform: the answers to 1 call: it changes it" in output


def test_one_method_or_a_pattern_can_be_asked_for(project: Path) -> None:
    keep(project / "seen", [*[seen()] * 20, seen(OTHER)])
    assert gate().exit_code == 1
    assert gate("--method", "SceneService/*").exit_code == 0
    assert gate("--method", "CameraService/ListCameras").exit_code == 1


def test_evidence_from_before_a_fix_can_be_passed_over(project: Path) -> None:
    old = [seen(verdict="different", at="2026-01-01T12:00:00.000Z")] * 30
    keep(project / "seen", [*old, *[seen()] * 40])
    assert gate().exit_code == 1
    assert gate("--since", "2026-01-02").exit_code == 0
    assert gate("--since", "2026-01-01T11:00:00").exit_code == 1


def test_a_folder_without_evidence_is_red(project: Path) -> None:
    done = gate()
    assert done.exit_code == 1
    assert "no evidence: no call of a method that is on its way was seen" in done.output
    assert done.output.endswith("\nHOLD: there is no evidence.\n")


def test_an_aa_run_can_be_judged_for_itself(project: Path) -> None:
    folder = keep(project / "twins", [seen(kind="aa", at=moment(time.time()))] * 60)
    assert gate(str(folder)).exit_code == 1
    assert gate(str(folder), "--aa").exit_code == 0
