"""Timing what flows: many items in one stretch of time, of which only the whole is timed.

The clock starts after a tenth of the time, when buffers are warm and the stream runs at its rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Look
from lucky_transport_migration.bench.rows import processes

__all__ = ["StreamMeasurement", "timed_flow"]


@dataclass(slots=True)
class StreamMeasurement:
    """`n` items in `took_ns`, in one round; `skipped` on the way, None where nothing may be.

    CPU and `looked_at` as in Measurement.
    """

    n: int
    took_ns: int
    client_cpu_ns: int | None
    engine_cpu_ns: int | None = None
    same_core: bool | None = None
    skipped: int | None = None
    looked_at: str = ""

    @property
    def us_each(self) -> float:
        """Microseconds per item."""
        return self.took_ns / self.n / 1e3

    @staticmethod
    def columns(rounds: Sequence[StreamMeasurement]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""
        columns: dict[str, Any] = {"per_s": round(1e6 / float(np.median([one.us_each for one in rounds])), 1)}
        skipped = [one.skipped for one in rounds if one.skipped is not None]
        if skipped:
            columns["skipped"] = sum(skipped)
        return columns | processes(rounds, sum(one.n for one in rounds))


def timed_flow(
    items: Iterable[Any],
    look: Look,
    effort: Effort,
    pid: int | None,
    dropped: Callable[[], int | None] = lambda: None,
) -> StreamMeasurement:
    """Return the flow of `items`, each of them looked at; `dropped` tells how many were skipped until now.

    Raises RemoteProtocolError when they end too early, and what `look` raises.
    """
    clock, check = time.perf_counter_ns, look.at
    begin = clock() + int(effort.budget_s * 1e8)
    end = begin + int(effort.budget_s * 1e9)
    watch: CpuTimer | None = None
    n = started = now = 0
    before: int | None = None
    for item in items:
        check(item)
        now = clock()
        if watch is not None:
            n += 1
            if now >= end and n >= effort.least:
                break
        elif now >= begin:
            watch, before, started = CpuTimer(pid), dropped(), clock()
    if watch is None or not n:
        raise RemoteProtocolError("the stream ended before it could be measured")
    client, engine = watch.stop()
    after = dropped()
    skipped = None if after is None or before is None else after - before
    return StreamMeasurement(n, now - started, client, engine, watch.same_core(), skipped, look.words)
