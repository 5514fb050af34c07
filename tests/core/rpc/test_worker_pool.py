"""The worker pool: bounded, its threads are kept, and closing it waits no longer than asked."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy
from lucky_transport.rpc.workers.worker_pool import WorkerPool
from tests.support.waiting import PATIENCE_S, soon, until


def _wait(running: threading.Semaphore, release: threading.Event) -> None:
    running.release()
    release.wait(PATIENCE_S)


def _note(seen: set[int], done: threading.Event) -> None:
    seen.add(threading.get_ident())
    done.set()


def test_no_more_than_the_limit_run_and_wait() -> None:
    workers, release, running = WorkerPool("testers", 2, waiting=1), threading.Event(), threading.Semaphore(0)
    for _ in range(3):
        workers.run(lambda: _wait(running, release))
    assert running.acquire(timeout=PATIENCE_S)
    assert running.acquire(timeout=PATIENCE_S)
    with pytest.raises(Busy, match="2 testers run and 1 wait already"):
        workers.run(lambda: None)
    release.set()
    assert running.acquire(timeout=PATIENCE_S)
    workers.close(5)


def test_a_thread_is_kept_for_the_next_task() -> None:
    workers = WorkerPool("testers", 8)
    seen: set[int] = set()
    for _ in range(20):
        done = threading.Event()
        workers.run(lambda done=done: _note(seen, done))
        assert done.wait(PATIENCE_S)
        time.sleep(0.002)
    assert len(seen) < 5
    workers.close(5)


def test_a_task_that_breaks_costs_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = WorkerPool("testers", 1, waiting=5), threading.Event()
    with caplog.at_level(logging.ERROR):
        workers.run(lambda: 1 // 0)
        workers.run(done.set)
        assert done.wait(PATIENCE_S)
    assert "a task of testers broke" in caplog.text
    workers.close(5)


def test_close_waits_no_longer_than_its_grace_and_nothing_starts_afterwards() -> None:
    workers, release = WorkerPool("testers", 1), threading.Event()
    workers.run(lambda: _wait(threading.Semaphore(0), release))
    workers.close(0.05)  # returns, though the task goes on
    with pytest.raises(Busy, match="closing"):
        workers.run(lambda: None)
    release.set()
    workers.close(5)


def test_where_no_thread_can_be_started_a_task_waits_for_one_that_runs_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = WorkerPool("testers", 3, waiting=1), WorkerPool("others", 3)
    release, running, done = threading.Event(), threading.Semaphore(0), threading.Event()
    first.run(lambda: _wait(running, release))
    assert running.acquire(timeout=PATIENCE_S)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        first.run(done.set)
        for pool, name in ((first, "testers"), (second, "others")):
            with pytest.raises(Busy, match=f"{name}: no thread can be started, the limit is .* .ulimit -u.$"):
                pool.run(lambda: None)
    second.run(running.release)
    assert running.acquire(timeout=PATIENCE_S)
    release.set()
    assert done.wait(PATIENCE_S)
    first.close(5)
    second.close(5)


def test_a_signal_handler_that_raises_while_a_thread_starts_brings_no_second_one(
    start_interrupted: Callable[[], AbstractContextManager[None]],
) -> None:
    workers, done = WorkerPool("interrupted testers", 1, waiting=5), threading.Event()
    with start_interrupted():
        workers.run(lambda: None)
    until(lambda: threads_of("interrupted testers"))
    workers.run(done.set)
    assert done.wait(PATIENCE_S)
    until(lambda: len(threads_of("interrupted testers")) == 1)
    workers.close(PATIENCE_S)
    assert threads_of("interrupted testers") == []


def test_draining_waits_for_what_runs_and_what_waits() -> None:
    workers, release, done = WorkerPool("testers", 1, waiting=1), threading.Event(), list[int]()
    workers.run(lambda: release.wait(PATIENCE_S))
    workers.run(lambda: done.append(1))
    assert not workers.drain(Deadline(0.0))
    release.set()
    assert workers.drain(soon())
    assert done == [1]
    workers.close(PATIENCE_S)


def test_a_forked_child_has_threads_of_its_own_and_none_of_the_tasks() -> None:
    workers, release = WorkerPool("testers", 1, waiting=1), threading.Event()
    workers.run(lambda: release.wait(PATIENCE_S))
    if (child := os.fork()) == 0:
        done = threading.Event()
        workers.run(done.set)
        workers.run(lambda: None)
        os._exit(0 if done.wait(PATIENCE_S) and workers.drain(soon()) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    release.set()
    workers.close(PATIENCE_S)


def threads_of(pool: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == pool]
