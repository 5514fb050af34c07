"""The suite of stubs, ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.stubs import STUBS, StubSetup, plan_of_stubs, setups_of
from lucky_transport_migration.bench.workloads.stubs.pair import Job, measure_pair
from lucky_transport_migration.bench.workloads.stubs.programs import measure_echo, measure_training, why_no_training

__all__ = ["prepare"]

#: Setups in which whole programs are measured -> how.
_PROGRAMS = {"program": measure_echo, "training": measure_training}
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
    missing = why_no_training()
    setups = plan.with_twins(setups_of(plan, training=missing is None))
    notes = [*([missing] if missing else []), *_NOTES]
    return PreparedSuite(STUBS, plan, setups, lambda setup: measure_stubs(setup, plan), notes=notes)


def measure_stubs(setup: StubSetup, plan: Plan) -> Mapping[CallCell, Measured]:
    """Return the measurements of a setup's cells; its processes have ended when this returns."""
    job = Job(setup, plan.effort, plan.options)
    if setup.kind in _PROGRAMS:
        (cell,) = setup.cells()
        return {cell: _PROGRAMS[setup.kind](job)}
    return measure_pair(job)
