"""The suite of steps, ready to run.

What an engine of known content must show is looked at in every exchange, outside the timed part: a stamp at both ends
of the frame. All of the frame is looked at around every loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.spec.composite import unpack
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.measuring import Effort, Look, Measurement, measure_loop
from lucky_transport_migration.bench.peers.exchange import measure_exchanges
from lucky_transport_migration.bench.peers.kinds import missing_peers
from lucky_transport_migration.bench.peers.wire import Message
from lucky_transport_migration.bench.plan import Case
from lucky_transport_migration.bench.run import Around, PreparedSuite
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
from lucky_transport_migration.bench.workloads.crowded import LOST, co_runners, on_one_core
from lucky_transport_migration.bench.workloads.limits import measure_limit
from lucky_transport_migration.bench.workloads.overheads import idle_row, threads_row
from lucky_transport_migration.paths import ConnectedEngine, find_path, label

__all__ = ["measure_case", "measure_peer", "prepare"]

MeasuredT = TypeVar("MeasuredT")

_STAMP = "the stamps at both ends of its observations"
_PEER_NOTES = (
    "a peer moves the same bytes as a step: actions and control there, observations, rewards and flags back; all of "
    "them are driven by Python, numbers are checked, nothing is checked that the way itself does not check",
    "a peer sends its frame in every row, also where our engine does nothing; rows with an engine that copies its "
    "frame compare like with like",
)


def prepare(plan: StepPlan) -> PreparedSuite:
    """Return the suite for a plan.

    Running it raises what starting and driving the engines raises, and RemoteProtocolError when frames were lost or
    torn.
    """
    absent = missing_peers() if plan.peers else {}
    notes = [f"{label(name)} was not measured: {why}" for name, why in absent.items()]
    if plan.engine != IDLE:
        notes.append(f"{plan.engine} computes, so only VectorEnv rows are given: they hold the engine's time too")
    notes += _PEER_NOTES if plan.peers else ()
    notes += (LOST,) if plan.co_runners else ()
    suite = StepSuite(
        name="step",
        title=f"Transports of {plan.engine}",
        engine=plan.engine,
        targets=STEP_TARGETS,
        cpu_key="cpu_us_per_step",
    )
    cases = [case for case in plan.with_twins(cases_of(plan)) if case.path not in absent]
    around = list(_around(plan)) if plan.engine == IDLE else []
    return PreparedSuite(suite, plan, cases, lambda case: _measure(case, plan, notes), notes, around)


def _measure(case: Case, plan: StepPlan, notes: list[str]) -> Mapping[StepCell, Measurement]:
    with ExitStack() as stack:
        if case.cells[0].one_core:
            stack.enter_context(on_one_core())
        if case.path == "limit":
            found = {cell: _beside(cell, plan, lambda cell=cell: measure_limit(cell, plan)) for cell in case.cells}
            notes += [why for why in found.values() if isinstance(why, str)]
            return {cell: one for cell, one in found.items() if not isinstance(one, str)}
        return measure_peer(case, plan) if case.path in plan.peers else measure_case(case, plan)


def _beside(cell: StepCell, plan: StepPlan, measure: Callable[[], MeasuredT]) -> MeasuredT:
    """Measure beside the cell's co-runners, and say what they lost."""
    if not cell.co_runners:
        return measure()
    with co_runners(cell.co_runners, plan.effort.budget_s) as lost:
        found = measure()
        if isinstance(found, Measurement):
            found.beside |= lost()
    return found


def _around(plan: StepPlan) -> Iterator[Around]:
    """Yield what is looked at beside the steps: an idle engine, and the client's other threads."""
    ways: Sequence[tuple[str, str | None]] = [
        (path, wait) for path in plan.paths if path != "inproc" for wait in plan.waits_of(path)
    ]
    repeats, effort = 1 if plan.rounds < 3 else 2, plan.effort
    for path, wait in ways:
        yield Around(
            f"idle engine: {path} {wait or ''}",
            lambda path=path, wait=wait: idle_row(path, wait, plan.options, effort, repeats),
        )
    for path, wait in (("none", None), *ways):
        yield Around(
            f"other threads: {path} {wait or ''}",
            lambda path=path, wait=wait: threads_row(path, wait, plan.options, effort, repeats),
        )


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
                found[cell] = _beside(
                    cell, plan, partial(_measure_transport, transport, cell, own, plan.effort, link.pid)
                )
            else:
                envs.append(VectorEnv(transport, copy=bool(cell.copy)))
                found[cell] = _measure_env(envs[-1], cell, own, plan.effort, link.pid)
        for env in envs:
            with closing(env):
                pass
        return found


def measure_peer(case: Case, plan: StepPlan) -> dict[StepCell, Measurement]:
    """Return the measurements of a peer's cells; its processes have ended when this returns.

    Raises what `measure_exchanges` raises.
    """
    cells, act_size = case.cells, int(plan.options["act_size"])
    sizes = [int(plan.options_of(cell.frame_bytes)["obs_size"]) for cell in cells]
    work = [
        (Message(cell.num_envs, size, act_size, cell.engine == COPY), cell.rate_hz)
        for cell, size in zip(cells, sizes, strict=True)
    ]
    return dict(zip(cells, measure_exchanges(case.path, work, plan.effort), strict=True))


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
