"""What `lucky-transport stage show` shows: every method with its effect, its stage and what was seen of it.

LuckyEngine's methods come first, then those of services whose description is known, then what rows, journal or evidence
name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lucky_transport.messages.names import is_pattern, matches
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages


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
