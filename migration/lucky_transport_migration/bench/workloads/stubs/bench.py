"""The suite of stubs, ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import Case, Cell, Plan
from lucky_transport_migration.bench.suites.stubs import STUBS, cases_of, plan_of_stubs
from lucky_transport_migration.bench.workloads.stubs.pair import Job, measure_pair
from lucky_transport_migration.bench.workloads.stubs.programs import measure_echo

__all__ = ["prepare"]

_NOTES = (
    "all ways have the same stub, servicer and loop, grpc's default options, and a pool of 16 threads at the server; "
    "calls carry no deadline",
    "a handler marked inline runs on the thread that reads the calls; to gRPC the mark means nothing",
    "CPU counts all threads of both processes, so also what spins or works while the caller waits",
)


def prepare(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops.

    Raises ConfigError for a transport that carries no stubs. Running it raises what starting a pair raises, and
    RemoteProtocolError when an answer or item was lost, doubled or torn.
    """
    plan = plan_of_stubs(transports, waits, rounds=rounds, quick=quick)
    cases = plan.with_twins(cases_of(plan))
    return PreparedSuite(STUBS, plan, cases, lambda case: measure_stubs(case, plan), notes=_NOTES)


def measure_stubs(case: Case, plan: Plan) -> Mapping[Cell, Measured]:
    """Return the measurements of a case's cells; its processes have ended when this returns."""
    job = Job(case, plan.effort, plan.options)
    if case.what == "program":
        (cell,) = case.cells
        return {cell: measure_echo(job)}
    return measure_pair(job)
