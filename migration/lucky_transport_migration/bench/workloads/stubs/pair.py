"""A fresh pair of processes for one case, as the bench sees it: a job goes in, its outcome comes out.

Grpc and our channel are imported in the pair's processes alone, so no pair finds the threads of another. The waiting
strategy is set by environment, as a user of existing code sets it, and reaches both processes.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import TransportError
from lucky_transport.process import python_command
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.processes import run_client
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.suite import Case, Cell

_PROGRAM = "lucky_transport_migration.bench.workloads.stubs.client"
_PATIENCE_S = 90.0

#: What was measured, or why it could not be.
Outcome = dict[Cell, Measured] | TransportError


@dataclass(frozen=True, slots=True)
class Job:
    """A case to be measured, and how; `options` are those of the plan."""

    case: Case
    effort: Effort
    options: dict[str, Any]


def measure_pair(job: Job) -> dict[Cell, Measured]:
    """Return the measurements of the job's cells; its processes have ended when this returns.

    Raises MissingExtra, NotReachable when a process failed, RemoteProtocolError when an answer or item is not the one
    that was due, PeerTimeout when the pair takes far longer than it should.
    """
    done = program(python_command(_PROGRAM), job, stdin=pickle.dumps(job))
    outcome: Outcome = pickle.loads(done)
    if isinstance(outcome, TransportError):
        raise outcome
    return outcome


def program(command: list[str], job: Job, stdin: bytes = b"") -> bytes:
    """Run a client program of the job's case to its end and return what it wrote to stdout.

    Raises NotReachable with its last words when it fails, PeerTimeout when it takes far longer than it should.
    """
    limit_s = _PATIENCE_S + 100 * job.effort.budget_s
    return run_client([*environment(job), *command], str(job.case), limit_s, stdin)


def environment(job: Job) -> list[str]:
    """Return what stands before the command of a process of this job."""
    return ["env", f"LUCKY_WAIT={job.case.wait}"] if job.case.wait else []
