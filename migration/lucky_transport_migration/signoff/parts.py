"""What the page to sign says, as sentences and tables: the same for HTML, Markdown and the terminal."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lucky_transport.errors import plural, printable
from lucky_transport.messages.names import short_name
from lucky_transport_migration.bench.parts import ReportTable
from lucky_transport_migration.compare.shown import short
from lucky_transport_migration.evidence.summary import NEVER
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["details", "glance", "history", "lead", "limits", "not_looked_at", "numbers", "programs", "way_back"]

Result = Mapping[str, Any]

_MOST_ENTRIES = 20


def lead(result: Result) -> list[str]:
    """Return at most three sentences: whether it is ready, what that rests on, and what does not count."""
    methods = result["methods"]
    return [_verdict(result), *([_compared(methods)] if methods else []), *filter(None, [_uncounted(result)])]


def _verdict(result: Result) -> str:
    methods, held = result["methods"], [one for one in result["methods"] if one["reasons"]]
    if not methods:
        return f"Of no method that is on its way from gRPC a call was seen in {result['folder']}."
    if held:
        worst = max(held, key=lambda one: one["different"] + one["failed"])
        why = worst["reasons"][0].partition(", the first: ")[0].partition("; ")[0]
        name = short_name(worst["method"])
        return f"{len(held):,} of {plural(len(methods), 'method')} may not move on yet; {name}: {short(why)}."
    words = Counter(one["verdict"] for one in methods)
    complete = f"{words['COMPLETE']:,} {'is' if words['COMPLETE'] == 1 else 'are'} complete"
    stands = {"MAY MOVE": f"{words['MAY MOVE']:,} may move on", "COMPLETE": complete}
    shown = " and ".join(text for word, text in stands.items() if words[word])
    return f"Of {plural(len(methods), 'method')} on the way from gRPC {shown}; nothing differed."


def _compared(methods: Sequence[Result]) -> str:
    calls, bad, failed = (sum(one[key] for one in methods) for key in ("compared", "different", "failed"))
    moments = sorted(filter(None, (one[key] for one in methods for key in ("earliest", "latest"))))
    when = f", seen from {_time(moments[0])} to {_time(moments[-1])}" if moments else ""
    return f"{plural(calls, 'call')} compared{when}: {bad:,} differed, {failed:,} failed."


def _uncounted(result: Result) -> str:
    damaged, unseen = result["damaged"]["sentence"], len(result["never_seen"])
    others = f"{plural(unseen, 'more method')} on the way were never seen: nothing is said of them." if unseen else ""
    return " ".join(filter(None, (damaged and f"{damaged}.", others)))


def numbers(result: Result) -> list[tuple[str, str]]:
    """Return what is counted over all methods, each with what it is."""
    methods = result["methods"]
    ready = sum(not one["reasons"] for one in methods)
    compared, bad, failed = (sum(one[key] for one in methods) for key in ("compared", "different", "failed"))
    return [
        (f"{ready:,} of {len(methods):,}", "methods ready"),
        (f"{compared:,}", "calls compared"),
        (f"{bad:,}", "differed"),
        (f"{failed:,}", "failed"),
    ]


def glance(result: Result) -> list[ReportTable]:
    """Return one table with a row for each method; none where there is no method."""
    heads = ("verdict", "stage", "compared", "differed or failed", "p50 gRPC", "p50 shm", "shm takes")
    rows = [
        (
            printable(short_name(one["method"])),
            one["verdict"],
            printable(one["stage"]),
            f"{one['compared']:,}",
            f"{one['different'] + one['failed']:,}",
            *_durations(one["latency"]),
        )
        for one in result["methods"]
    ]
    return [ReportTable("method", heads, rows)] if rows else []


def _durations(latency: Result | None) -> tuple[str, str, str]:
    if latency is None:
        return ("–", "–", "–")
    ratio = f"{times_text(latency['ratio'])}×{_interval(latency)}"
    return duration_text(latency["grpc_us"]), duration_text(latency["shm_us"]), ratio


def _interval(latency: Result) -> str:
    if latency["low"] is None:
        return ""
    return f" {times_text(latency['low'])} to {times_text(latency['high'])}"


def details(result: Result) -> list[tuple[Result, dict[str, str | list[str]]]]:
    """Return each method with what there is to know of it, by what that is."""
    return [(one, {name: _shown(said) for name, said in _details(one) if said}) for one in result["methods"]]


def _shown(said: str | list[str]) -> str | list[str]:
    return printable(said) if isinstance(said, str) else [printable(one) for one in said]


def _details(one: Result) -> Iterator[tuple[str, str | list[str]]]:
    yield "held back", list(one["reasons"])
    yield "stage", f"{one['stage']} (by {one['by']})"
    yield "effect", f"{one['effect']}: {one['why']}"
    kinds = ", ".join(f"{calls:,} {kind}" for kind, calls in one["kinds"].items())
    between = f"; from {_time(one['earliest'])} to {_time(one['latest'])}" if one["earliest"] else ""
    yield "calls", f"{one['calls']:,}{kinds and f' ({kinds})'}{between}"
    repeats = f" of {plural(one['distinct'], 'distinct request')}" if one["distinct"] < one["compared"] else ""
    counts = f"{one['different']:,} differed, {one['failed']:,} failed"
    yield "compared", [f"{plural(one['compared'], 'call')}{repeats}: {counts}", *filter(None, [one["refused"]])]
    yield "first difference", _difference(one["first"])
    yield "latency", _latency(one["latency"])
    yield "not compared", [f"{plural(row['calls'], 'call')}: {row['why']}" for row in one["not_compared"]]
    compared = plural(one["compared"], "compared call")
    gaps = ((row["what"] + (row["why"] and f" ({row['why']})"), row["calls"]) for row in one["left_out"])
    yield "left out", [f"{what}, in {calls:,} of {compared}" for what, calls in gaps]
    yield "gate", _gate(one)


def _difference(first: Result | None) -> list[str]:
    if first is None:
        return []
    what = " at ".join(filter(None, (first["aspect"] or "answer", first["where"])))
    values = (f"{side}: {value}" for side, value in first["values"].items())
    return [f"{what}, {_time(first['at'])}, {first['kind']} at {first['stage'] or 'no stage'}", *values]


def _latency(latency: Result | None) -> str:
    if latency is None:
        return "no call was timed over both transports"
    sides = f"p50 {duration_text(latency['grpc_us'])} over gRPC, {duration_text(latency['shm_us'])} over shared memory"
    pairs = plural(latency["pairs"], "pair")
    sure = f"{_interval(latency)} with {latency['confidence']:.0%}, {pairs} worth {latency['worth']:,} independent ones"
    known = sure if latency["low"] is not None else f" {pairs}, too few for an interval"
    return f"{sides}; in the middle pair {times_text(latency['ratio'])} times as long ({known.strip()})"


def _gate(one: Result) -> list[str]:
    gate = one["gate"]
    if gate is None:
        return ["not asked: complete is the last stage" if one["stage"] == "complete" else "no call to judge"]
    bound = f"{gate['mismatch_bound'] * 100:.3g} %"
    share = f"{gate['error'] * 100:.2g} %"
    word = "may move on" if gate["promote"] else "may not move on"
    judged = f"{word}: mismatch rate at most {bound}; each bound wrong with at most {share} (look {gate['look']:,})"
    return [judged, *(f"not judged: {what}" for what in gate["unjudged"])]


def not_looked_at(result: Result) -> list[str]:
    """Return what was compared of each call, and everything of which this page says nothing."""
    found = list[str]()
    if any(one["compared"] for one in result["methods"]):
        looked_at = ", ".join(dict.fromkeys(what for one in result["methods"] for what in one["looked_at"]))
        found.append(f"Compared, unless the method says otherwise: {looked_at}.")
        found.append(f"Of no live call: {NEVER}.")
    if result["on_grpc"]:
        names = ", ".join(f"{short_name(name)} ({calls:,})" for name, calls in result["on_grpc"].items())
        found.append(f"Stays on gRPC, with the calls that were seen: {names}.")
    if result["itself"]:
        names = ", ".join(map(short_name, result["itself"]))
        found.append(f"{names}: the server differs from itself in it, asked the same twice over gRPC.")
    if result["never_seen"]:
        names = map(short_name, result["never_seen"])
        found.append(f"On the way by a pattern or the default, and never seen: {', '.join(names)}.")
    if result["pattern"] != "*":
        found.append(f"Methods that {result['pattern']!r} does not fit.")
    if result["since"]:
        found.append(f"What was seen before {_time(result['since'])}.")
    found += [f"{result['damaged']['sentence']}."] if result["damaged"]["lines"] else []
    return list(map(printable, found))


def history(result: Result) -> list[str]:
    """Return the demotions, the latest first."""
    rows = result["sent_back"][::-1]
    shown = [
        f"{_time(one['at'])}: {short_name(one['method'])} from {one['from']} to {one['to']}: {one['why']}"
        for one in rows[:_MOST_ENTRIES]
    ]
    more = [f"{plural(len(rows) - _MOST_ENTRIES, 'earlier one')}."] if len(rows) > _MOST_ENTRIES else []
    return list(map(printable, shown + more))


def programs(result: Result) -> list[tuple[str, str]]:
    """Return the command line of each program that made evidence, and what is known of it."""
    return [(printable(shlex.join(one["command"])), printable(_program(one))) for one in result["programs"]]


def _program(one: Result) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
    when = _time(one["at"]) if one["last"] == one["at"] else f"{_time(one['at'])} to {_time(one['last'])}"
    commit = f"commit {one['commit']}" if one["commit"] else "no commit"
    return f"{plural(one['processes'], 'process', 'processes')}, {when}; {commit}; {versions}; {one['system']}"


def limits(result: Result) -> str:
    """Return what the gate asks for, as lucky_transport.toml spells it."""
    return "\n".join(["[gate]", *(f"{name} = {json.dumps(value)}" for name, value in result["limits"].items())])


def way_back(result: Result) -> list[str]:
    """Return who may send a method back, and what does it by itself."""
    owners = " and ".join(result["may_turn_back"])
    own = (
        "The first live call at shadow, canary or shm that differs or fails sends its method back by itself."
        if result["limits"]["demote"]
        else "No method is sent back by itself: demote = false."
    )
    found = [
        f"By hand: {owners or 'its owner'}, with the command of the method, in the folder of {result['file']}.",
        "A running program follows within a second; the stepping path changes its transport when a program starts.",
        own,
        "For one program, from its start: LUCKY_TRANSPORT=grpc in its environment.",
    ]
    return list(map(printable, found))


def _time(moment: str) -> str:
    return f"{moment[:19].replace('T', ' ')} UTC"
