"""What a transport costs its surroundings: an idle engine's CPU, and the other threads of a client that waits.

These are rows of their own suites ("idle", "threads"); they are never mixed with step latencies.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Samples
from lucky_transport_migration.bench.rows import distribution, p50s_us
from lucky_transport_migration.bench.suites.steps import IDLE
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["idle_row", "threads_row"]

_STEP_S = 0.0002  # how long the engine steps while a neighbour thread wants to run
_TICK_S = 0.001  # how often the neighbour wants to run


def idle_row(path: str, wait: str | None, options: dict[str, Any], effort: Effort, repeats: int = 1) -> dict[str, Any]:
    """Return the row of an idle engine's CPU use, in per cent of one core."""
    percents = [_idle_percent(path, wait, options, effort) for _ in range(repeats)]
    return {
        "suite": "idle",
        "level": "transport",
        "path": path,
        "wait": wait,
        "num_envs": 1,
        "n": len(percents),
        "cpu_percent": round(float(np.median(percents)), 3),
        "cpu_percent_max": round(max(percents), 3),
    }


def threads_row(
    path: str, wait: str | None, options: dict[str, Any], effort: Effort, repeats: int = 1
) -> dict[str, Any]:
    """Return the row of how late another Python thread of the client was; path "none" is the machine's own lateness."""
    rounds = [_lateness(path, wait, options, effort) for _ in range(repeats)]
    found = distribution(rounds, p50s_us(rounds))
    return {
        "suite": "threads",
        "level": "transport",
        "path": path,
        "wait": wait,
        "num_envs": 1,
        **{key: found[key] for key in ("n", "us", "reliable_to")},
    }


def _idle_percent(path: str, wait: str | None, options: dict[str, Any], effort: Effort) -> float:
    """Return the CPU use of an attached engine that has nothing to do, in per cent of one core."""
    with ConnectedEngine(find_path(path), IDLE, 1, options=options, wait=wait) as link:
        actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
        for _ in range(10):
            link.transport.step(actions)
        time.sleep(0.05)  # let the last step's spinning end
        watch = CpuTimer(link.pid)
        start = time.perf_counter()
        time.sleep(effort.idle_s)
        took = time.perf_counter() - start
        _, engine_ns = watch.stop()
        return 0.0 if engine_ns is None else engine_ns / took / 1e7


def _lateness(path: str, wait: str | None, options: dict[str, Any], effort: Effort) -> Samples:
    """Return how late, in int64 nanoseconds, a second Python thread of the client was each time it wanted to run.

    Meanwhile the main thread steps an engine that takes 200 us a step; with path "none" it only sleeps, which is the
    machine's own lateness.
    """
    if path == "none":
        return _lateness_while(lambda: time.sleep(_STEP_S), effort)
    with ConnectedEngine(find_path(path), IDLE, 1, options=options | {"step_delay_s": _STEP_S}, wait=wait) as link:
        actions = np.zeros(link.transport.spec.action_shape, link.transport.spec.action.dtype)
        link.transport.step(actions)
        return _lateness_while(lambda: link.transport.step(actions), effort)


def _lateness_while(work: Any, effort: Effort) -> Samples:
    """Run `work` over and over on this thread while another one wants to run every millisecond."""
    n = max(20, int(effort.neighbour_s / _TICK_S))
    late = np.empty(n, np.int64)
    finished = threading.Event()

    def neighbour() -> None:
        start = time.perf_counter_ns()
        for i in range(n):
            due = start + int((i + 1) * _TICK_S * 1e9)
            left = due - time.perf_counter_ns()
            if left > 0:
                time.sleep(left / 1e9)
            late[i] = time.perf_counter_ns() - due
        finished.set()

    thread = threading.Thread(target=neighbour, name="neighbour", daemon=True)
    thread.start()
    while not finished.is_set():
        work()
    thread.join()
    return late
