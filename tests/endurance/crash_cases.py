"""The cases of the crash matrix: which points a process comes to, what it meets there, and what was found."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from tests.endurance import fault_native, kit_builds
from tests.endurance.children import client_process
from tests.endurance.engine_pool import EnginePool
from tests.endurance.fault_points import DEEDS, Fault
from tests.endurance.workloads import engine_of

#: What is done with the engine meanwhile: kinds of `workloads`.
KINDS = ("steps", "calls", "streams", "images", "sessions")
_ROUNDS = 3
#: A point is met at one of its first times.
_LATEST = 4

Victim = Literal["client", "engine"]
Lane = Literal["segment", "listener"]
LANES: tuple[Lane, ...] = ("segment", "listener")


@dataclass(frozen=True, slots=True)
class Reached:
    """A point that a process comes to. phase: of an engine's life ("start", "work" or "end"); a client has none."""

    victim: Victim
    kind: str
    lane: Lane
    point: str
    count: int
    phase: str = "work"


@dataclass(frozen=True, slots=True)
class CrashCase:
    """A fault of a process that works at `reached`. lane: over the segment's rings, or those that a listener gave."""

    reached: Reached
    fault: Fault

    def __str__(self) -> str:
        one = self.reached
        return f"{one.victim} {self.fault.deed} at {one.point} ({self.fault.nth}.), {one.kind}, {one.lane}"


@dataclass(slots=True)
class CrashReport:
    """What was found. noticed_s: how long it took each survivor that had something to notice, by kind and victim.

    not_met: cases whose fault no try came to, though the work went on; they are in no other number.
    """

    cases: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    noticed_s: dict[tuple[str, str], list[float]] = field(default_factory=dict[tuple[str, str], list[float]])
    failures: list[tuple[CrashCase, str]] = field(default_factory=list[tuple[CrashCase, str]])
    not_met: list[CrashCase] = field(default_factory=list[CrashCase])
    left: list[str] = field(default_factory=list[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    played_again: int = 0

    def add(self, other: CrashReport) -> None:
        """Add what another run found."""
        self.cases.update(other.cases)
        self.errors.update(other.errors)
        self.failures += other.failures
        self.not_met += other.not_met
        self.left += other.left
        self.played_again += other.played_again
        for title, seconds in other.noticed_s.items():
            self.noticed_s.setdefault(title, []).extend(seconds)


def record(engines: EnginePool, kind: str, lane: Lane) -> Generator[Reached]:
    """Have both sides work once without a fault and yield which points they come to, and how often."""
    engine = engine_of(kind)
    endpoint = engines.endpoint(engine)
    engines.retire(engine, killed=True)  # so that the next one has something to remove
    with ExitStack() as stack:
        served = engines.victim(engine, records=True)
        stack.callback(served.end)
        served.expect("ready")
        if lane == "listener":
            stack.enter_context(engines.driven(engine))
        client = engines.child(client_process, kind, endpoint, {}, None, True)
        stack.callback(client.end)
        for _ in range(_ROUNDS):
            client.expect("round")
        client.tell(None)
        points: Counter[str] = client.expect("points")
        served.tell(None)
        phases: dict[str, Counter[str]] = served.expect("points")
    for point, count in sorted(points.items()):
        yield Reached("client", kind, lane, point, count)
    earlier: set[str] = set()
    for phase, seen in phases.items():
        for point, count in sorted(seen.items()):
            if point not in earlier:
                yield Reached("engine", kind, lane, point, count, phase)
        earlier.update(seen)


def cases_of(reached: Iterable[Reached], deeds: Iterable[str], rng: random.Random) -> list[CrashCase]:
    """Return the cases of these points: points in C or of a kit with every kind of work over both kinds of rings, the
    others once. What is not played in every way, and which time a point is met, is drawn.
    """
    kept: dict[object, Reached] = {}
    points = list(reached)
    in_c = {*fault_native.POINTS, *itertools.chain(*kit_builds.KIT_POINTS.values())}
    for one in rng.sample(points, len(points)):
        if one.point in in_c:
            kept[one] = one
        else:
            kept.setdefault((one.victim, one.point, one.phase), one)
    return [CrashCase(one, Fault(one.point, _time(one, rng), deed)) for one in kept.values() for deed in deeds or DEEDS]


def _time(reached: Reached, rng: random.Random) -> int:
    return 1 if reached.phase == "end" else rng.randint(1, min(reached.count, _LATEST))
