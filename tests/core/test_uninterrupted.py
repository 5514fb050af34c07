"""What a signal handler raises while a thread is started."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.uninterrupted import Latch


class Alarm(Exception):
    """What the handler raises."""


def test_a_handlers_exception_is_not_hidden_by_the_start_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread runs when the handler does: then `Thread.start` has nothing to forget any more."""
    starting: Any = threading.Thread.start.__globals__
    name = next(one for one in ("_start_joinable_thread", "_start_new_thread") if one in starting)
    start = starting[name]
    runs = Latch()

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        monkeypatch.undo()
        start(*arguments, **settings)
        for thread in threading.enumerate():
            thread._started.wait()  # type: ignore[attr-defined]
        raise Alarm

    pool = WorkerPool("workers", 1)
    monkeypatch.setitem(starting, name, interrupted)
    with pytest.raises(Alarm):
        pool.run(runs.set)
    pool.run(runs.set)
    assert runs.wait(60)
    pool.close()
