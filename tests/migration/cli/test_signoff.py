"""`lucky-transport signoff` as a user types it: what the page says in each case, and its exit code."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lucky_transport_migration.evidence.lines import Lines
from lucky_transport_migration.jsonl import moment
from tests.support.command import invoke, output_of
from tests.support.fixtures.migration_evidence import demote, promote, seen

STEP = "/hazel.rpc.AgentService/Step"
READ, OTHER = "/hazel.rpc.SceneService/GetEntity", "/hazel.rpc.CameraService/ListCameras"
RESET = "/hazel.rpc.AgentService/ResetAgent"
OWN = "/weather.v1.Weather/GetForecast"
PAGES = ("signoff.html", "signoff.md", "signoff.json")


signoff = partial(invoke, "signoff")


def signed(status: int, *arguments: str) -> str:
    """Return what is printed of a sign-off that ends with this status, and its page."""
    done = signoff(*arguments)
    assert done.exit_code == status, done.output
    return done.output + Path("lucky-report", "signoff.md").read_text()


def page(*arguments: str) -> dict[str, Any]:
    return json.loads(signoff(*arguments, "--json").stdout)


def differing(method: str = READ, **fields: Any) -> Any:
    values = {"grpc": "a", "shm": "b"}
    return seen(method, "different", **{"aspect": "item", "where": "entity.name", "values": values, **fields})


def keep(folder: Path, rows: Iterable[Any]) -> Path:
    lines = Lines(pytest.fail)
    lines.write(folder, list(rows))
    lines.close()
    return folder


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_stages(tmp_path, f'"{READ}" = "shadow"')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_stages(folder: Path, *rows: str) -> None:
    stages = "\n".join(("[stages]", "evidence = 'seen'", "[stages.methods]", *rows))
    (folder / "lucky_transport.toml").write_text(f"{stages}\n[gate]\ncalls = 20\nmismatch_limit = 0.2\n")


def test_methods_that_may_move_on_or_are_complete_are_ready(project: Path) -> None:
    write_stages(project, f'"{READ}" = "shadow"', f'"{OTHER}" = "complete"')
    keep(project / "seen", [*[seen()] * 40, *[seen(OTHER, kind="parity", stage="parity")] * 3])
    assert "READY: Of 2 methods on the way from gRPC 1 may move on and 1 is complete; nothing differed." in signed(0)
    assert {one["method"]: one["verdict"] for one in page()["methods"]} == {READ: "MAY MOVE", OTHER: "COMPLETE"}


def test_latencies_are_those_that_the_gate_judged_the_tail_too(project: Path) -> None:
    write_stages(project, f'"{READ}" = "canary 50%"')
    shm = seen(transports=("shm", "grpc"), stage="canary 50%")
    slow = seen(kind="parity", stage="parity", shm_us=4_000.0)
    keep(project / "seen", [*[seen(stage="canary 50%"), shm] * 600, *[slow] * 600])
    (method,) = page()["methods"]
    assert method["latency"] == method["gate"]["latency"]
    assert [one["percentile"] for one in method["latency"]] == ["p50", "p99"]
    assert "its p99 is 400 µs over gRPC and 40.0 µs over shared memory" in signed(0)


def test_a_complete_method_that_the_gate_would_hold_back_is_named_on_top(project: Path) -> None:
    write_stages(project, f'"{READ}" = "complete"')
    keep(project / "seen", [seen(kind="parity", stage="parity")] * 3)
    text = signed(0)
    assert "Complete, though by what was seen the gate would hold back: SceneService/GetEntity." in text
    assert "- the gate would hold it back: 3 calls compared, 20 asked for" in text


def test_what_differed_is_shown_with_field_values_and_moment_though_the_gate_would_allow_it(project: Path) -> None:
    late, early = (differing(at=f"2026-01-0{day}T00:00:00.000Z", where=f"entity.{day}") for day in (4, 3))
    keep(project / "seen", [*[seen()] * 400, late, early])
    said = "2 differed and 0 failed (item 2); after a fix, `stage demote` sets them aside"
    held = f"SceneService/GetEntity: DIFFERENT: of 402 compared calls {said}"
    assert f"NOT READY: 1 of 1 method is not ready; {held}" in signed(1)
    (method,) = page()["methods"]
    assert (method["gate"]["promote"], method["verdict"], method["next"]) == (True, "DIFFERENT", "canary 1%")
    first = method["first"]
    assert (first["where"], first["at"]) == ("entity.3", "2026-01-03T00:00:00.000Z")
    assert first["values"] == {"grpc": "'a'", "shm": "'b'"}
    for file in PAGES:
        assert "entity.3" in (project / "lucky-report" / file).read_text()


@pytest.mark.parametrize("verdict", ["different", "failed"])
@pytest.mark.parametrize("demoted", [False, True])
def test_what_differed_comes_before_calls_that_are_missing(project: Path, verdict: str, demoted: bool) -> None:
    bad = differing() if verdict == "different" else seen(verdict="failed", aspect="late")
    folder = keep(project / "seen", [*[seen()] * 7, replace(bad, request="a")])
    if demoted:
        demote(folder, READ, "shadow", "grpc", bad.sentence, cool_down_s=300.0)
    done = signoff()
    told = f"{verdict.upper()}: of 8 compared calls"
    assert f"not ready; SceneService/GetEntity: {told}" in done.output
    assert "`stage demote`" in done.output.partition(told)[2].splitlines()[0]
    assert bad.sentence in done.output.partition(f"not ready; SceneService/GetEntity: {told}")[2]
    assert "without another" not in done.output
    (method,) = page()["methods"]
    assert (method["verdict"], method["reasons"][0].startswith(told)) == (verdict.upper(), True)
    refused = invoke("stage", "promote", READ).output
    assert (bad.sentence if demoted else f"not moved to shadow: {told}".replace("shadow", "canary 1%")) in refused


def test_what_was_left_out_is_said_with_the_number_of_calls(project: Path) -> None:
    keep(
        project / "seen",
        [
            *[seen()] * 40,
            *[seen(left_out={"status": "it was left", "entity.at": "a clock"})] * 2,
            seen(left_out={"status": "it was left"}),
        ],
    )
    (method,) = page()["methods"]
    left, clock = {"what": "status", "why": "it was left"}, {"what": "entity.at", "why": "a clock"}
    assert method["left_out"] == [left | {"calls": 3}, clock | {"calls": 2}]
    assert "\n- left out: status (it was left), in 3 of 43 compared calls; entity.at (a clock), in 2 of 43 " in signed(
        0
    )


def test_what_parity_compared_in_no_call_is_named_and_is_no_call(project: Path) -> None:
    gap = seen(verdict="not_compared", kind="parity", stage="gap", why="calls of GetEntity at once (they hang on it)")
    keep(project / "seen", [*[seen()] * 40, replace(gap, shadow=None)])
    assert "\n- not compared: calls of GetEntity at once (they hang on it)\n" in signed(0)
    (method,) = page()["methods"]
    assert (method["calls"], method["not_compared"]) == (40, [])
    (line,) = json.loads(invoke("stage", "show", READ, "--json").stdout)["methods"]
    assert line["seen"].get("not_compared", 0) == 0


def test_nothing_seen_is_not_ready_and_claims_no_comparison(project: Path) -> None:
    write_stages(project)
    assert "NOTHING SEEN: Of no method that is on its way from gRPC a call was seen in " in signed(1)
    for file in PAGES:
        assert "Compared of each call" not in (project / "lucky-report" / file).read_text()


def test_a_method_that_was_set_complete_and_never_compared_is_held_back(project: Path) -> None:
    write_stages(project, f'"{OWN}" = "complete"')
    keep(project / "seen", [replace(seen(OWN, "not_compared", stage="complete"), shadow=None)] * 30)
    assert f"- {OWN}: it is complete, and no call of it was compared; `lucky-transport parity" in signed(1)


def test_a_method_with_a_row_of_its_own_that_was_never_seen_is_held_back() -> None:
    assert f"- {READ}: no call of it was compared since its last move; run the program" in signed(1)


def test_methods_that_a_pattern_moved_and_that_were_never_seen_are_named(project: Path) -> None:
    write_stages(project, '"SceneService/*" = "shadow"')
    keep(project / "seen", [seen()] * 40)
    text = signed(0)
    assert "7 more methods on the way were never seen: nothing is said of them." in text
    assert "SceneService/ExitPlayMode" in text


def test_a_method_that_stays_on_grpc_holds_nothing_back_and_is_named(project: Path) -> None:
    staying = replace(seen(OWN, "not_compared", stage="grpc"), shadow=None)
    keep(project / "seen", [*[seen()] * 40, *[staying] * 7])
    assert "Stays on gRPC, with the calls that were seen: Weather/GetForecast (7)." in signed(0)


def test_a_demotion_in_force_holds_its_method_back_and_a_lifted_one_stays_in_the_history(project: Path) -> None:
    folder = keep(project / "seen", [differing()])
    demote(folder, READ, "shadow", "grpc", "entity.name differs", cool_down_s=0)
    assert f"- {READ}: demoted to grpc (entity.name differs)" in signed(1)
    assert page()["methods"][0]["first"]["where"] == "entity.name"
    promote(folder, READ, "grpc", "shadow")
    keep(folder, [seen(at=moment(time.time() + 60))] * 40)
    assert signoff().exit_code == 0
    (entry,) = page()["sent_back"]
    assert (entry["method"], entry["from"], entry["to"], entry["why"]) == (
        READ,
        "shadow",
        "grpc",
        "entity.name differs",
    )


def test_the_programs_and_the_way_back_are_named(project: Path) -> None:
    keep(project / "seen", [seen()] * 40)
    (project / "seen" / "calls-1.jsonl").write_text(seen().write())
    found = page()
    (program,) = found["programs"]
    assert program["processes"] == 1
    assert "python" in program["versions"]
    assert found["unnamed"] == 1
    back = found["methods"][0]["back"]
    assert back == f"lucky-transport stage demote {READ} --why REASON"
    done = invoke(*back.split()[1:])
    assert done.exit_code == 0, done.output
    assert signoff().exit_code == 1


def test_damaged_evidence_is_said_and_not_counted(project: Path) -> None:
    folder = keep(project / "seen", [seen()] * 40)
    with (folder / "programs.jsonl").open("a") as file:
        file.write("{torn\n")
    (folder / "calls-1.jsonl").write_text("[]\n")
    assert "2 damaged lines of evidence are not counted" in signed(0)


def test_names_and_values_of_others_are_shown_and_never_obeyed(project: Path) -> None:
    name = "/hazel.rpc.SceneService/<script>alert(1)</script>|`x`\x1b[31m\u202e"
    hostile = differing(name, where="a\n# <b>", values={"grpc": "<img src=x>", "shm": "\ud800|"})
    keep(project / "seen", [*[hostile] * 2, replace(hostile, method=READ, stage="<i>")])
    done = signoff()
    html, markdown = ((project / "lucky-report" / file).read_text() for file in PAGES[:2])
    assert "\x1b" not in done.output + html + markdown
    assert "\u202e" not in done.output + html + markdown
    assert "<script" not in html
    assert "<img" not in html
    assert "\\<script\\>" in markdown
    assert "\n# <b>" not in markdown
    assert json.loads((project / "lucky-report" / "signoff.json").read_text())["word"] == "NOT READY"


def test_a_pattern_or_a_moment_narrows_what_is_signed_and_the_page_says_so(project: Path) -> None:
    old = differing(at="2026-01-01T12:00:00.000Z")
    keep(project / "seen", [old, *[seen()] * 40, differing(OTHER)])
    assert signoff().exit_code == 1
    assert signoff("--method", "SceneService/*").exit_code == 1
    text = signed(0, "--method", "SceneService/*", "--since", "2026-01-02")
    assert "Methods that 'SceneService/\\*' does not fit." in text
    assert "Only what was seen since 2026-01-02 00:00:00 UTC; stage promote counts all." in text


def test_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(project: Path) -> None:
    (project / "file").touch()
    assert "pass a writable one with --report" in output_of(signoff("--report", "file/inside"), 1)


def test_at_most_six_sentences_stand_on_top(project: Path) -> None:
    write_stages(project, '"*" = "shadow"')
    folder = keep(project / "seen", [differing(method, why="x" * 500) for method in (READ, OTHER, OWN)] * 3)
    (folder / "calls-1.jsonl").write_text("[]\n")
    text = (signoff(), (project / "lucky-report" / "signoff.md").read_text())[1]
    top = text.partition("\n| ")[0].partition("\n\n")[2].partition("\n\n")[2]
    assert 1 <= len([line for line in top.splitlines() if line]) <= 6


def test_limits_that_are_laxer_than_the_defaults_are_named_on_top_and_stricter_ones_are_not(project: Path) -> None:
    keep(project / "seen", [seen()] * 40)
    laxer = "Limits laxer than the defaults: calls 20 (default 1000), mismatch_limit 0.2 (default 0.003)."
    assert laxer in signoff().output
    file = project / "lucky_transport.toml"
    file.write_text(file.read_text().partition("[gate]")[0] + "[gate]\ncalls = 2000\nconfidence = 0.99\n")
    assert "laxer" not in signoff().output
    file.write_text(file.read_text() + "aa_days = 8\ndemote = false\ncool_down_s = 1.0\n")
    assert "aa_days 8 (default 7), demote false (default true), cool_down_s 1.0 (default 300.0)." in signoff().output


def test_each_rule_of_parity_fields_is_named_on_top_of_every_page(project: Path) -> None:
    keep(project / "seen", [seen()] * 40)
    assert "[parity.fields]" not in signoff().output
    with (project / "lucky_transport.toml").open("a") as file:
        file.write(
            '[parity.fields]\n"lab.Arm.force" = { abs = 5.0, ulp = 4 }\n"metadata.x-bin" = { skip = "noise" }\n'
            '"observation" = { nan = "different" }\n'
        )
    rules = ("lab.Arm.force abs 5.0, ulp 4", 'metadata.x-bin skip "noise"', 'observation nan "different"')
    assert f"Compared by the rules of [parity.fields]: {'; '.join(rules)}." in signoff().output
    assert page()["rules"] == list(rules)
    for file in PAGES[:2]:
        assert "lab.Arm.force abs 5.0, ulp 4" in (project / "lucky-report" / file).read_text()


def test_answers_that_were_refusals_are_counted_on_top_by_their_status(project: Path) -> None:
    keep(project / "seen", [*[seen()] * 40, *[seen(code="UNAUTHENTICATED")] * 2])
    assert "\n2 of 42 compared answers were refusals: 2 UNAUTHENTICATED.\n" in signoff().output


def test_the_page_is_a_look_of_the_gate_only_where_that_is_asked_for(project: Path) -> None:
    looks = keep(project / "seen", [seen()] * 40) / "looks.jsonl"
    looks.touch()
    signoff()
    assert looks.read_text() == ""
    signoff("--look")
    assert len(looks.read_text().splitlines()) == 1


def test_the_page_of_a_teams_own_service_names_no_method_of_luckyengine(project: Path) -> None:
    write_stages(project, '"*" = "shadow"', f'"{OWN}" = "complete"')
    keep(project / "seen", [seen(OWN, kind="parity", stage="parity")] * 40)
    text = signed(0)
    assert "hazel.rpc" not in text
    assert "SceneService" not in text
    assert "stepping path" not in text


@pytest.mark.parametrize("stage", ["grpc", "shadow", "canary 10%", "shm", "complete"])
@pytest.mark.parametrize("demoted", [None, 300.0, pytest.param(0.0, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("calls", [20, 60, pytest.param(0, marks=pytest.mark.exhaustive)])  # 20: of one method enough
def test_the_page_and_stage_promote_never_contradict_each_other(
    project: Path, stage: str, demoted: float | None, calls: int
) -> None:
    write_stages(project, f'"{READ}" = "{stage}"', f'"{OTHER}" = "shadow"')
    file, kind = project / "lucky_transport.toml", "parity" if stage == "grpc" else "live"
    file.write_text(file.read_text().replace("mismatch_limit = 0.2", "mismatch_limit = 0.17"))
    at, folder = moment(time.time() + 60), project / "seen"
    if demoted is not None:
        demote(folder, READ, "shm", "shadow", cool_down_s=demoted)
    placed = "shadow" if demoted is not None and stage not in ("grpc", "shadow") else stage
    keep(folder, [*[seen(kind=kind, stage=placed, at=at)] * calls, *[seen(OTHER, at=at)] * 60])
    found = {one["method"]: one for one in page()["methods"]}
    promoted = invoke("stage", "promote", READ, "--json")
    (move,) = json.loads(promoted.stdout)["methods"]
    if READ in found:
        assert found[READ]["next"] == ("" if move["refused"] else move["to"]), (found[READ], move)
        assert (found[READ]["verdict"] == "HELD BACK") == bool(move["refused"] and placed != "complete")


@pytest.mark.parametrize("steps", [0, 60])
def test_the_page_says_of_the_stepping_path_what_stage_promote_does_with_step(project: Path, steps: int) -> None:
    write_stages(project, '"*" = "shadow"')
    rest = seen(RESET, "not_compared", ["grpc"], why="it is not made twice")
    keep(project / "seen", [*[seen(STEP, kind="parity", stage="exchange")] * steps, *[rest] * 9])
    for arguments in ((), ("--method", "AgentService/ResetAgent")):
        (method,) = (one for one in page(*arguments)["methods"] if one["method"] == RESET)
        assert (method["next"], method["verdict"]) == (("canary 1%", "NOT READY") if steps else ("", "HELD BACK"))
    (move,) = json.loads(invoke("stage", "promote", STEP, "--json").stdout)["methods"]
    assert bool(move["refused"]) == (not steps)


def test_a_duration_that_no_clock_can_show_does_not_count(project: Path) -> None:
    endless = seen(grpc_us=float("inf"))
    with pytest.raises(ValueError, match="not JSON"):
        endless.write()
    (project / "seen").mkdir()
    line = seen().write()
    (project / "seen" / "calls-1.jsonl").write_text(line * 40 + line.replace("400.0", "1e999") * 9)
    assert page()["methods"][0]["latency"][0]["calls"] == 40
