"""The suite of systems, ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lucky_transport.errors import MissingExtra
from lucky_transport.registry import load
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.rows import Measured
from lucky_transport_migration.bench.run import PreparedSuite
from lucky_transport_migration.bench.suite import CallCell
from lucky_transport_migration.bench.suites.systems import SYSTEMS, System, SystemSetup, plan_of_systems, setups_of
from lucky_transport_migration.bench.workloads.systems.library import compiler

__all__ = ["OWNER", "missing_sides", "prepare"]

OWNER = "bench --suite systems"
_HERE = "lucky_transport_migration.bench.workloads.systems"
_NOTES = (
    "the C library's direct calls are those a Python host makes: actions copied in, libenv_act, libenv_observe",
    "the bare processes of Holodeck's row take turns by the same two semaphores, asleep while they wait, as the "
    "original does",
    "a session's row holds the worlds' own work (skirmish on the smallest map, written in Python) on either way",
    "the raw unix socket moves as many bytes as the pipe's lines and does nothing else",
    "both processes of a Holodeck or pipe row have a core of their own: on one core a ping-pong that sleeps is handed "
    "over several times faster, which no two programs that work can have",
)

#: Each side's package of its own -> the extra that brings it.
_NEEDED: dict[tuple[System, str], tuple[str, str]] = {
    ("holodeck", "holodeck"): (f"{_HERE}.semaphores:SemaphorePair", "holodeck"),
    ("holodeck", "semaphores"): (f"{_HERE}.semaphores:SemaphorePair", "holodeck"),
    ("sessions", "openra"): ("lucky_transport_openra.bridge_sessions:BridgeSessions", "openra"),
}


def prepare(transports: Sequence[str], waits: Sequence[str] | None, *, rounds: int, quick: bool) -> PreparedSuite:
    """Return the suite for a command line. A quick one has one round of short loops and few sessions.

    What cannot be measured here is left out and told in a note. Raises ConfigError for transports that are not of this
    suite. Running it raises what starting the engines raises, and RemoteProtocolError when an answer is not the one
    that was due.
    """
    plan = plan_of_systems(transports, waits, rounds=rounds, quick=quick)
    missing = missing_sides()
    setups = list(setups_of(plan, missing))
    notes = [*dict.fromkeys(missing.values()), *_NOTES]
    return PreparedSuite(SYSTEMS, plan, setups, lambda setup: measure_setup(setup, plan), notes=notes)


def missing_sides() -> dict[tuple[System, str], str]:
    """Return the sides that cannot be measured on this machine, each with the reason."""
    missing: dict[tuple[System, str], str] = {}
    if compiler() is None:
        missing |= {("libenv", path): "no C library: there is no C compiler" for path in ("shm", "direct")}
    for side, (target, extra) in _NEEDED.items():
        try:
            load(target, owner=OWNER, extra=extra)
        except MissingExtra as error:
            missing[side] = f"no {side[0]} over {side[1]}: {error}"
    return missing


def measure_setup(setup: SystemSetup, plan: Plan) -> Mapping[CallCell, Measured]:
    """Return the measurements of a setup's cells; its processes have ended when this returns."""
    measure = load(f"{_HERE}.{setup.system}:measure", owner=OWNER)
    found: Mapping[CallCell, Measured] = measure(setup, plan)
    return found
