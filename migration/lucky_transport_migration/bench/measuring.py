"""Timing one thing: the loop around `step`, closed or open, with the steps checked while they are timed.

    closed loop    the next step starts when the last one ended: the highest rate there is
    open loop      steps are due at fixed times, and the loop sleeps until then, as a control loop does; latency counts
                   from when it was woken, of a step that had to wait for the one before from when it was *due*, so a
                   slow step shows in all behind it (no coordinated omission)

Nothing but the step stands between the two clock readings; a `Look` and bookkeeping come after the second. An answer
that it refuses ends the measurement with an error: a fast wrong answer is no result. Warm-up is measured too and shown
apart.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.transport import Frame

Samples = NDArray[np.int64]
_Step = Callable[[Any], Any]

#: Of the number that bytes begin with.
NUMBER_BYTES = 8
_RATE_TOLERANCE = 0.02
_CPUCLOCK_SCHED = 2
_PROCESSOR = 36  # field 39 of proc_pid_stat(5), counted from the first field behind the command's name
_UTIME, _STIME = 11, 12


@dataclass(frozen=True)
class Effort:
    """How long to measure: `budget_s` per loop, at least `least` steps (which may take longer), at most `most`."""

    budget_s: float = 0.25
    least: int = 2
    most: int = 100_000
    open_loop_s: float = 2.0

    @property
    def patience_s(self) -> float:
        """After how long a flow that is still not measured has come to a halt."""
        return 60.0 + 10 * self.budget_s


#: The effort of `--quick`: a first look and a test that everything runs, no figures to quote.
QUICK = Effort(budget_s=0.02, least=1, most=2_000, open_loop_s=0.2)


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at in each answer while it is timed: `at` does it, `words` say it in the report.

    `at` raises RemoteProtocolError for a wrong answer. In a loop of exchanges it returns the answer's number, which
    must grow by one each time; a flow takes no number.
    """

    words: str
    at: Callable[[Any], Any]

    @classmethod
    def at_frames(cls, words: str, check: Callable[[NDArray[Any]], None]) -> Self:
        """Look at a transport's frames: at their numbers, and `check` their observations."""

        def at(frame: Frame) -> int:
            check(frame.observations)
            return frame.seq

        return cls(f"its number, and {words}", at)

    @classmethod
    def at_steps(cls, words: str, check: Callable[[NDArray[Any]], None]) -> Self:
        """Look at what an env's steps return, which have no numbers: `check` their observations."""
        numbers = itertools.count()

        def at(returned: tuple[Any, ...]) -> int:
            check(returned[0])
            return next(numbers)

        return cls(words, at)


@dataclass(slots=True)
class Measurement:
    """One loop in one round. Samples are int64 nanoseconds; CPU is None where a side has no process of its own.

    looked_at: the words of its Look, "" where nothing was looked at.
    """

    samples_ns: Samples
    warmup_ns: Samples
    client_cpu_ns: int | None
    engine_cpu_ns: int | None
    same_core: bool | None = None
    rate_achieved: bool | None = None
    looked_at: str = ""


def engine_cpu_ns(pid: int | None) -> int | None:
    """Return the CPU time of all threads of process `pid`; None for None (no process of its own) and a dead one.

    The clock's id is what glibc's `clock_getcpuclockid` makes of a pid. /proc/PID/stat counts in ticks of 10 ms, longer
    than ten thousand steps over shared memory take.
    """
    if pid is None:
        return None
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def busiest_core(pid: int | None) -> int | None:
    """Return the core on which the thread of `pid` with the most CPU time ran last; None when it cannot be told."""
    threads = [(0, -1)]
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread ended between the listing and the reading
            fields = stat.read_text().rpartition(")")[2].split()
            threads.append((int(fields[_UTIME]) + int(fields[_STIME]), int(fields[_PROCESSOR])))
    core = max(threads)[1]
    return None if core < 0 else core


class CpuTimer:
    """CPU time of both processes from construction to `stop`."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._client, self._engine = time.process_time_ns(), engine_cpu_ns(pid)

    def stop(self) -> tuple[int, int | None, bool | None]:
        """Return the client's and the engine's nanoseconds since construction, and whether both ran last on one core.

        What cannot be told is None.
        """
        client, engine = time.process_time_ns() - self._client, engine_cpu_ns(self._pid)
        cores = {busiest_core(pid) for pid in (os.getpid(), self._pid)}
        spent = None if engine is None or self._engine is None else engine - self._engine
        return client, spent, None if None in cores else len(cores) == 1


def measure_loop(
    step: _Step,
    actions: NDArray[Any],
    effort: Effort,
    pid: int | None,
    look: Look | None = None,
    rate_hz: float | None = None,
) -> Measurement:
    """Time `step(actions)` for about the effort's time: back to back, or as often as `rate_hz` says.

    Raises RemoteProtocolError when `look` refuses what `step` returned, or its numbers do not follow each other.
    """
    if rate_hz is not None:
        return _open_loop(step, actions, effort, pid, look, rate_hz)
    plan, order = _closed(effort, pid, look), _Order(look)
    n = next(plan)
    while True:
        try:
            n = plan.send(_timed(step, actions, n, order))
        except StopIteration as done:
            return done.value


def measure_calls(
    call: Callable[[int], Any], look: Look, effort: Effort, pid: int | None, rate_hz: float | None = None
) -> Measurement:
    """Time `call(number)` as `measure_loop` times steps, with numbers from 1 on."""
    numbers = itertools.count(1)
    return measure_loop(lambda _: call(next(numbers)), np.zeros(0), effort, pid, look, rate_hz)


def measure_bytes(
    send: Callable[[bytes], Any], content: str, size: int, effort: Effort, pid: int | None
) -> Measurement:
    """Time a call that is answered with the `size` bytes that it sends; `content` is their attribute of an answer.

    Raises RemoteProtocolError when an answer is not the one that was due.
    """
    padding = bytes(size - NUMBER_BYTES)

    def check(answer: Any) -> int:
        found: bytes = getattr(answer, content)
        if len(found) != size:
            raise RemoteProtocolError(f"an answer of {len(found)} bytes to a request of {size}")
        return int.from_bytes(found[:NUMBER_BYTES], "little")

    look = Look("its number and its length", check)
    return measure_calls(lambda number: send(number.to_bytes(NUMBER_BYTES, "little") + padding), look, effort, pid)


async def awaited_loop(step: Callable[[], Awaitable[Any]], effort: Effort, pid: int | None, look: Look) -> Measurement:
    """Time `await step()` back to back as `measure_loop` times steps."""
    plan, order = _closed(effort, pid, look), _Order(look)
    n = next(plan)
    while True:
        samples = np.empty(n, np.int64)
        clock = time.perf_counter_ns
        for i in range(n):
            start = clock()
            answer = await step()
            samples[i] = clock() - start
            order.check(answer)
        try:
            n = plan.send(samples)
        except StopIteration as done:
            return done.value


def _closed(effort: Effort, pid: int | None, look: Look | None) -> Generator[int, Samples, Measurement]:
    """Yield how many steps to time next, take their samples, and return the measurement.

    Warm-up is a tenth of the budget, at least one step and at most 2,000; what it took says how many steps follow.
    """
    until = time.perf_counter() + effort.budget_s / 10
    parts = [(yield 1)]
    while time.perf_counter() < until and sum(part.size for part in parts) < min(2000, effort.most):
        parts.append((yield 20 if parts[-1][-1] < 1_000_000 else 1))
    warmup = np.concatenate(parts)
    typical_ns = max(1.0, float(np.median(warmup[warmup.size // 2 :])))
    watch = CpuTimer(pid)
    samples = yield int(np.clip(effort.budget_s * 1e9 / typical_ns, effort.least, effort.most))
    return Measurement(samples, warmup, *watch.stop(), looked_at="" if look is None else look.words)


class _Order:
    """Whether exchanges come one after the other, by the numbers that a Look returns; `due` is the next.

    A loop back to back checks by itself: a call more per step would be in its CPU time.
    """

    def __init__(self, look: Look | None) -> None:
        self.number: Callable[[Any], int] | None = None if look is None else look.at
        self.due: int | None = None

    def check(self, answer: Any) -> None:
        """Raise RemoteProtocolError when the answer is not the one after the last."""
        if self.number is not None:
            found = self.number(answer)
            if found != self.due:
                self.refuse(found, self.due)
            self.due = found + 1

    def refuse(self, found: int, due: int | None) -> None:
        """Raise RemoteProtocolError, unless `found` is the first number."""
        if due is not None:
            raise RemoteProtocolError(f"frame {found} came where frame {due} was due: an exchange was lost or doubled")


def _timed(step: _Step, actions: NDArray[Any], n: int, order: _Order) -> Samples:
    samples = np.empty(n, np.int64)
    clock = time.perf_counter_ns
    number, due = order.number, order.due
    for i in range(n):
        start = clock()
        answer = step(actions)
        samples[i] = clock() - start
        if number is not None:
            found = number(answer)
            if found != due:
                order.refuse(found, due)
            due = found + 1
    order.due = due
    return samples


def _open_loop(
    step: _Step, actions: NDArray[Any], effort: Effort, pid: int | None, look: Look | None, rate_hz: float
) -> Measurement:
    """Time steps that are due `rate_hz` times a second, each from when the loop was woken for it or it was overdue.

    `rate_achieved` says whether the whole took no longer than planned (within 2 %).
    """
    n, order = max(5, int(effort.open_loop_s * rate_hz)), _Order(look)
    warmup = _timed(step, actions, 5, order)
    samples = np.empty(n, np.int64)
    clock = time.perf_counter_ns
    period_ns = 1e9 / rate_hz
    watch = CpuTimer(pid)
    start = clock() + int(period_ns)
    for i in range(n):
        due = start + int(i * period_ns)
        begun = _asleep_until(due)
        answer = step(actions)
        samples[i] = clock() - begun
        order.check(answer)
    achieved = clock() - start <= n * period_ns * (1 + _RATE_TOLERANCE)
    return Measurement(samples, warmup, *watch.stop(), achieved, "" if look is None else look.words)


def _asleep_until(due_ns: int) -> int:
    """Return when the step that is due then begins: when the sleep is over, or at `due_ns` if that has passed."""
    left = due_ns - time.perf_counter_ns()
    if left <= 0:
        return due_ns
    time.sleep(left / 1e9)
    return time.perf_counter_ns()
