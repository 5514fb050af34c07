"""Timing the calls of an asyncio stub, awaited one after the other."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Measurement, Samples
from lucky_transport_migration.bench.workloads.stubs.calls import number_of, question

__all__ = ["measure_awaited"]

_WARMUP = 20


async def measure_awaited(call: Any, chars: int, effort: Effort, pid: int | None) -> Measurement:
    """Time a unary-unary callable of asyncio that answers with its request.

    Raises RemoteProtocolError when an answer is not the one that was due.
    """
    numbers = itertools.count(1)
    warmup = await _timed(call, chars, numbers, _WARMUP)
    more = _fitting(warmup, effort, effort.budget_s / 10)
    warmup = np.concatenate([warmup, await _timed(call, chars, numbers, more)])
    n = _fitting(warmup[warmup.size // 2 :], effort, effort.budget_s)
    watch = CpuTimer(pid)
    samples = await _timed(call, chars, numbers, n)
    client, engine = watch.stop()
    return Measurement(samples, warmup, client, engine, watch.same_core())


def _fitting(samples: Samples, effort: Effort, seconds: float) -> int:
    """Return how many calls like these fit into so many seconds, within the effort's bounds."""
    return int(np.clip(seconds * 1e9 / max(1.0, float(np.median(samples))), effort.least, effort.most))


async def _timed(call: Any, chars: int, numbers: itertools.count[int], n: int) -> Samples:
    samples = np.empty(n, np.int64)
    clock = time.perf_counter_ns
    for i in range(n):
        number = next(numbers)
        start = clock()
        answer = await call(question(number, chars))
        samples[i] = clock() - start
        if number_of(answer) != number:
            raise RemoteProtocolError(f"call {number} was answered as call {number_of(answer)}")
    return samples
