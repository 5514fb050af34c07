"""What a signal handler raises while a thread is started."""

from __future__ import annotations

import pytest

from lucky_transport.rpc.workers.worker_pool import WorkerPool
from lucky_transport.uninterrupted import Latch
from tests.support.interrupted_moments import interrupted_start


class Alarm(Exception):
    """What the handler raises."""


def test_a_handlers_exception_is_not_hidden_by_the_start_of_a_thread() -> None:
    """The thread runs when the handler does: then `Thread.start` has nothing to forget any more."""
    runs = Latch()
    pool = WorkerPool("workers", 1)
    with interrupted_start(Alarm), pytest.raises(Alarm):
        pool.run(runs.set)
    pool.run(runs.set)
    assert runs.wait(60)
    pool.close()
