"""The suite of steps, ready to run.

What an engine of known content must show is looked at in every exchange, outside the timed part: a stamp at both ends
of the frame. All of the frame is looked at around every loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.spec.composite import unpack
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, measure_loop
from lucky_transport_migration.bench.plan import Case
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suites.steps import (
    COPY,
    IDLE,
    STEP_TARGETS,
    StepCell,
    StepPlan,
    StepSuite,
    cases_of,
    offered,
)
from lucky_transport_migration.bench.workloads.limits import measure_limit
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure_case", "prepare"]

_STAMP = "the stamps at both ends of its observations"


def prepare(plan: StepPlan) -> PreparedSuite:
    """Return the suite for a plan.

    Running it raises what starting and driving the engines raises, and RemoteProtocolError when frames were lost or
    torn.
    """
    notes: list[str] = []
    if plan.engine != IDLE:
        notes.append(f"{plan.engine} computes, so only VectorEnv rows are given: they hold the engine's time too")
    suite = StepSuite(
        name="step",
        title=f"Transports of {plan.engine}",
        engine=plan.engine,
        targets=STEP_TARGETS,
        cpu_key="cpu_us_per_step",
    )
    cases = plan.with_twins(cases_of(plan))
    return PreparedSuite(suite, plan, cases, lambda case: _measure(case, plan, notes), notes)


def _measure(case: Case, plan: StepPlan, notes: list[str]) -> Mapping[StepCell, Measurement]:
    if case.path != "limit":
        return measure_case(case, plan)
    found = {cell: measure_limit(cell, plan) for cell in case.cells}
    notes += [why for why in found.values() if isinstance(why, str)]
    return {cell: one for cell, one in found.items() if not isinstance(one, str)}


def measure_case(case: Case, plan: StepPlan) -> dict[StepCell, Measurement]:
    """Return the measurements of those cells that the transport offers; its processes have ended when this returns.

    Raises RemoteProtocolError when frames were lost or hold what they must not hold.
    """
    one: StepCell = case.cells[0]  # all of them have these in common
    options = plan.options_of(one.frame_bytes)
    with ConnectedEngine(
        find_path(case.path), one.engine, one.num_envs, seed=0, options=options, wait=case.wait
    ) as link:
        transport = link.transport
        # Written, as a policy's are: pages never written are one page of zeros, which stays in the cache.
        actions = np.full(transport.spec.action_shape, 0, transport.spec.action.dtype)
        found: dict[StepCell, Measurement] = {}
        envs: list[VectorEnv] = []  # an env closes its transport when it is collected, so each lives to the end
        for cell in offered(case.cells, zero_copy=transport.capabilities.zero_copy):
            own = transport.actions if cell.actions == "inplace" else actions
            if cell.level == "transport":
                found[cell] = _measure_transport(transport, cell, own, plan.effort, link.pid)
            else:
                envs.append(VectorEnv(transport, copy=bool(cell.copy)))
                found[cell] = _measure_env(envs[-1], cell, own, plan.effort, link.pid)
        for env in envs:
            with closing(env):
                pass
        return found


def _measure_transport(
    transport: Transport, cell: StepCell, actions: NDArray[Any], effort: Effort, pid: int | None
) -> Measurement:
    first = transport.step(actions)
    start, check = first.seq, _check_whole(cell.engine, first.observations)
    found = measure_loop(transport.step, actions, effort, pid, Look.at_frames(_STAMP, check), cell.rate_hz)
    last = transport.step(actions)
    check(last.observations)
    _check_whole(cell.engine, last.observations)
    _check_count(start, last.seq, found)
    return found


def _measure_env(env: VectorEnv, cell: StepCell, actions: NDArray[Any], effort: Effort, pid: int | None) -> Measurement:
    env.reset(seed=0)
    parts = env.batch_spec.action_parts
    given = unpack(actions, parts) if parts else actions
    if cell.engine not in (IDLE, COPY):
        return measure_loop(env.step, given, effort, pid, rate_hz=cell.rate_hz)
    first = env.transport.step(actions)
    start, check = first.seq, _check_whole(cell.engine, first.observations)
    found = measure_loop(env.step, given, effort, pid, Look.at_steps(_STAMP, check), cell.rate_hz)
    last = env.transport.step(actions)
    check(last.observations)
    _check_count(start, last.seq, found)  # no episode ends, so every step is one exchange
    return found


def _check_count(start: int, last: int, found: Measurement) -> None:
    """The loop's steps and the one after it are all there are between the two frame numbers."""
    expected = found.samples_ns.size + found.warmup_ns.size + 1
    if last - start != expected:
        raise RemoteProtocolError(f"{last - start} frames for {expected} steps: exchanges were lost or doubled")


def _check_whole(engine: str, observations: NDArray[Any]) -> Callable[[NDArray[Any]], None]:
    """Look at a whole frame of toy:idle or toy:copy; return what looks at the stamps of those that follow it.

    Both stamps of toy:copy are the number of its step, its other values 0.5; toy:idle leaves its zeros.
    """
    values = observations.reshape(-1)
    due, grows = float(values[0]), float(engine == COPY)
    if values[-1] != due or not (values[1:-1] == grows / 2).all():
        raise RemoteProtocolError(f"observations of {engine} hold other values than {grows / 2}: a frame was torn")

    def check(observations: NDArray[Any]) -> None:
        nonlocal due
        due += grows
        first, last = observations.item(0), observations.item(-1)
        if not first == last == due:
            raise RemoteProtocolError(
                f"observations of {engine}: stamps {first} and {last}, not {due}: a frame was torn"
            )

    return check
