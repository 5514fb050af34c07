"""Timing one thing: the loop around `step`, closed or open, with the steps checked while they are timed.

    closed loop    the next step starts when the last one ended: the highest rate there is
    open loop      steps are due at fixed times; latency counts from when a step was *due*, so a slow step shows in all
                   that had to wait for it (no coordinated omission)

Nothing but the step stands between the two clock readings; checks and bookkeeping come after the second. A lost,
doubled or torn exchange ends the measurement with an error: a fast wrong answer is no result. Warm-up is measured too
and shown apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.cpu import busiest_core, client_cpu_ns, engine_cpu_ns

__all__ = ["QUICK", "CpuTimer", "Effort", "Measurement", "Samples", "closed_loop", "open_loop"]

Samples = NDArray[np.int64]

_SPIN_NS = 500_000  # an open loop sleeps until so long before a step is due and then watches the clock
_RATE_TOLERANCE = 0.02


@dataclass(frozen=True)
class Effort:
    """How long to measure: `budget_s` per loop, at least `least` steps (which may take longer), at most `most`."""

    budget_s: float = 0.25
    least: int = 2
    most: int = 100_000
    open_loop_s: float = 2.0
    idle_s: float = 2.0
    neighbour_s: float = 1.0


#: The effort of `--quick`: a first look and a test that everything runs, no figures to quote.
QUICK = Effort(budget_s=0.02, least=1, most=2_000, open_loop_s=0.2, idle_s=0.3, neighbour_s=0.2)


@dataclass(slots=True)
class Measurement:
    """One loop in one round. Samples are int64 nanoseconds; `CPU is None where a side has no process of its own."""

    samples_ns: Samples
    warmup_ns: Samples
    client_cpu_ns: int | None
    engine_cpu_ns: int | None
    same_core: bool | None = None
    rate_achieved: bool | None = None


class CpuTimer:
    """CPU time of both processes from construction to `stop`."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._client, self._engine = client_cpu_ns(), engine_cpu_ns(pid)

    def stop(self) -> tuple[int, int | None]:
        """Return the client's and the engine's nanoseconds since construction."""
        client, engine = client_cpu_ns(), engine_cpu_ns(self._pid)
        return client - self._client, None if engine is None or self._engine is None else engine - self._engine

    def same_core(self) -> bool | None:
        """Whether both processes ran last on one core; None when that cannot be told."""
        if self._pid is None:
            return None
        ours, theirs = busiest_core(os.getpid()), busiest_core(self._pid)
        return None if ours is None or theirs is None else ours == theirs


def closed_loop(
    step: Callable[[Any], Any],
    actions: NDArray[Any],
    effort: Effort,
    pid: int | None,
    number: Callable[[Any], int] | None = None,
) -> Measurement:
    """Time `step(actions)` back to back for about `effort.budget_s`.

    `number` returns the exchange's number from what `step` returned; it must grow by one each time, else
    RemoteProtocolError is raised.
    """
    warmup = _warm_up(step, actions, effort, number)
    typical_ns = max(1.0, float(np.median(warmup[warmup.size // 2 :])))
    n = int(np.clip(effort.budget_s * 1e9 / typical_ns, effort.least, effort.most))
    watch = CpuTimer(pid)
    samples = _timed(step, actions, n, number)
    client, engine = watch.stop()
    return Measurement(samples, warmup, client, engine, watch.same_core())


def _warm_up(
    step: Callable[[Any], Any], actions: NDArray[Any], effort: Effort, number: Callable[[Any], int] | None
) -> Samples:
    """Return the samples of the first steps: a tenth of the budget, at least one step, at most 2,000."""
    until = time.perf_counter() + effort.budget_s / 10
    parts = [_timed(step, actions, 1, number)]
    while time.perf_counter() < until and sum(part.size for part in parts) < min(2000, effort.most):
        parts.append(
            _timed(step, actions, 20, number) if parts[-1][-1] < 1_000_000 else _timed(step, actions, 1, number)
        )
    return np.concatenate(parts)


def _timed(step: Callable[[Any], Any], actions: NDArray[Any], n: int, number: Callable[[Any], int] | None) -> Samples:
    samples = np.empty(n, np.int64)
    clock = time.perf_counter_ns
    if number is None:
        for i in range(n):
            start = clock()
            step(actions)
            samples[i] = clock() - start
        return samples
    expected = 0
    for i in range(n):
        start = clock()
        answer = step(actions)
        samples[i] = clock() - start
        found = number(answer)
        if expected and found != expected:
            raise RemoteProtocolError(
                f"frame {found} came where frame {expected} was due: an exchange was lost or doubled"
            )
        expected = found + 1
    return samples


def open_loop(
    step: Callable[[Any], Any], actions: NDArray[Any], rate_hz: float, n: int, pid: int | None
) -> Measurement:
    """Time `n` steps that are due `rate_hz` times a second, each from when it was due.

    `rate_achieved` says whether the whole took no longer than planned (within 2 %).
    """
    warmup = _timed(step, actions, 5, None)
    samples = np.empty(n, np.int64)
    clock = time.perf_counter_ns
    period_ns = 1e9 / rate_hz
    watch = CpuTimer(pid)
    start = clock() + int(period_ns)
    for i in range(n):
        due = start + int(i * period_ns)
        _wait_until(due)
        step(actions)
        samples[i] = clock() - due
    took = clock() - start
    client, engine = watch.stop()
    achieved = took <= n * period_ns * (1 + _RATE_TOLERANCE)
    return Measurement(samples, warmup, client, engine, watch.same_core(), achieved)


def _wait_until(due_ns: int) -> None:
    """Return at `due_ns`: asleep as long as that is safe, since a sleeper wakes up to 100 us late, then watching."""
    left = due_ns - time.perf_counter_ns()
    if left > _SPIN_NS:
        time.sleep((left - _SPIN_NS) / 1e9)
    while time.perf_counter_ns() < due_ns:
        pass
