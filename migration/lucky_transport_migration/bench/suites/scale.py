"""What the suite of scale measures: how the cost of one pair grows with the number of pairs on this host.

    pairs      N engines, each with a client of its own that steps it 200 times a second
    clients    N clients that make typed calls of one engine, each 50 a second
    cycles     engines made, connected to, stepped and closed in one process, one after the other

A client is a process of its own. A case is one number over one way; all of its clients begin at once.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lucky_transport.errors import ConfigError, plural
from lucky_transport_migration.bench.plan import OPEN_LOOP_HZ, Case, Plan
from lucky_transport_migration.bench.suite import CallCell, CallSuite

__all__ = ["CALL_HZ", "SCALE", "STEP_HZ", "ScaleCell", "cases_of", "plan_of_scale"]

STEP_HZ, CALL_HZ = 200, OPEN_LOOP_HZ
_MOST, _PAIRS_A_CPU, _CYCLES = 64, 4, 500
#: Descriptors that the bench, or an engine with many clients, has open for each of them, with some to spare.
_DESCRIPTORS_EACH, _DESCRIPTORS = 10, 64


@dataclass(frozen=True, slots=True)
class ScaleCell(CallCell):
    """A row's key: `count` of what its kind says."""

    count: int = 1


SCALE = CallSuite(
    name="scale",
    title="Many pairs on one host",
    engine="toy",
    titles={
        "pairs": "{what}, 16 envs each, per step",
        "clients": "{what} of one engine, per typed call",
        "cycles": "{what} of an engine and its client, per cycle",
    },
)


def cases_of(plan: Plan) -> Iterator[Case]:
    """Yield the cases of one round. Over gRPC an env is stepped through the batch service."""
    for kind, rate, counts in (
        ("pairs", STEP_HZ, plan.options["pairs"]),
        ("clients", CALL_HZ, plan.options["pairs"]),
        ("cycles", None, [plan.options["cycles"]]),
    ):
        for count in counts:
            what = plural(count, kind.removesuffix("s"))
            for path in plan.paths:
                way = "grpc-batch" if (kind, path) == ("pairs", "grpc") else path
                yield Case(
                    way, plan.main_wait(path), (ScaleCell(kind, way, plan.main_wait(path), what, rate, count),), what
                )


def plan_of_scale(
    transports: Sequence[str],
    waits: Sequence[str] | None,
    *,
    rounds: int,
    quick: bool,
    pairs: Sequence[int] | None = None,
    cycles: int | None = None,
) -> Plan:
    """Return the plan of a command line; without `pairs` up to four a CPU, at most 64.

    Raises ConfigError for transports other than gRPC and shm, and for more pairs than this process has descriptors for.
    """
    if not set(transports) <= {"grpc", "shm"}:
        raise ConfigError(
            f"--between {','.join(transports)}: engines and clients of this suite are processes of their own",
            hint="write --between grpc,shm or one of the two",
        )
    most = min(_MOST, _PAIRS_A_CPU * len(os.sched_getaffinity(0)))
    pairs = pairs or ((1, 2) if quick else tuple(dict.fromkeys((1, most // 4, most))))
    allowed, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[0], _DESCRIPTORS + _DESCRIPTORS_EACH * max(pairs)
    if needed > allowed:
        fit = max(1, (allowed - _DESCRIPTORS) // _DESCRIPTORS_EACH)
        raise ConfigError(
            f"--pairs {max(pairs)} needs {needed} descriptors in one process, and this shell allows {allowed}",
            hint=f"run `ulimit -n {needed}` first, or write --pairs {fit}",
        )
    options = {"pairs": list(pairs), "cycles": cycles or (20 if quick else _CYCLES)}
    return Plan.of(transports, (waits or ("adaptive",))[:1], options, rounds=rounds, quick=quick)
