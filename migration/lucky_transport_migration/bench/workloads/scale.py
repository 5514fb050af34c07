"""The suite of scale, ready to run: many client processes side by side, what they measured put together."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from lucky_transport.errors import plural
from lucky_transport.process import python_command
from lucky_transport_migration.bench.measuring import CpuTimer, Measurement
from lucky_transport_migration.bench.plan import Case, Plan
from lucky_transport_migration.bench.processes import ServerProcess
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suites.scale import SCALE, ScaleCell, cases_of, plan_of_scale
from lucky_transport_migration.paths import ConnectedEngine, find_path

__all__ = ["measure_scale", "memory_kib", "open_descriptors", "prepare"]

_PROGRAM = "lucky_transport_migration.bench.workloads.scale_program"


def prepare(
    paths: Sequence[str],
    waits: Sequence[str] | None,
    *,
    rounds: int,
    quick: bool,
    pairs: Sequence[int] | None = None,
    cycles: int | None = None,
) -> PreparedSuite:
    """Return the suite for a command line.

    Running it raises what starting the engines raises, NotReachable when a client fails.
    """
    plan = plan_of_scale(paths, waits, rounds=rounds, quick=quick, pairs=pairs, cycles=cycles)
    cpus, most = len(os.sched_getaffinity(0)), max(plan.options["pairs"])
    notes = [f"at most {plural(most, 'pair')} at once: this machine lends the bench {plural(cpus, 'CPU')}"]
    return PreparedSuite(SCALE, plan, plan.with_twins(cases_of(plan)), lambda case: measure_scale(case, plan), notes)


def measure_scale(case: Case, plan: Plan) -> dict[ScaleCell, Measurement]:
    """Return the measurement of a case's cell; all of its processes have ended when this returns."""
    cell: ScaleCell = case.cells[0]
    programs = 1 if cell.kind == "cycles" else cell.count
    seconds, endpoint, engine = plan.effort.open_loop_s, "", None
    with ExitStack() as stack:
        if cell.kind == "clients":
            link = stack.enter_context(ConnectedEngine(find_path(cell.path), "echo", 1, wait=cell.wait))
            endpoint, engine = link.endpoint, link.pid
        command = python_command(
            _PROGRAM, cell.kind, cell.path, cell.wait or "", str(seconds), endpoint, str(cell.count)
        )
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # a start computes
            starts = [pool.submit(ServerProcess, f"of {cell.what}", command) for _ in range(programs)]
        clients = [stack.enter_context(one.result()) for one in starts if one.exception() is None]
        for one in starts:
            one.result()  # raises what a start raised
        watch = CpuTimer(engine)
        for one in clients:
            one.say("begin")
        limit_s = plan.effort.patience_s + seconds + cell.count / 10
        found: list[Measurement] = [pickle.loads(base64.b64decode(one.line(limit_s))) for one in clients]
        engine_ns = watch.stop()[1] if engine else _sum([one.engine_cpu_ns for one in found])
        pids = {*(one.pid for one in clients), *(int(one.ready) for one in clients if one.ready), engine} - {None}
        beside = found[0].beside
        if cell.rate_hz:
            used = sum(one.client_cpu_ns or 0 for one in found) + (engine_ns or 0)
            took_s = found[0].samples_ns.size / cell.rate_hz
            beside = {
                "cpu_percent": used / took_s / cell.count / 1e7,
                "memory_mib": sum(memory_kib(pid) for pid in pids if pid) / cell.count / 1024,
                "descriptors": sum(open_descriptors(pid) for pid in pids if pid) / cell.count,
            }
        for one in clients:
            one.end()
    return {
        cell: Measurement(
            np.concatenate([one.samples_ns for one in found]),
            np.concatenate([one.warmup_ns for one in found]),
            _sum([one.client_cpu_ns for one in found]),
            engine_ns,
            rate_achieved=all(one.rate_achieved for one in found) if cell.rate_hz else None,
            looked_at=found[0].looked_at,
            beside=beside,
        )
    }


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [one for one in parts if one is not None]
    return sum(known) if len(known) == len(parts) else None


def memory_kib(pid: int) -> int:
    """Return the memory of a process in KiB, of what it shares with others its part (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise OSError(f"the kernel does not say the memory of process {pid}")


def open_descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
