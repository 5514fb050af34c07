"""What there is to sign, at one moment: of each method its stage, what was compared, what differed, and the verdict.

A method is ready where the gate would let it move on, or where it is complete and was compared, and where nothing of it
differed since it was last sent back. What the gate says is what `lucky-transport gate` says, its looks are counted too.
"""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lucky_transport.errors import plural
from lucky_transport.found_file import describe_user
from lucky_transport.messages.names import is_pattern, matches
from lucky_transport_migration.bench.environment import capture, checkout
from lucky_transport_migration.compare.shown import short
from lucky_transport_migration.evidence.programs import Program, read_programs
from lucky_transport_migration.evidence.record import DIFFERENT, FAILED, ITSELF, Evidence, read_folder
from lucky_transport_migration.evidence.tally import refusals_text
from lucky_transport_migration.gate.evidence_summary import EvidenceSummary
from lucky_transport_migration.gate.gate_verdict import GateVerdict, judge
from lucky_transport_migration.gate.latency import Pairs
from lucky_transport_migration.gate.limits import Limits
from lucky_transport_migration.gate.looks import Looks
from lucky_transport_migration.jsonl import Damage, moment
from lucky_transport_migration.stages.effective_stages import STEP, STEPPING_PATH, EffectiveStages
from lucky_transport_migration.stages.evidence_window import counted_since
from lucky_transport_migration.stages.journal import Journal
from lucky_transport_migration.stages.overview import Line, lines
from lucky_transport_migration.stages.stage import Stage
from lucky_transport_migration.stages.stage_plan import StagePlan

__all__ = ["collect"]

_COMPLETE, _MAY_MOVE, _HELD_BACK = "COMPLETE", "MAY MOVE", "HELD BACK"

_UNSEEN = "no call of it was seen since its last move; run the program"
_NEVER_COMPARED = "it is complete, and no call of it was compared; `lucky-transport parity --evidence` does"


@dataclass(slots=True)
class _Seen:
    """What evidence shows of a method, see `_read`. first: the earliest difference."""

    summary: EvidenceSummary
    kinds: Counter[str] = field(default_factory=Counter[str])
    earliest: str = ""
    latest: str = ""
    first: Evidence | None = None

    def add(self, one: Evidence) -> None:
        self.summary.add(one)
        if one.kind == "aa":
            return
        self.kinds[one.kind] += 1
        self.earliest, self.latest = min(self.earliest or one.at, one.at), max(self.latest, one.at)
        if one.verdict in (DIFFERENT, FAILED) and (self.first is None or one.at < self.first.at):
            self.first = one


def collect(pattern: str = "*", folder: Path | None = None, since: str = "") -> dict[str, Any]:
    """Return what there is to sign of the methods that fit `pattern`, as JSON values.

    folder: of the evidence, by default that of the nearest lucky_transport.toml. since: the moment before which
    evidence is passed over. Raises UnknownName where no method fits, ConfigError for a wrong file.
    """
    limits, plan = Limits.load(), StagePlan.load(environ={})
    plan = replace(plan, evidence=folder or plan.evidence)
    journal, damage = Journal(plan.evidence), Damage()
    demotions = [one for one in journal.entries() if one.event == "demoted" and matches(one.method, pattern)]
    standing = EffectiveStages(plan, journal.demotions())
    seen: dict[str, _Seen] = {}
    read, asked = _read(plan.evidence, pattern, since, limits, damage, seen), partial(matches, pattern=pattern)
    verdict = judge(read, limits, standing=standing, looks=Looks(plan.evidence), asked=asked)
    known = list(lines(standing, pattern))
    if not known:
        plan.catalogue.find(pattern)  # says which are nearest
    scope = [one for one in known if _is_in_scope(one, standing, verdict, seen)]
    methods = [_method(one, standing, verdict, seen.get(one.method), limits) for one in scope]
    rest = [one for one in known if one not in scope]
    programs = read_programs(plan.evidence, damage)
    return {
        "v": 1,
        "date": moment(time.time()),
        "word": _word(methods),
        "pattern": pattern,
        "since": since,
        "file": str(plan.path),
        "folder": str(plan.evidence),
        "commit": checkout(plan.path.parent),
        "methods": methods,
        "on_grpc": {one.method: seen[one.method].summary.calls for one in rest if one.method in seen},
        "itself": [one.method for one in known if one.method in seen and seen[one.method].summary.unseen[ITSELF]],
        "never_seen": [one.method for one in rest if standing.placement(one.method).stage is not Stage.GRPC],
        "sent_back": list(map(_entry, demotions)),
        "programs": _programs(programs),
        "unnamed": _unnamed(plan.evidence, programs),
        "limits": asdict(limits),
        "may_turn_back": _owners(plan),
        "damaged": damage.plain() | {"sentence": damage.sentence},
        "environment": capture(),
    }


def _read(
    folder: Path, pattern: str, since: str, limits: Limits, damage: Damage, seen: dict[str, _Seen]
) -> Iterator[Evidence]:
    """Yield what the gate judges; add to `seen` all since a demotion that is over, with what led to one in force."""
    earliest, is_over = counted_since(folder, limits.aa_days), _demotions_over(folder)
    for one in read_folder(folder, damage):
        if one.at < since:
            continue
        shown_since = earliest("aa", one.method) if one.kind == "aa" else is_over.get(one.method, "")
        if one.at >= shown_since and matches(one.method, pattern):
            seen.setdefault(one.method, _Seen(EvidenceSummary(one.method))).add(one)
        if one.at >= earliest(one.kind, one.method):
            yield one


def _demotions_over(folder: Path) -> dict[str, str]:
    """Return the moment of the latest demotion that a promotion has ended, by method."""
    demoted, over = dict[str, str](), dict[str, str]()
    for entry in Journal(folder).entries():
        if entry.event == "demoted":
            demoted[entry.method] = entry.moment
        else:
            over[entry.method] = demoted.get(entry.method, "")
    return over


def _is_in_scope(line: Line, standing: EffectiveStages, verdict: GateVerdict, seen: Mapping[str, _Seen]) -> bool:
    """True for a method that the gate judges, and for one on its way that was seen or has a row of its own."""
    row = standing.plan.row(line.method)
    has_own_row = row is not None and not is_pattern(row)
    is_moved = standing.placement(line.method).stage is not Stage.GRPC
    return line.method in verdict.methods or (is_moved and (has_own_row or line.method in seen))


def _method(
    line: Line, standing: EffectiveStages, verdict: GateVerdict, seen: _Seen | None, limits: Limits
) -> dict[str, Any]:
    summary = seen.summary if seen else EvidenceSummary(line.method)
    judged = verdict.methods.get(line.method)
    is_complete = standing.placement(line.method).stage is Stage.COMPLETE
    if is_complete:
        nothing = summary.unaccepted(line.method)
        reasons = [] if summary.compared else [_NEVER_COMPARED]
        reasons += [f"NOTHING COMPARED: {nothing}"] if nothing else []
    else:
        reasons = [_UNSEEN] if judged is None else judged.reasons
    first = seen.first if seen else None
    if first is not None and not any(first.sentence in reason for reason in reasons):
        bad = f"{summary.bad:,} of {plural(summary.compared, 'compared call')} differed or failed"
        reasons = [f"{bad}, the first: {first.sentence}; after a fix, pass over them with --since", *reasons]
    return {
        "method": line.method,
        "verdict": _HELD_BACK if reasons else _COMPLETE if is_complete else _MAY_MOVE,
        "reasons": reasons,
        "stage": line.stage,
        "by": line.by,
        "effect": line.effect,
        "why": line.reason,
        "calls": summary.calls,
        "kinds": dict(seen.kinds) if seen else {},
        "earliest": seen.earliest if seen else "",
        "latest": seen.latest if seen else "",
        "compared": summary.compared,
        "distinct": summary.trials,
        "different": summary.verdicts[DIFFERENT],
        "failed": summary.verdicts[FAILED],
        "refused": refusals_text([summary]),
        "looked_at": dict(summary.looked_at),
        "first": first and _difference(first),
        "latency": _latency(summary.pairs, 1 - limits.confidence),
        "not_compared": [{"why": why, "calls": calls} for why, calls in summary.unseen.most_common()],
        "left_out": [
            {"what": what, "why": why, "calls": calls} for (what, why), calls in summary.left_out.most_common()
        ],
        "gate": None if judged is None or is_complete else judged.plain(),
        "back": _back(line, standing),
    }


def _difference(one: Evidence) -> dict[str, Any]:
    """Return a difference; values are spelt as Python spells them."""
    values = {side: short(repr(value)) for side, value in one.values.items()}
    place = {"at": one.at, "kind": one.kind, "stage": one.stage, "aspect": one.aspect, "where": one.where}
    return {**place, "values": values, "sentence": one.sentence}


def _latency(pairs: Pairs, error: float) -> dict[str, Any] | None:
    """Return the middle of both durations and of their ratio with its interval, None without timed pairs."""
    if not len(pairs):
        return None
    middle = pairs.latency(math.inf, "", 0.5)
    found = {"grpc_us": middle.control_us, "shm_us": middle.candidate_us, "ratio": middle.times}
    low, high = pairs.interval(error) or (None, None)
    found |= {"low": low, "high": high}
    if not all(math.isfinite(one) for one in found.values() if one is not None):
        return None
    return found | {"pairs": len(pairs), "worth": middle.worth, "confidence": 1 - error}


def _back(line: Line, standing: EffectiveStages) -> str:
    """Return the command that sends a method back, "" where gRPC answers and nothing else is asked."""
    if standing.placement(line.method).stage is Stage.GRPC:
        return ""
    name = STEP if line.method in STEPPING_PATH else line.method
    return f"lucky-transport stage demote {shlex.quote(name)} --why REASON"


def _word(methods: Sequence[Mapping[str, Any]]) -> str:
    if not methods:
        return "NOTHING SEEN"
    return "NOT READY" if any(one["reasons"] for one in methods) else "READY"


def _entry(one: Any) -> dict[str, str]:
    return {"at": one.moment, "method": one.method, "from": str(one.before), "to": str(one.to), "why": one.why}


def _programs(found: Sequence[Program]) -> list[dict[str, Any]]:
    """Return the programs with the number of their processes; those that are alike are one row."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        alike = one.command, one.commit, tuple(sorted(one.versions.items())), one.system
        row = rows.setdefault(alike, asdict(one) | {"command": list(one.command), "processes": 0})
        row["processes"] += 1
        row["last"] = one.at
    return list(rows.values())


def _unnamed(folder: Path, programs: Sequence[Program]) -> int:
    """Return how many files of evidence no program says that it wrote."""
    named = {f"calls-{one.pid}.jsonl" for one in programs}
    return sum(path.name not in named for path in folder.glob("calls-*.jsonl"))


def _owners(plan: StagePlan) -> list[str]:
    """Return the users that may write the file of stages and the evidence, root apart."""
    there = [path for path in (plan.path, plan.evidence) if path.exists()]
    return list(dict.fromkeys(describe_user(path.stat().st_uid) for path in there))
