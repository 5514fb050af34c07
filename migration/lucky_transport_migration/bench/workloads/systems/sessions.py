"""Measuring many sessions of one engine: created, advanced one by one and together, and running freely.

Every advance is checked for its tick, so none is lost, doubled or another session's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.sessions.api import AdvanceRequest, AdvanceResult
from lucky_transport_migration.bench.flow import StreamMeasurement, timed_flow
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Measurement, Samples, closed_loop
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.systems import SystemSetup
from lucky_transport_migration.bench.workloads.systems.pause import PATIENCE_S, measure_pause
from lucky_transport_migration.bench.workloads.systems.session_variants import MAP, OPTIONS, SessionVariant, open_way

__all__ = ["measure"]

_NOTHING = np.zeros(0)  # the loop hands its "actions" to the step
_TICKS = 10  # what one step of an env takes
_LOOK_EVERY_S = 0.001  # a reader that goes round the sessions, looking at each now and then


def measure(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measured]:
    """Return the measurements of a setup's cells; its engine has ended when this returns.

    Raises RemoteProtocolError when an advance is not the one that was due.
    """
    count, effort = int(plan.options["sessions"]), plan.effort
    measures: Mapping[str, Callable[[SessionVariant], Measured]] = {
        "ready": lambda way: _measure_ready(way, count, effort),
        "advance": lambda way: _measure_advance(way, count, effort),
        "ticks": lambda way: _measure_ticks(way, count, effort),
        "free": lambda way: _measure_free(way, count, effort),
        "pause": lambda way: measure_pause(way, float(plan.options["pause_s"])),
    }
    with open_way(setup.path, setup.wait) as way:
        return {cell: measures[cell.kind](way) for cell in setup.cells()}


def _create(way: SessionVariant, seed: int) -> str:
    """Return a session that can be played."""
    session = way.sessions.create(MAP, seed, OPTIONS)
    way.sessions.advance(session, 0)
    return session


@contextmanager
def _sessions(way: SessionVariant, count: int) -> Generator[Sequence[str]]:
    sessions = [_create(way, seed) for seed in range(1, count + 1)]
    yield sessions
    for session in sessions:
        way.sessions.destroy(session)


def _measure_ready(way: SessionVariant, count: int, effort: Effort) -> Samples:
    """Create `count` sessions, each timed until it can be played, and again for about the effort's budget."""
    with _sessions(way, 1):  # what is made once is there
        pass
    samples: list[int] = []
    until = time.perf_counter() + effort.budget_s
    while not samples or time.perf_counter() < until:
        sessions: list[str] = []
        for seed in range(1, count + 1):
            start = time.perf_counter_ns()
            sessions.append(_create(way, seed))
            samples.append(time.perf_counter_ns() - start)
        for session in sessions:
            way.sessions.destroy(session)
    return np.asarray(samples, np.int64)


def _measure_advance(way: SessionVariant, count: int, effort: Effort) -> Measurement:
    with _sessions(way, count) as sessions:
        turns = itertools.cycle(sessions)
        advances = itertools.count(1)

        def number(done: AdvanceResult) -> int:
            expected = next(advances)
            tick = (expected - 1) // count + 1
            return expected if (done.ticks, done.ticks_done) == (tick, 1) else -1

        return closed_loop(lambda _: way.sessions.advance(next(turns), 1), _NOTHING, effort, way.pid, number)


def _measure_ticks(way: SessionVariant, count: int, effort: Effort) -> StreamMeasurement:
    with _sessions(way, count) as sessions:
        turns = [AdvanceRequest(session, _TICKS) for session in sessions]
        rounds = ((tick, way.sessions.advance_all(turns)) for tick in itertools.count(_TICKS, _TICKS))

        def check(item: tuple[int, Sequence[AdvanceResult]]) -> None:
            tick, outcomes = item
            for done in outcomes:
                if (done.ticks, done.ticks_done) != (tick, _TICKS):
                    raise RemoteProtocolError(f"tick {done.ticks} came where tick {tick} was due")

        found = timed_flow(rounds, check, effort, way.pid)
        return replace(found, n=found.n * count * _TICKS)


def _measure_free(way: SessionVariant, count: int, effort: Effort) -> StreamMeasurement:
    """Let all run as fast as they can, with a reader that goes round them.

    On a machine with much else to do the engine may get no time while a short effort lasts: then it gets longer.
    """
    with _sessions(way, count) as sessions:
        looks = {session: way.watch(session) for session in sessions}
        for session in sessions:
            way.sessions.run(session, 0)
        turns = itertools.cycle(sessions)
        _go_round(looks, turns, effort.budget_s / 10)
        patience = Deadline(PATIENCE_S)
        watch, start, before = CpuTimer(way.pid), time.perf_counter_ns(), _ticks(way, sessions)
        _go_round(looks, turns, effort.budget_s)
        while not (ticks := _ticks(way, sessions) - before):
            if patience.expired:
                raise RemoteProtocolError(f"sessions that run freely stood still for {PATIENCE_S:g} s")
            _go_round(looks, turns, effort.budget_s)
        took = time.perf_counter_ns() - start
        client, engine = watch.stop()
        return StreamMeasurement(ticks, took, client, engine, watch.same_core())


def _go_round(looks: Mapping[str, Callable[[int], object]], turns: Iterator[str], seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        looks[next(turns)](-1)
        time.sleep(_LOOK_EVERY_S)


def _ticks(way: SessionVariant, sessions: Sequence[str]) -> int:
    return sum(way.sessions.state(session).ticks for session in sessions)
