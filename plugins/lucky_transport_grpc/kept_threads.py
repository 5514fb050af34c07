"""Threads that are kept for what may block: plugins of call credentials, and connecting for an event loop."""

from __future__ import annotations

from collections.abc import Callable

from lucky_transport.fork import on_child
from lucky_transport.rpc.workers.worker_pool import WorkerPool

__all__ = ["run_on_kept_thread"]

_UNLIMITED = 2**31

_pools: list[WorkerPool] = []


def run_on_kept_thread(task: Callable[[], object]) -> None:
    """Run the task on a thread that is idle, or on a new one."""
    _pools[-1].run(task)


def _begin() -> None:
    _pools[:] = [WorkerPool("grpc kept", _UNLIMITED)]


_begin()
on_child(_begin)  # its parent's threads are not there
