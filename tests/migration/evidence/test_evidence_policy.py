"""What is planted is found, named and demoted by the policy; it harms nobody, and survives floods and full disks."""

import copy
import gc
import json
import logging
import os
import socket
import sys
import threading
import urllib.request
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lucky_transport.messages import EntityId, GetJointStateResponse, JointState, RobotControllerSummary
from lucky_transport.registry import load, registry
from lucky_transport_migration.evidence import lines, metrics
from lucky_transport_migration.evidence.call_comparison import ASPECTS
from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.evidence.tally import RunSummary
from lucky_transport_migration.routing import evidence_policy as policy_module
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from lucky_transport_migration.routing.policies import RecordingPolicy
from lucky_transport_migration.routing.router import process_router
from tests.support.fixtures.migration_evidence import JOINTS, OTHER_JOINTS, READ, both, seen
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S, at_once, until

STREAM = "/hazel.rpc.AgentService/StreamRobotController"
RESET = "/hazel.rpc.AgentService/ResetAgent"


ROBOTS = [RobotControllerSummary(entity=EntityId(number)) for number in range(4)]

#: What is planted -> the candidate's answer in place of the right one, aspect and place it is named by.
PLANTED: dict[str, tuple[Any, str, str]] = {
    "bit": ([OTHER_JOINTS], "item", "state.positions[0]"),
    "status": (CallOutcome("shm", (), "NOT_FOUND", "no robot"), "code", "code"),
    "crash": (CallOutcome("shm", (), "UNAVAILABLE", "the engine died", is_local=True), "code", "code"),
}


def noted(project: Any, *calls: Comparison, **options: Any) -> EvidencePolicy:
    """Return a policy that was told of these calls, and closed."""
    policy = project.policy(**options)
    for one in calls:
        policy.note(one)
    policy.close()
    return policy


@pytest.mark.parametrize("stage", ["shadow", "canary 10%", "shm"])
@pytest.mark.parametrize("planted", PLANTED)
def test_each_kind_of_difference_is_found_named_and_demoted(project: Any, planted: str, stage: str) -> None:
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


def test_with_nothing_planted_nothing_is_demoted(project: Any) -> None:
    equal = both([JOINTS], [copy.deepcopy(JOINTS)]), both(ROBOTS, copy.deepcopy(ROBOTS), method=STREAM)
    noted(project, *equal * 100)
    assert {one.verdict for one in project.evidence} == {"equal"}
    assert len(project.evidence) == 200
    assert project.journal == []
    assert project.told == [
        "200 of 200 calls of 2 methods compared: 200 equal, 0 different, 0 failed; of no call: "
        "hints of errors, deadlines that expire, what comes of a stream that was left, "
        "whether a read changes anything; "
        f"evidence in {project.folder / 'lucky-evidence'}"
    ]


def test_the_last_line_says_how_many_of_the_compared_answers_were_refusals(project: Any) -> None:
    sides = (CallOutcome(name, (), "NOT_FOUND", "no such robot", took_us=9.0) for name in ("grpc", "shm"))
    noted(project, both(*sides), both([JOINTS], [copy.deepcopy(JOINTS)]))
    said = "2 equal, 0 different, 0 failed; 1 of 2 compared answers was a refusal: 1 NOT_FOUND; of no call: "
    assert said in project.told[0]


def test_a_method_that_is_back_is_not_demoted_again_for_calls_that_were_under_way(project: Any) -> None:
    project.write("canary 10%")
    noted(project, *[both([OTHER_JOINTS], [JOINTS], stage="canary 10%")] * 20)
    assert [str(entry.to) for entry in project.journal] == ["shadow"]
    assert len(project.evidence) == 20


def test_what_changes_the_world_has_no_shadow_and_its_calls_are_counted(project: Any) -> None:
    policy = project.policy()
    assert policy.decide(RESET).shadow == ""
    assert policy.decide(READ).shadow == "shm"
    policy.note(both([1], None, method=RESET))
    policy.close()
    assert [(one.verdict, one.primary.items) for one in project.evidence] == [("not_compared", 1)]
    assert f"; not looked at: {RESET}: it changes what there is, and is not made twice" in project.told[0]


def test_a_dead_candidate_of_what_changes_the_world_is_demoted(project: Any) -> None:
    project.write("canary 50%")
    gone = CallOutcome("shm", (), "UNAVAILABLE", "gone", is_local=True)
    noted(project, both(gone, None, method=RESET, stage="canary 50%"))
    assert [str(entry.to) for entry in project.journal] == ["grpc"]


def test_rules_and_limits_are_read_again_while_it_runs(project: Any) -> None:
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


def test_wrong_rules_leave_the_last_good_ones_in_force(project: Any, caplog: pytest.LogCaptureFixture) -> None:
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


def test_items_that_cannot_be_compared_are_said_and_harm_nobody(project: Any) -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare me")

        __hash__ = None  # pyright: ignore[reportAssignmentType]

    noted(project, both([Hostile()], [Hostile()]), both([JOINTS], [JOINTS]))
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


def test_a_quiet_policy_speaks_only_of_what_is_wrong(project: Any) -> None:
    for wrong in (False, True):
        noted(project, both([JOINTS], [OTHER_JOINTS if wrong else JOINTS]), quiet=True)
        assert bool(project.told) == wrong


def test_evidence_is_json_also_where_numbers_are_none(project: Any) -> None:
    one, other = (GetJointStateResponse(True, "", JointState([float(number)])) for number in ("inf", "nan"))
    noted(project, both([one], [other]))
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


def test_a_folder_that_cannot_hold_what_describes_a_service_loses_no_count(project: Any) -> None:
    pytest.importorskip("grpc_health.v1.health_pb2")  # a service whose modules are imported here
    (project.folder / "lucky-evidence").write_text("a file")
    noted(project, both([b""], None, method="/grpc.health.v1.Health/Check"))
    assert "; not looked at: /grpc.health.v1.Health/Check: " in project.told[-1]


def test_where_the_journal_cannot_be_written_the_method_falls_back_in_this_process(project: Any) -> None:
    project.write("canary 50%")
    (project.folder / "lucky-evidence").write_text("a file where the folder should be")
    policy = noted(project, both([OTHER_JOINTS], [JOINTS], stage="canary 50%"))
    assert {policy.decide(READ).primary for _ in range(50)} == {"grpc"}
    assert any("demotion holds in this process only" in line for line in project.told)
    assert any("evidence is lost" in line for line in project.told)


@pytest.fixture
def busy_policy(project: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[EvidencePolicy, Callable[[], None]]:
    """Return a policy that is held up by the first call it looks at, and what releases it."""
    held, entered = threading.Event(), threading.Event()

    def waits(*_: Any) -> None:
        entered.set()
        held.wait(PATIENCE_S)

    monkeypatch.setattr(Metrics, "add", waits)
    monkeypatch.setattr(policy_module, "_CLOSE_S", 60.0)  # a busy machine may take long over thousands of calls
    policy = project.policy()
    policy.note(both([JOINTS], [JOINTS]))
    assert entered.wait(PATIENCE_S)
    return policy, held.set


@pytest.mark.parametrize(("calls", "item", "kept"), [(5100, JOINTS, 4096), (100, bytes(1 << 20), 32)])
def test_what_comes_too_fast_or_is_too_large_is_refused_and_counted(
    project: Any, busy_policy: Any, calls: int, item: Any, kept: int
) -> None:
    policy, release = busy_policy
    for _ in range(calls):
        policy.note(both([item], [item]))
    release()
    policy.close()
    assert len(project.evidence) == 1 + kept
    assert f"{calls - kept:,} more came too fast to be looked at" in project.told[0]


def test_many_threads_may_note_at_once(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "_CLOSE_S", PATIENCE_S)  # none is left over on a busy machine
    policy = project.policy()
    at_once(*[lambda: [policy.note(both([JOINTS], [JOINTS])) for _ in range(200)]] * 8)
    policy.close()
    assert len(project.evidence) == 1600


def test_a_file_that_is_being_written_is_not_closed_under_its_writer(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file may get its descriptor. The thread ends once it has written."""
    before = set(threading.enumerate())
    monkeypatch.setattr(policy_module, "_CLOSE_S", 0.0)
    writes, may_write = threading.Event(), threading.Event()
    policy = project.policy()
    append = lines.append

    def slow(descriptor: int, text: bytes) -> int:
        writes.set()
        assert may_write.wait(PATIENCE_S)
        return append(descriptor, text)

    monkeypatch.setattr(lines, "append", slow)
    policy.note(both([JOINTS], [JOINTS]))
    assert writes.wait(PATIENCE_S)
    policy.close()
    may_write.set()
    until(lambda: project.evidence)
    until(lambda: set(threading.enumerate()) <= before)


def test_closing_twice_and_noting_after_it_are_harmless(project: Any) -> None:
    before = set(threading.enumerate())
    policy = project.policy()
    policy.close()
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert policy.decide(READ).primary == "grpc"
    assert not {thread.name for thread in threading.enumerate() if thread not in before}


def test_a_forked_child_has_evidence_a_thread_and_a_summary_of_its_own(project: Any) -> None:
    policy = project.policy()
    for _ in range(100):
        policy.note(both([JOINTS], [JOINTS]))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            policy.note(both([JOINTS], [OTHER_JOINTS]))
            until(lambda: project.journal)
            policy.close()
            status = 0 if project.told[-1].startswith("DIFFERENT: 1 of 1 call of 1 method") else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    policy.close()
    lines = {path.name: path.read_text().count("\n") for path in (project.folder / "lucky-evidence").glob("calls-*")}
    assert lines == {f"calls-{os.getpid()}.jsonl": 100, f"calls-{pid}.jsonl": 1}
    assert len(project.journal) == 1


def test_a_policy_that_nobody_holds_is_collected(project: Any) -> None:
    gone = weakref.ref(EvidencePolicy(project.folder, metrics=Metrics(CollectorRegistry())))
    gc.collect()
    assert gone() is None


def test_an_item_that_cannot_be_worked_on_is_counted_and_the_next_one_is_done(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def work(item: str) -> None:
        if item == "broken":
            raise KeyError(item)
        done.set()

    inbox = EvidenceQueue("some inbox", work)
    inbox.put("broken")
    inbox.put("whole")
    assert done.wait(PATIENCE_S)
    inbox.close(10)
    assert inbox.refused == 1
    (record,) = caplog.records
    assert record.getMessage() == "some inbox: an item could not be worked on"


def test_close_waits_for_what_is_worked_on_though_who_began_it_has_not_gone_on(monkeypatch: pytest.MonkeyPatch) -> None:
    working, go_on, started = threading.Event(), threading.Event(), threading.Event()
    done: list[tuple[int, str]] = []

    def work(item: int) -> None:
        working.set()
        assert go_on.wait(PATIENCE_S)
        done.append((item, threading.current_thread().name))

    start = threading.Thread.start

    def start_and_stay(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "evidence":
            assert started.wait(PATIENCE_S)

    monkeypatch.setattr(threading.Thread, "start", start_and_stay)
    queue = EvidenceQueue("evidence", work)
    first = threading.Thread(target=queue.put, args=(1,), name="who began it")
    first.start()
    assert working.wait(PATIENCE_S)
    queue.put(2)
    closing = threading.Thread(target=queue.close, args=(PATIENCE_S,))
    closing.start()
    go_on.set()
    closing.join(PATIENCE_S)
    assert done == [(1, "evidence"), (2, "evidence")]
    started.set()
    first.join(PATIENCE_S)


def test_a_signal_handler_that_raises_before_the_thread_starts_costs_nothing_but_that_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = threading.Event()
    queue = EvidenceQueue("some inbox", lambda item: done.set())

    def strike(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", strike)
        with pytest.raises(KeyboardInterrupt):
            queue.put("first")
    queue.put("second")
    assert done.wait(PATIENCE_S)
    assert queue.close(PATIENCE_S)


def test_metrics_count_calls_verdicts_durations_and_demotions(project: Any) -> None:
    registry = CollectorRegistry()
    noted(project, both([JOINTS], [JOINTS]), both([JOINTS], [OTHER_JOINTS]), metrics=Metrics(registry))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"method": READ, **labels})

    compared = {"stage": "shadow", "verdict": "different", "aspect": "item"}
    assert value("lucky_transport_calls_total", stage="shadow", transport="grpc", code="OK") == 2
    assert value("lucky_transport_compared_total", **compared) == 1
    assert value("lucky_transport_call_seconds_count", transport="shm", role="shadow") == 2
    assert value("lucky_transport_call_seconds_sum", transport="shm", role="shadow") == pytest.approx(2e-4)
    assert value("lucky_transport_demotions_total", to="grpc") == 1


def test_metrics_are_served_where_a_port_is_given(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start, port = metrics.start_http_server, free_port()
    monkeypatch.setattr(metrics, "start_http_server", lambda *args, **named: started.append(start(*args, **named)))
    project.write(rest=f"metrics_port = {port}")
    policy = project.policy(metrics=None)
    again = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    again.close()
    assert project.told[0].startswith("1 of 1 call of 1 method")
    ((server, thread),) = started
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            text = page.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
    assert f'lucky_transport_compared_total{{aspect="",method="{READ}",stage="shadow",verdict="equal"}} 1.0' in text


def test_a_port_that_is_taken_is_said_and_the_policy_works(project: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        project.write(rest=f"metrics_port = {port}")
        policy = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert project.told[0].startswith(f"no metrics at port {port}: ")
    assert len(project.evidence) == 1


@pytest.mark.parametrize(
    ("found", "why"), [(None, "[metrics]'"), (ModuleType("prometheus_client"), "(unknown location)")]
)
def test_without_prometheus_client_nothing_is_counted_and_only_a_port_makes_that_worth_saying(
    found: ModuleType | None, why: str, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", found)
    monkeypatch.delitem(sys.modules, metrics.__name__)
    project.policy(metrics=None).close()
    assert project.told == []
    project.write(rest="metrics_port = 9")
    noted(project, both([JOINTS], [JOINTS]), metrics=None)
    assert project.told[0].startswith("no metrics at port 9: ")
    assert project.told[0].endswith(why)
    assert len(project.evidence) == 1
