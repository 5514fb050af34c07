"""Timing many callers at once: threads of one client on one channel, each calling flat out."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.flow import StreamMeasurement
from lucky_transport_migration.bench.measuring import CpuTimer, Effort
from lucky_transport_migration.bench.workloads.stubs.calls import ASKED, number_of, question

__all__ = ["measure_callers"]

_TICK_S = 0.001


class _Callers:
    """What the threads share: how many calls each has made, and when to stop."""

    def __init__(self, call: Any, chars: int, count: int) -> None:
        self._call = call
        self._chars = chars
        self._stop = threading.Event()
        self._counts = [0] * count

    @property
    def calls(self) -> int:
        """How many calls were answered until now, by all callers."""
        return sum(self._counts)

    def run(self, index: int) -> None:
        """Call until `stop`; raises RemoteProtocolError when an answer belongs to another call."""
        number = index
        try:
            while not self._stop.is_set():
                answer = self._call(question(number, self._chars))
                if number_of(answer) != number:
                    raise RemoteProtocolError(f"call {number} was answered as call {number_of(answer)}")
                self._counts[index] += 1
                number += len(self._counts)
        finally:
            self._stop.set()  # when one has failed the others need not go on

    def wait(self, seconds: float, more: int) -> None:
        """Return after `seconds` and not before `more` further calls were answered; at once when a caller failed."""
        end, least = time.perf_counter() + seconds, self.calls + more
        while not self._stop.is_set() and (time.perf_counter() < end or self.calls < least):
            time.sleep(min(_TICK_S, seconds))

    def stop(self) -> None:
        """Let each caller end after the call it is in."""
        self._stop.set()


def measure_callers(call: Any, chars: int, count: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of the calls of `count` threads; the first tenth of the time is warm-up.

    Raises RemoteProtocolError when an answer belongs to another call.
    """
    callers = _Callers(call, chars, count)
    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(callers.run, index) for index in range(count)]
        try:
            callers.wait(effort.budget_s / 10, count)
            watch, started, before = CpuTimer(pid), time.perf_counter_ns(), callers.calls
            callers.wait(effort.budget_s, effort.least)
            took, n = time.perf_counter_ns() - started, callers.calls - before
            client, engine = watch.stop()
        finally:
            callers.stop()
    for one in running:
        one.result()
    return StreamMeasurement(n, took, client, engine, watch.same_core(), looked_at=ASKED)
