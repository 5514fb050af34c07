"""Where every method is at one moment: what the file of stages says and what the journal says since, together.

A demotion puts a method lower than its row does, never higher; the environment's override stands above both. The
stepping path moves as one: who resets must be who steps, because an engine has one driver. Its stage is that of
AgentService/Step, and a demotion of any of its methods is one of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lucky_transport.messages.method import is_pattern, matches
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.stages.journal import Demotion, Journal
from lucky_transport_migration.stages.stage import Placement
from lucky_transport_migration.stages.stage_plan import StagePlan

#: The method whose stage the stepping path has.
STEP = "/hazel.rpc.AgentService/Step"

#: Methods that only the driver of an engine may call, or that speak of its next step or reset.
STEPPING_PATH = frozenset(
    {
        STEP,
        "/hazel.rpc.AgentService/ResetAgent",
        "/hazel.rpc.AgentService/NegotiateTask",
        "/hazel.rpc.AgentService/SetActionGroup",
        "/hazel.rpc.AgentService/ReportProgress",
        "/lucky_transport.v1.BatchService/Attach",
        "/lucky_transport.v1.BatchService/Exchange",
        "/lucky_transport.v1.BatchService/GetSpec",
        "/lucky_transport.v1.BatchService/SetSeeds",
        "/lucky_transport.v1.BatchService/SetResetOptions",
    }
)


@dataclass(frozen=True, slots=True)
class EffectiveStages:
    """A plan, and the demotions in force by method."""

    plan: StagePlan
    demotions: Mapping[str, Demotion]

    @classmethod
    def load(cls, directory: Path | None = None, *, environ: Mapping[str, str] | None = None) -> EffectiveStages:
        """Return how things stand by the nearest file, and the journal in its folder; raises ConfigError."""
        plan = StagePlan.load(directory, environ=environ)
        return cls(plan, Journal(plan.evidence).demotions())

    @property
    def journal(self) -> Journal:
        """The journal that the demotions come from."""
        return Journal(self.plan.evidence)

    def placement(self, method: str) -> Placement:
        """Return where a method, given by its full name, is."""
        planned = self.plan.placement(STEP if method in STEPPING_PATH else method)
        demotion = self.demotion(method)
        return planned if demotion is None or self.plan.override is not None else min(planned, demotion.to)

    def demotion(self, method: str) -> Demotion | None:
        """Return the demotion that holds a method back, the lowest where there are several; None for none."""
        if method not in STEPPING_PATH:
            return self.demotions.get(method)
        found = [self.demotions[one] for one in STEPPING_PATH if one in self.demotions]
        return min(found, key=lambda demotion: demotion.to, default=None)

    def demoted_text(self, method: str) -> str:
        """Return where a demotion put a method, why, and what is left of its cool-down; "" for none."""
        demotion, left_s = self.demotion(method), self.cooling_s(method)
        cooling = f", in cool-down for {left_s:.0f} s more" if left_s else ""
        return f"demoted to {demotion.to} ({demotion.why}){cooling}" if demotion else ""

    def cooling_s(self, method: str) -> float:
        """Return for how many seconds a method may not be promoted, 0 when it may."""
        names = STEPPING_PATH if method in STEPPING_PATH else {method}
        return max((self.demotions[one].cooling_s() for one in names if one in self.demotions), default=0.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One method. by: what its stage comes from. cooling_s: what is left of a cool-down.

    seen: verdict -> calls, of those that count for its next move.
    """

    method: str
    effect: str
    reason: str
    stage: str
    by: str
    cooling_s: float = 0.0
    seen: dict[str, int] = field(default_factory=dict[str, int])

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def lines(standing: EffectiveStages, seen: Mapping[str, Counter[str]], pattern: str = "*") -> Iterator[Line]:
    """Yield the methods that fit `pattern`. seen: as `count_evidence` returns it."""
    plan = standing.plan
    for name in _known_names(standing, seen):
        if matches(name, pattern):
            method, stage = plan.catalogue.method(name), str(standing.placement(name))
            cooling_s, calls = standing.cooling_s(name), dict(seen.get(name, {}))
            yield Line(name, method.effect.value, method.reason, stage, _by(standing, name), cooling_s, calls)


def unused_rows(standing: EffectiveStages, seen: Iterable[str] = ()) -> list[str]:
    """Return the rows, of stages and of effects, that fit no method that is known or was seen."""
    names = _known_names(standing, seen)
    others = [name for name in names if name not in OWN]  # the effects of LuckyEngine's methods are fixed
    rows = dict.fromkeys(standing.plan.methods, names)
    rows |= {row: rows.get(row, others) for row in standing.plan.catalogue.declared}
    return [row for row, fitting in rows.items() if not any(matches(name, row) for name in fitting)]


def _known_names(standing: EffectiveStages, seen: Iterable[str]) -> list[str]:
    plan = standing.plan
    exact = (row for row in plan.methods if row.startswith("/") and not is_pattern(row))
    return list(dict.fromkeys([*(one.name for one in plan.catalogue), *exact, *standing.demotions, *seen]))


def _by(standing: EffectiveStages, name: str) -> str:
    plan, demotion = standing.plan, standing.demotion(name)
    if plan.override is not None:
        return "LUCKY_TRANSPORT"
    if demotion is not None and demotion.to < plan.placement(STEP if name in STEPPING_PATH else name):
        return f"demoted: {demotion.why}"
    if name in STEPPING_PATH and name != STEP:
        return "with AgentService/Step"
    return plan.row(name) or "default"
