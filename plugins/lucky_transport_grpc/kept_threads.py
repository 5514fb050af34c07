"""Threads that are kept for what may block, such as plugins of call credentials."""

from __future__ import annotations

from collections.abc import Callable

from lucky_transport.rpc.workers.worker_pool import WorkerPool

_UNLIMITED = 2**31

_pool = WorkerPool("grpc kept", _UNLIMITED)


def run_on_kept_thread(task: Callable[[], object]) -> None:
    """Run the task on a thread that is idle, or on a new one."""
    _pool.run(task)
