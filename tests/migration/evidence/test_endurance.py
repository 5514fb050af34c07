"""A policy survives full disks, floods, forks and the death of its process, and harms nobody; Prometheus sees it."""

import gc
import os
import socket
import sys
import threading
import urllib.request
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lucky_transport_migration.evidence import lines, metrics
from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.routing import evidence_policy as policy_module
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from tests.support.fixtures.migration_evidence import JOINTS, OTHER_JOINTS, READ
from tests.support.resources import free_port
from tests.support.waiting import PATIENCE_S, until

Both = Callable[..., Comparison]


def test_where_the_journal_cannot_be_written_the_method_falls_back_in_this_process(project: Any, both: Both) -> None:
    project.write("canary 50%")
    (project.folder / "lucky-evidence").write_text("a file where the folder should be")
    policy = project.policy()
    policy.note(both([OTHER_JOINTS], [JOINTS], stage="canary 50%"))
    policy.close()
    assert {policy.decide(READ).primary for _ in range(50)} == {"grpc"}
    assert any("demotion holds in this process only" in line for line in project.told)
    assert any("evidence is lost" in line for line in project.told)


@pytest.fixture
def busy_policy(project: Any, both: Both, monkeypatch: pytest.MonkeyPatch) -> tuple[EvidencePolicy, Callable[[], None]]:
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


def test_what_comes_too_fast_is_refused_and_counted(project: Any, both: Both, busy_policy: Any) -> None:
    policy, release = busy_policy
    for _ in range(5100):
        policy.note(both([JOINTS], [JOINTS]))
    release()
    policy.close()
    assert len(project.evidence) == 1 + 4096
    assert f"{5101 - 4097:,} more came too fast to be looked at" in project.told[0]


def test_what_is_too_large_to_be_kept_is_refused_and_counted(project: Any, both: Both, busy_policy: Any) -> None:
    policy, release = busy_policy
    picture = bytes(1 << 20)
    for _ in range(100):
        policy.note(both([picture], [picture]))  # two megabytes each
    release()
    policy.close()
    assert len(project.evidence) == 1 + 32
    assert "68 more came too fast to be looked at" in project.told[0]


def test_many_threads_may_note_at_once(project: Any, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "_CLOSE_S", PATIENCE_S)  # none is left over on a busy machine
    policy = project.policy()
    threads = [
        threading.Thread(target=lambda: [policy.note(both([JOINTS], [JOINTS])) for _ in range(200)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    policy.close()
    assert len(project.evidence) == 1600


def test_a_file_that_is_being_written_is_not_closed_under_its_writer(
    project: Any, both: Both, monkeypatch: pytest.MonkeyPatch
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


def test_closing_twice_and_noting_after_it_are_harmless(project: Any, both: Both) -> None:
    before = set(threading.enumerate())
    policy = project.policy()
    policy.close()
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert policy.decide(READ).primary == "grpc"
    assert not {thread.name for thread in threading.enumerate() if thread not in before}


def test_a_forked_child_has_evidence_a_thread_and_a_summary_of_its_own(project: Any, both: Both) -> None:
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


def test_metrics_count_calls_verdicts_durations_and_demotions(project: Any, both: Both) -> None:
    registry = CollectorRegistry()
    policy = project.policy(metrics=Metrics(registry))
    policy.note(both([JOINTS], [JOINTS]))
    policy.note(both([JOINTS], [OTHER_JOINTS]))
    policy.close()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"method": READ, **labels})

    compared = {"stage": "shadow", "verdict": "different", "aspect": "item"}
    assert value("lucky_transport_calls_total", stage="shadow", transport="grpc", code="OK") == 2
    assert value("lucky_transport_compared_total", **compared) == 1
    assert value("lucky_transport_call_seconds_count", transport="shm", role="shadow") == 2
    assert value("lucky_transport_call_seconds_sum", transport="shm", role="shadow") == pytest.approx(2e-4)
    assert value("lucky_transport_demotions_total", to="grpc") == 1


def test_metrics_are_served_where_a_port_is_given(project: Any, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_port_that_is_taken_is_said_and_the_policy_works(project: Any, both: Both) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        project.write(rest=f"metrics_port = {port}")
        policy = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert project.told[0].startswith(f"no metrics at port {port}: ")
    assert len(project.evidence) == 1


def test_without_prometheus_client_nothing_is_counted_and_only_a_port_makes_that_worth_saying(
    project: Any, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, metrics.__name__)
    project.policy(metrics=None).close()
    assert project.told == []
    project.write(rest="metrics_port = 9")
    policy = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert project.told[0].startswith("no metrics at port 9: ")
    assert project.told[0].endswith("[metrics]'")
    assert len(project.evidence) == 1
