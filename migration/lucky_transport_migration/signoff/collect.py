"""What there is to sign, at one moment: of each method its stage, what was compared, what differed, and the verdict.

A method is ready where the gate would let it move on, or where it is complete and was compared, and where nothing of it
differed since it was last sent back. What the gate says is what `lucky-transport gate` and `stage promote` say.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from lucky_transport.messages.method import is_pattern, matches
from lucky_transport_migration.bench.environment import capture, checkout
from lucky_transport_migration.catalogue.catalogue import OWN
from lucky_transport_migration.compare.difference import short
from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.lines import Program, read_programs
from lucky_transport_migration.evidence.record import ITSELF, Evidence, read_folder
from lucky_transport_migration.evidence.tally import refusals_text
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.gate_verdict import GateVerdict, judge
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.gate.method import difference_first, judge_method
from lucky_transport_migration.jsonl import Damage, moment
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages, Line, lines
from lucky_transport_migration.stages.evidence_window import count_evidence, counted_since
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.stage import Stage
from lucky_transport_migration.stages.stage_plan import StagePlan

_OF_DIFFERENCE = ("at", "kind", "stage", "aspect", "where", "sentence")
_NEVER_COMPARED = "it is complete, and no call of it was compared; `lucky-transport parity --evidence DIRECTORY` does"


def collect(pattern: str = "*", folder: Path | None = None, since: str = "", look: bool = False) -> dict[str, Any]:
    """Return what there is to sign of the methods that fit `pattern`, as JSON values.

    folder: of the evidence, by default that of the nearest lucky_transport.toml. since: the moment before which
    evidence is passed over. look: whether this counts as a look of the gate. Raises UnknownName where no method
    fits, ConfigError for a wrong file.
    """
    limits, plan, damage = Limits.load(), StagePlan.load(environ={}), Damage()
    plan = replace(plan, evidence=folder or plan.evidence)
    journal, fits = Journal(plan.evidence), partial(matches, pattern=pattern)
    standing = EffectiveStages(plan, journal.demotions())
    seen: dict[str, EvidenceSummary] = {}
    read, looks = _read(plan.evidence, since, limits.aa_days, damage, seen), Looks(plan.evidence)
    verdict = judge(read, limits, standing=standing, looks=looks, asked=lambda it: it == STEP or fits(it), is_look=look)
    known = list(lines(standing, count_evidence(plan.evidence, Damage()), pattern))
    if not known:
        plan.catalogue.find(pattern)  # says which are nearest
    scope = [one for one in known if _is_in_scope(one.method, standing, verdict, seen)]
    methods = [_method(one, standing, verdict, seen.get(one.method) or EvidenceSummary(), limits) for one in scope]
    rest = [one.method for one in known if one not in scope]
    moved = [name for name in rest if standing.placement(name).stage is not Stage.GRPC]
    programs, files = read_programs(plan.evidence, damage), plan.evidence.glob("calls-*.jsonl")
    return {
        "v": 1,
        "date": moment(time.time()),
        "word": "NOTHING SEEN" if not methods else "NOT READY" if any(one["reasons"] for one in methods) else "READY",
        "pattern": pattern,
        "since": since,
        "file": str(plan.path),
        "folder": str(plan.evidence),
        "commit": checkout(plan.path.parent),
        "methods": methods,
        "refused": refusals_text([one for name, one in seen.items() if fits(name)]),
        "on_grpc": {name: seen[name].calls for name in rest if name in seen},
        "itself": [one.method for one in known if one.method in seen and seen[one.method].unseen[ITSELF]],
        "never_seen": [name for name in moved if name not in OWN or OWN.keys() & seen],
        "sent_back": [
            {"at": one.moment, "method": one.method, "from": str(one.before), "to": str(one.to), "why": one.why}
            for one in journal.entries()
            if one.event == "demoted" and fits(one.method)
        ],
        "programs": _programs(programs),
        "unnamed": len({one.name for one in files} - {f"calls-{one.pid}.jsonl" for one in programs}),
        "limits": asdict(limits),
        "laxer": limits.laxer,
        "rules": ComparisonRules.load(plan.path.parent).declared,
        "may_turn_back": plan.owners,
        "damaged": damage.plain() | {"sentence": damage.sentence},
        "environment": capture(),
    }


def _read(folder: Path, since: str, days: int, damage: Damage, seen: dict[str, EvidenceSummary]) -> Iterator[Evidence]:
    """Yield what the gate judges; add to `seen` all since a demotion that is over, with what led to one in force."""
    counts, shows = counted_since(folder, days), counted_since(folder, days, to_show=True)
    for one in read_folder(folder, damage):
        if one.at >= max(since, shows(one.kind, one.method)):
            summary = seen.get(one.method) or seen.setdefault(one.method, EvidenceSummary(one.method))
            summary.add(one)
        if one.at >= max(since, counts(one.kind, one.method)):
            yield one


def _is_in_scope(name: str, standing: EffectiveStages, verdict: GateVerdict, seen: Container[str]) -> bool:
    """True for a method that the gate judges, and for one on its way that was seen or has a row of its own."""
    row = standing.plan.row(name)
    is_named = name in seen or (row is not None and not is_pattern(row))
    return name in verdict.methods or (is_named and standing.placement(name).stage is not Stage.GRPC)


def _method(
    line: Line, standing: EffectiveStages, verdict: GateVerdict, summary: EvidenceSummary, limits: Limits
) -> dict[str, Any]:
    """Return what there is to sign of one method, by all that was seen of it, the `summary`."""
    name, first, at = line.method, summary.first, standing.placement(line.method)
    judged, refusal = verdict.methods.get(name), verdict.refusal(name, standing)
    is_complete = at.stage is Stage.COMPLETE
    if is_complete:
        nothing = summary.unaccepted(name)
        reasons = [f"NOTHING COMPARED: {nothing}"] if nothing else [] if summary.compared else [_NEVER_COMPARED]
    else:
        reasons = verdict.reasons_of(name, standing)
    reasons = difference_first(summary, reasons)
    held, free = ("NOT READY", "COMPLETE") if is_complete else ("HELD BACK" if refusal else "NOT READY", "MAY MOVE")
    own = judge_method(summary, limits) if is_complete or judged is None else judged
    target = shlex.quote(STEP if name in STEPPING_PATH else name)
    return summary.plain() | {
        "method": name,
        "verdict": summary.word or (held if reasons else free),
        "reasons": reasons,
        "stage": line.stage,
        "next": "" if refusal else str(at.following),
        "by": line.by,
        "effect": line.effect,
        "why": line.reason,
        "first": first and _difference(first),
        "latency": [one.plain() for one in own.latency],
        "against": own.reasons if is_complete else [],
        "gate": judged.plain() if judged and not is_complete else None,
        "back": "" if at.stage is Stage.GRPC else f"lucky-transport stage demote {target} --why REASON",
    }


def _difference(one: Evidence) -> dict[str, Any]:
    """Return a difference; values are spelt as Python spells them."""
    values = {side: repr(short(it)) if isinstance(it, str) else short(repr(it)) for side, it in one.values.items()}
    return {name: getattr(one, name) for name in _OF_DIFFERENCE} | {"values": values}


def _programs(found: Sequence[Program]) -> list[dict[str, Any]]:
    """Return the programs with the number of their processes; those that are alike are one row."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        alike = one.command, one.commit, tuple(sorted(one.versions.items())), one.system
        row = rows.setdefault(alike, asdict(one) | {"command": list(one.command), "processes": 0})
        row |= {"processes": row["processes"] + 1, "last": one.at}
    return list(rows.values())
