"""Where every method is at one moment: what the file of stages says and what the journal says since, together.

A demotion puts a method lower than its row does, never higher; the environment's override stands above both. The
stepping path moves as one: who resets must be who steps, because an engine has one driver. Its stage is that of
AgentService/Step, and a demotion of any of its methods is one of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
