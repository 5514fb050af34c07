"""What `lucky-transport stage show` shows: every method with its effect, its stage and what was seen of it.

Methods of the table come first, in its order; then others that rows, journal or evidence name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.messages.methods import METHODS
from lucky_transport_migration.compare.rule_keys import is_pattern
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.effects import reason
from lucky_transport_migration.stages.evidence_counts import EvidenceCounts
from lucky_transport_migration.stages.names import matches

__all__ = ["Line", "lines", "unused_rows"]


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


def lines(standing: EffectiveStages, pattern: str = "*", counts: EvidenceCounts | None = None) -> Iterator[Line]:
    """Yield the methods that fit `pattern`. counts: of an earlier look, for one that looks again.

    Raises ConfigError for evidence of another version.
    """
    seen = (counts or EvidenceCounts()).look(standing.plan.evidence)
    exact = (row for row in standing.plan.methods if row.startswith("/") and not is_pattern(row))
    for name in dict.fromkeys([*(row.name for row in METHODS), *exact, *standing.demotions, *seen]):
        if matches(name, pattern):
            effect, stage = standing.plan.effect(name).value, str(standing.placement(name))
            cooling_s, calls = standing.cooling_s(name), dict(seen.get(name, {}))
            yield Line(name, effect, reason(name), stage, _by(standing, name), cooling_s, calls)


def unused_rows(standing: EffectiveStages) -> list[str]:
    """Return the rows that fit no known method; such a row may be for a team's own service, or misspelt."""
    return [row for row in standing.plan.methods if not any(matches(one.name, row) for one in METHODS)]


def _by(standing: EffectiveStages, name: str) -> str:
    plan, demotion = standing.plan, standing.demotion(name)
    if plan.override is not None:
        return "LUCKY_TRANSPORT"
    if demotion is not None and demotion.to < plan.placement(STEP if name in STEPPING_PATH else name):
        return f"demoted: {demotion.why}"
    if name in STEPPING_PATH and name != STEP:
        return "with AgentService/Step"
    return plan.row(name) or "default"
