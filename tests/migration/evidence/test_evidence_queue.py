"""What waits for a thread of its own."""

from __future__ import annotations

import threading

import pytest

from lucky_transport_migration.evidence.evidence_queue import EvidenceQueue
from tests.support.waiting import PATIENCE_S


def test_an_item_that_cannot_be_worked_on_is_counted_and_the_next_one_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
