"""A policy survives full disks, floods, forks and the death of its process, and harms nobody meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lucky_transport_migration.evidence import lines
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import Comparison
from lucky_transport_migration.evidence.record import EQUAL
from lucky_transport_migration.routing import evidence_policy as policy_module
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
from tests.support.fixtures.migration_evidence import JOINTS, OTHER_JOINTS, READ
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


_KILLED = """
import sys, time
from pathlib import Path
from lucky_transport.messages import GetJointStateResponse
from lucky_transport.routing import Decision
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.routing import evidence_policy as policy_module
from lucky_transport_migration.routing.evidence_policy import EvidencePolicy
policy = EvidencePolicy(Path(sys.argv[1]))
answer = GetJointStateResponse()
while True:
    sides = CallOutcome("grpc", [answer]), CallOutcome("shm", [answer])
    policy.note(Comparison("/hazel.rpc.MujocoService/GetJointState", Decision("grpc", "shm", "shadow"), *sides))
    time.sleep(0.0005)
"""


@pytest.mark.exhaustive
def test_what_a_killed_process_had_noted_before_is_evidence(project: Any) -> None:
    process = subprocess.Popen([sys.executable, "-c", _KILLED, str(project.folder)])
    try:
        until(lambda: len(project.evidence) >= 20)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert {one.verdict for one in project.evidence} == {EQUAL}


def test_a_policy_that_nobody_holds_is_collected(project: Any) -> None:
    gone = weakref.ref(EvidencePolicy(project.folder, metrics=Metrics(CollectorRegistry())))
    gc.collect()
    assert gone() is None
