"""What is planted into the answers of a candidate is found, named and demoted by the policy, which harms no caller."""

import copy
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_transport.messages import EntityId, GetJointStateResponse, JointState, RobotControllerSummary
from lucky_transport.registry import load, registry
from lucky_transport_migration.evidence.call_comparison import ASPECTS
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.tally import RunSummary
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.policies import RecordingPolicy
from lucky_transport_migration.routing.router import process_router
from tests.support.fixtures.migration_evidence import JOINTS, OTHER_JOINTS, READ, seen
from tests.support.waiting import until

STREAM = "/hazel.rpc.AgentService/StreamRobotController"
RESET = "/hazel.rpc.AgentService/ResetAgent"

Both = Callable[..., Comparison]

ROBOTS = [RobotControllerSummary(entity=EntityId(number)) for number in range(4)]

#: What is planted -> the candidate's answer in place of the right one, aspect and place it is named by.
PLANTED: dict[str, tuple[Any, str, str]] = {
    "bit": ([OTHER_JOINTS], "item", "state.positions[0]"),
    "status": (CallOutcome("shm", (), "NOT_FOUND", "no robot"), "code", "code"),
    "crash": (CallOutcome("shm", (), "UNAVAILABLE", "the engine died", is_local=True), "code", "code"),
}


@pytest.mark.parametrize("stage", ["shadow", "canary 10%", "shm"])
@pytest.mark.parametrize("planted", PLANTED)
def test_each_kind_of_difference_is_found_named_and_demoted(project: Any, both: Both, planted: str, stage: str) -> None:
    wrong, aspect, where = PLANTED[planted]
    project.write(stage)
    policy = project.policy()
    policy.note(both(*([JOINTS], wrong) if stage == "shadow" else (wrong, [JOINTS]), stage=stage))
    verdict = "failed" if planted == "crash" else "different"
    expected = "grpc" if stage == "shadow" or verdict == "failed" else "shadow"

    entry = until(lambda: project.journal)[0]
    assert (entry.method, str(entry.before), str(entry.to)) == (READ, stage, expected)
    until(lambda: policy.decide(READ).primary == "grpc" and policy.decide(READ).stage == expected)
    policy.close()
    (evidence,) = project.evidence
    assert (evidence.verdict, evidence.aspect, evidence.where) == (verdict, aspect, where)
    assert entry.why == evidence.sentence
    assert set(evidence.values) == {"grpc", "shm"}
    assert evidence.at
    assert project.told[0] == f"{evidence.sentence}; demoted from {stage} to {expected}"


def test_with_nothing_planted_nothing_is_demoted(project: Any, both: Both) -> None:
    policy = project.policy()
    for _ in range(100):
        policy.note(both([JOINTS], [copy.deepcopy(JOINTS)]))
        policy.note(both(ROBOTS, copy.deepcopy(ROBOTS), method=STREAM))
    policy.close()
    assert {one.verdict for one in project.evidence} == {"equal"}
    assert len(project.evidence) == 200
    assert project.journal == []
    assert project.told == [
        "200 of 200 calls of 2 methods compared: 200 equal, 0 different, 0 failed; of no call: "
        "hints of errors, deadlines that expire, what comes of a stream that was left, "
        "whether a read changes anything; "
        f"evidence in {project.folder / 'lucky-evidence'}"
    ]


def test_a_method_that_is_back_is_not_demoted_again_for_calls_that_were_under_way(project: Any, both: Both) -> None:
    project.write("canary 10%")
    policy = project.policy()
    for _ in range(20):
        policy.note(both([OTHER_JOINTS], [JOINTS], stage="canary 10%"))
    policy.close()
    assert [str(entry.to) for entry in project.journal] == ["shadow"]
    assert len(project.evidence) == 20


def test_what_changes_the_world_has_no_shadow_and_its_calls_are_counted(project: Any, both: Both) -> None:
    policy = project.policy()
    assert policy.decide(RESET).shadow == ""
    assert policy.decide(READ).shadow == "shm"
    policy.note(both([1], None, method=RESET))
    policy.close()
    assert [(one.verdict, one.primary.items) for one in project.evidence] == [("not_compared", 1)]
    assert f"; not looked at: {RESET}: it changes what there is, and is not made twice" in project.told[0]


def test_a_dead_candidate_of_what_changes_the_world_is_demoted(project: Any, both: Both) -> None:
    project.write("canary 50%")
    policy = project.policy()
    policy.note(
        both(CallOutcome("shm", (), "UNAVAILABLE", "gone", is_local=True), None, method=RESET, stage="canary 50%")
    )
    policy.close()
    assert [str(entry.to) for entry in project.journal] == ["grpc"]


def test_rules_and_limits_are_read_again_while_it_runs(project: Any, both: Both) -> None:
    policy = project.policy()
    near = GetJointStateResponse(True, "", JointState([0.5 + 1e-6] * 19, [0.25] * 18, 19, 18))
    project.write(rest='[parity.fields]\n"JointState.*" = { abs = 1e-5 }\n[gate]\ndemote = false')

    def looks_again() -> bool:
        policy.decide(READ)
        policy.note(both([JOINTS], [near]))
        return any(one.verdict == "equal" for one in project.evidence)

    until(looks_again)
    policy.note(both([JOINTS], [GetJointStateResponse()]))
    before = len(project.journal)
    policy.close()
    assert project.evidence[-1].verdict == "different"
    assert len(project.journal) == before


def test_wrong_rules_leave_the_last_good_ones_in_force(
    project: Any, both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    policy = project.policy()
    with caplog.at_level(logging.WARNING, "lucky_transport"):
        project.write(rest='[parity.fields]\n"JointStat.x" = { abs = 1 }')

        def looks_again() -> bool:
            policy.decide(READ)
            policy.note(both([JOINTS], [JOINTS]))
            return "rules and limits stay as they were" in caplog.text

        until(looks_again)
    policy.close()
    assert "did you mean 'JointState'?" in caplog.text
    assert {one.verdict for one in project.evidence} == {"equal"}


def test_items_that_cannot_be_compared_are_said_and_harm_nobody(project: Any, both: Both) -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare me")

        __hash__ = None  # pyright: ignore[reportAssignmentType]

    policy = project.policy()
    policy.note(both([Hostile()], [Hostile()]))
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert [one.verdict for one in project.evidence] == ["not_compared", "equal"]
    assert project.evidence[0].why == "they cannot be compared: RuntimeError: do not compare me"


# opening


@pytest.mark.parametrize(("record", "kind"), [("", EvidencePolicy), ("run.jsonl", RecordingPolicy)])
def test_the_router_of_the_registry_decides_by_stages_and_records_where_it_is_asked_to(
    project: Any, monkeypatch: pytest.MonkeyPatch, record: str, kind: type
) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("LUCKY_RECORD", record)
    process_router.cache_clear()
    router = load(registry().routers["stages"].open, owner="tests")()
    process_router.cache_clear()
    assert type(router.policy) is kind
    decision = router.policy.decide(READ)
    assert (decision.primary, decision.shadow) == ("grpc", "" if record else "shm")
    router.close()


def test_a_quiet_policy_speaks_only_of_what_is_wrong(project: Any, both: Both) -> None:
    for wrong in (False, True):
        policy = project.policy(quiet=True)
        policy.note(both([JOINTS], [OTHER_JOINTS if wrong else JOINTS]))
        policy.close()
        assert bool(project.told) == wrong


def test_evidence_is_json_also_where_numbers_are_none(project: Any, both: Both) -> None:
    policy = project.policy()
    strange = GetJointStateResponse(True, "", JointState([float("inf")]))
    policy.note(both([strange], [GetJointStateResponse(True, "", JointState([float("nan")]))]))
    policy.close()
    (line,) = Path(next((project.folder / "lucky-evidence").glob("calls-*"))).read_text().splitlines()
    assert json.loads(line)["values"] == {"grpc": "inf", "shm": "nan"}
    assert [(one.method, str(one.to)) for one in project.journal] == [(READ, "grpc")]
    assert project.evidence


def test_a_summary_is_loud_about_differences_and_names_what_was_not_looked_at(tmp_path: Path) -> None:
    summary = RunSummary()
    summary.add(seen("/lab.Arm/Read", "not_compared", ["grpc"], why="it is in no table"))
    assert "not looked at: /lab.Arm/Read: it is in no table; of no call: hints of errors" in summary.sentence(tmp_path)
    summary.add(
        seen("/lab.Arm/Move", "not_compared", ["grpc"], stage="grpc", why="no shadow was asked")
    )  # none was wanted
    summary.add(seen("/lab.Scene/Get"))
    summary.add(seen("/lab.Scene/Get", "not_compared", ["grpc"], why="too many shadows are under way"))
    text = summary.sentence(tmp_path)
    assert text.startswith("1 of 4 calls of 3 methods compared: 1 equal, 0 different, 0 failed; not looked at: /lab.")
    assert "Move" not in text
    assert "too many" not in text
    for verdict in ("different", "failed"):
        bad = RunSummary()
        bad.add(seen("/lab.Scene/Get", verdict, aspect="code", where="code"))
        assert bad.sentence(tmp_path).startswith(f"{verdict.upper()}: 1 of 1 call of 1 method compared")


def test_the_page_says_of_equal_answers_what_is_compared() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "evidence.md").read_text()
    assert f"| `equal` | {', '.join(ASPECTS)} are alike" in page


def test_a_folder_that_cannot_hold_what_describes_a_service_loses_no_count(project: Any, both: Both) -> None:
    pytest.importorskip("grpc_health.v1.health_pb2")  # a service whose modules are imported here
    (project.folder / "lucky-evidence").write_text("a file")
    policy = project.policy()
    policy.note(both([b""], None, method="/grpc.health.v1.Health/Check"))
    policy.close()
    assert "; not looked at: /grpc.health.v1.Health/Check: " in project.told[-1]
