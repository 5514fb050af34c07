"""Measuring one setup once: a fresh pair of processes, all its cells, everything ended again.

What an engine of known content must show is checked around every loop, outside the timed part.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.spec.composite import unpack
from lucky_transport.transport import Transport
from lucky_transport_migration.bench.bench_plan import BenchPlan
from lucky_transport_migration.bench.cells import COPY, IDLE, Cell
from lucky_transport_migration.bench.measuring import Effort, Measurement, closed_loop, open_loop
from lucky_transport_migration.bench.peers.exchange import measure_exchanges
from lucky_transport_migration.bench.peers.kinds import VECTOR_ENV
from lucky_transport_migration.bench.peers.vector import VectorJob, measure_vector_env
from lucky_transport_migration.bench.peers.wire import Message
from lucky_transport_migration.bench.setups import PeerSetup, Setup
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure_peer", "measure_setup"]

_PREPARED = 0.5  # every observation of toy:copy; toy:idle leaves its zeros


def measure_setup(setup: Setup, options: dict[str, Any], effort: Effort) -> dict[Cell, Measurement]:
    """Return the measurements of a setup's cells; its processes have ended when this returns.

    Raises RemoteProtocolError when frames were lost or hold what they must not hold.
    """
    path = find_path(setup.path)
    with ConnectedEngine(path, setup.engine, setup.num_envs, seed=0, options=options, wait=setup.wait) as link:
        transport = link.transport
        actions = np.zeros(transport.spec.action_shape, transport.spec.action.dtype)
        found: dict[Cell, Measurement] = {}
        envs: list[VectorEnv] = []  # an env closes its transport when it is collected, so each lives to the end
        for cell in setup.cells(zero_copy=transport.capabilities.zero_copy):
            own = transport.actions if cell.actions == "inplace" else actions
            if cell.level == "transport":
                found[cell] = _measure_transport(transport, cell, own, effort, link.pid)
            else:
                envs.append(VectorEnv(transport, copy=bool(cell.copy)))
                found[cell] = _measure_env(envs[-1], cell, own, effort, link.pid)
        for env in envs:
            with closing(env):
                pass
        return found


def measure_peer(setup: PeerSetup, plan: BenchPlan) -> dict[Cell, Measurement]:
    """Return the measurements of a peer's cells; its processes have ended when this returns.

    Raises what `measure_exchanges` and `measure_vector_env` raise.
    """
    cells, act_size = setup.cells(), int(plan.options["act_size"])
    sizes = [int(plan.options_of(cell.frame_bytes)["obs_size"]) for cell in cells]
    if setup.path == VECTOR_ENV:
        jobs = [VectorJob(cell.num_envs, size, act_size, plan.effort) for cell, size in zip(cells, sizes, strict=True)]
        return {cell: measure_vector_env(job) for cell, job in zip(cells, jobs, strict=True)}
    work = [
        (Message(cell.num_envs, size, act_size, cell.engine == COPY), cell.rate_hz)
        for cell, size in zip(cells, sizes, strict=True)
    ]
    return dict(zip(cells, measure_exchanges(setup.path, work, plan.effort), strict=True))


def _measure_transport(
    transport: Transport, cell: Cell, actions: NDArray[Any], effort: Effort, pid: int | None
) -> Measurement:
    first = transport.step(actions)
    _check_content(cell.engine, first.observations)
    start = first.seq
    if cell.rate_hz is None:
        found = closed_loop(transport.step, actions, effort, pid, lambda frame: frame.seq)
    else:
        n = max(5, int(effort.open_loop_s * cell.rate_hz))
        found = open_loop(transport.step, actions, cell.rate_hz, n, pid)
    last = transport.step(actions)
    _check_content(cell.engine, last.observations)
    _check_count(start, last.seq, found)
    return found


def _measure_env(env: VectorEnv, cell: Cell, actions: NDArray[Any], effort: Effort, pid: int | None) -> Measurement:
    env.reset(seed=0)
    start = env.transport.step(actions).seq if cell.engine in (IDLE, COPY) else None
    parts = env.batch_spec.action_parts
    given = unpack(actions, parts) if parts else actions
    found = closed_loop(env.step, given, effort, pid)
    observations, rewards, _, _, _ = env.step(given)
    _check_content(cell.engine, observations)
    if rewards.shape != (cell.num_envs,):
        raise RemoteProtocolError(f"rewards of shape {rewards.shape} from {cell.num_envs} envs")
    if start is not None:  # with an engine that ends no episode every step is one exchange
        _check_count(start, env.transport.step(actions).seq - 1, found)
    return found


def _check_count(start: int, last: int, found: Measurement) -> None:
    """The loop's steps and the one after it are all there are between the two frame numbers."""
    expected = found.samples_ns.size + found.warmup_ns.size + 1
    if last - start != expected:
        raise RemoteProtocolError(f"{last - start} frames for {expected} steps: exchanges were lost or doubled")


def _check_content(engine: str, observations: NDArray[Any]) -> None:
    if engine not in (IDLE, COPY):
        return
    expected = _PREPARED if engine == COPY else 0.0
    if not (observations == expected).all():
        raise RemoteProtocolError(f"observations of {engine} hold other values than {expected}: a frame was torn")
