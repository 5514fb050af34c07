"""Measuring the pipe: cart poles played by lines of text, and a raw unix socket that moves as many bytes.

A state's score is the number of its session's actions until then, so none is lost or doubled unnoticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport.registry import load
from lucky_transport_migration.bench.flow import StreamMeasurement, timed_flow
from lucky_transport_migration.bench.measuring import Effort, Measurement, closed_loop
from lucky_transport_migration.bench.peers.exchange import measure_exchanges
from lucky_transport_migration.bench.peers.wire import Message
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.systems import SystemSetup
from lucky_transport_migration.bench.workloads.systems.cores import two_cores

__all__ = ["TICKS", "Queue", "balance", "measure", "play_queue"]

_EXPERIMENT = "cart_pole"
_ENDLESS = 1 << 30
#: Of a session that is queued.
TICKS = 20
_NOTHING = np.zeros(0)  # the loop hands its "actions" to the step
#: A command's and a state's line have 20 and about 150 bytes; so have these.
_LINES = Message(num_envs=1, obs_size=34, act_size=3, copies=False)


@dataclass(slots=True)
class Queue:
    """`n` sessions, played from the first to the last: how long it took, and the longest time without any news."""

    n: int
    took_ns: int
    largest_gap_ns: int

    @property
    def us_each(self) -> float:
        """Microseconds per session."""
        return self.took_ns / self.n / 1e3

    @staticmethod
    def columns(rounds: Sequence[Queue]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""
        took = float(np.median([one.took_ns for one in rounds]))
        return {
            "per_s": round(rounds[0].n / took * 1e9, 1),
            "seconds": round(took / 1e9, 3),
            "largest_gap_ms": round(max(one.largest_gap_ns for one in rounds) / 1e6, 3),
        }


def measure(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measured]:
    """Return the measurements of a setup's cells; its processes have ended when this returns.

    Raises RemoteProtocolError when an action is not answered by its state.
    """
    effort = plan.effort
    if setup.path == "unix-socket":
        found = measure_exchanges("unix-socket", [(_LINES, None)], effort, two_cores)
        return dict(zip(setup.cells(), found, strict=True))
    slots, queued = int(plan.options["slots"]), int(plan.options["queued"])
    name = unique_name()
    engine = EngineProcess("cartpole", [f"pipe://{name}?slots={slots}"])
    measures: Mapping[str, Callable[[Any], Measured]] = {
        "action": lambda instance: _measure_action(instance, effort, engine.pid),
        "slots": lambda instance: _measure_slots(instance, slots, effort, engine.pid),
        "queue": lambda instance: play_queue(_experiment(instance, queued, TICKS)),
    }
    connect = load("lucky_transport_pipe.instance:Instance", owner="pipe")
    played: dict[CallCell, Measured] = {}
    try:
        for cell in setup.cells():
            with connect(name) as instance, two_cores(engine.pid):
                played[cell] = measures[cell.kind](instance)
    finally:
        engine.stop()
    return played


def _experiment(instance: Any, sessions: int, ticks: int) -> Any:
    return instance.experiment(_EXPERIMENT, [{"Seed": seed, "MaxTicks": ticks} for seed in range(sessions)])


def balance(state: Mapping[str, float]) -> dict[str, bool]:
    """Return a command that keeps the pole up without end."""
    lean = state["PoleAngle"] + 0.3 * state["PoleAngularVelocity"]
    drift = 0.02 * state["CartPosition"] + 0.05 * state["CartVelocity"]
    return {"MoveRight": lean + drift > 0}


def _measure_action(instance: Any, effort: Effort, pid: int) -> Measurement:
    session = _experiment(instance, 1, _ENDLESS).session(0)
    state = session.state()

    def step(_: Any) -> Mapping[str, float]:
        nonlocal state
        session.command(balance(state))
        state = session.state()
        return state

    return closed_loop(step, _NOTHING, effort, pid, lambda shown: int(shown["Score"]))


def _measure_slots(instance: Any, slots: int, effort: Effort, pid: int) -> StreamMeasurement:
    experiment = _experiment(instance, slots, _ENDLESS)
    actions = 0

    def in_step() -> Iterator[Mapping[int, Mapping[str, float]]]:
        for states in experiment.in_step():
            for session, state in states.items():
                experiment.command(session, balance(state))
            yield states

    def check(states: Mapping[int, Mapping[str, float]]) -> None:
        nonlocal actions
        if len(states) != slots or any(state["Score"] != actions for state in states.values()):
            raise RemoteProtocolError(f"{len(states)} of {slots} sessions show action {actions}")
        actions += 1

    found = timed_flow(in_step(), check, effort, pid)
    return replace(found, n=found.n * slots)


def play_queue(experiment: Any) -> Queue:
    """Play every session to its end. Raises RemoteProtocolError when one has not the score of all its ticks."""
    start = last = time.perf_counter_ns()
    gap = 0
    while (event := experiment.next_now() or experiment.next()) is not None:
        now = time.perf_counter_ns()
        gap, last = max(gap, now - last), now
        state = getattr(event, "state", None)
        if state is not None:
            experiment.command(event.session, balance(state))
    took = time.perf_counter_ns() - start
    scores = experiment.final_scores()
    if any(score != TICKS for score in scores):
        raise RemoteProtocolError(f"sessions of {TICKS} ticks ended with scores {sorted(set(scores))}")
    return Queue(len(scores), took, gap)
