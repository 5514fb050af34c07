"""What the page to sign says, as sentences and tables: the same for HTML, Markdown and the terminal.

Equal results give equal bytes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from lucky_transport.errors import plural, printable
from lucky_transport.messages.method import short_name
from lucky_transport_migration.compare.difference import short
from lucky_transport_migration.evidence.tally import NEVER
from lucky_transport_migration.stages.effective_stages import STEPPING_PATH
from lucky_transport_migration.table import Table, escaped, render, tables, write_files
from lucky_transport_migration.units import duration_text, times_text

Result = Mapping[str, Any]

_MOST_ENTRIES = 20


def write_pages(result: Result, directory: Path) -> Path:
    """Write signoff.html, signoff.md and signoff.json into `directory` and return the page's path.

    Raises ConfigError when the directory cannot be written.
    """
    values = _shown(_contents(result))
    spelt: dict[str, Callable[[Any], Markup]] = {
        "text": lambda text: Markup(escaped(text)),
        "code": lambda text: Markup(f"`{text.replace('`', chr(39))}`"),
        "lines": lambda found: Markup("\n".join(tables(found))),
    }
    texts = {
        "signoff.html": render("signoff.html", **values),
        "signoff.md": render("signoff.md.jinja", **spelt, **values) + "\n",
        "signoff.json": json.dumps(result, indent=1, allow_nan=False) + "\n",
    }
    write_files(directory, texts)
    return directory / "signoff.html"


def _shown(value: Any) -> Any:
    """Return the value with each text in it as a page may have it."""
    if isinstance(value, Mapping):
        return {printable(name): _shown(one) for name, one in cast("Mapping[object, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in cast("list[Any]", value)]
    return printable(value) if isinstance(value, str) else value


def _contents(result: Result) -> dict[str, Any]:
    """Return what the page consists of, by the names that its templates have for it."""
    commit = f"commit {result['commit']}" if result["commit"] else "no git checkout"
    place = f"stages of {result['file']}, evidence in {result['folder']}"
    details = ((one, {name: said for name, said in _details(one) if said}) for one in result["methods"])
    return {
        "title": "Sign-off: from gRPC to shared memory",
        "result": result,
        "about": f"{_time(result['date'])}; {commit}; {place}",
        "lead": lead(result),
        "glance": glance(result),
        "methods": [(one["method"], one["verdict"], said, one["back"]) for one, said in details],
        "sections": [
            ("What was compared, and what was not", list(_not_looked_at(result))),
            ("Sent back on the way", _history(result)),
            ("Who may turn it back, and how", list(_way_back(result))),
        ],
        "programs": [(shlex.join(one["command"]), _program(one)) for one in result["programs"]],
    }


def lead(result: Result) -> list[str]:
    """Return what stands on top: whether it is ready, what that rests on, and what makes it worth less."""
    methods = result["methods"]
    found = [_verdict(result), _compared(result) if methods else "", result["refused"]]
    found.append(result["laxer"] and f"Limits laxer than the defaults: {', '.join(result['laxer'])}.")
    found.append(result["rules"] and f"Compared by the rules of [parity.fields]: {'; '.join(result['rules'])}.")
    found.append(result["since"] and f"Only what was seen since {_time(result['since'])}; stage promote counts all.")
    against = ", ".join(short_name(one["method"]) for one in methods if one["against"])
    found.append(against and f"Complete, though by what was seen the gate would hold back: {against}.")
    found.append(result["damaged"]["lines"] and f"{result['damaged']['sentence']}.")
    unseen = plural(len(result["never_seen"]), "more method")
    found.append(result["never_seen"] and f"{unseen} on the way were never seen: nothing is said of them.")
    return list(filter(None, found))


def _verdict(result: Result) -> str:
    methods, held = result["methods"], [one for one in result["methods"] if one["reasons"]]
    if not methods:
        return f"Of no method that is on its way from gRPC a call was seen in {result['folder']}."
    if held:
        worst = max(held, key=lambda one: one["mismatches"] + one["failures"])
        why = worst["reasons"][0].partition("; a rate of " if worst["first"] else "; ")[0]
        verb, name = "is" if len(held) == 1 else "are", short_name(worst["method"])
        return f"{len(held):,} of {plural(len(methods), 'method')} {verb} not ready; {name}: {short(why)}."
    complete = sum(one["verdict"] == "COMPLETE" for one in methods)
    moving = f"{len(methods) - complete:,} may move on" if complete < len(methods) else ""
    done = f"{plural(complete, 'is', 'are')} complete" if complete else ""
    shown = " and ".join(filter(None, [moving, done]))
    return f"Of {plural(len(methods), 'method')} on the way from gRPC {shown}; nothing differed."


def _compared(result: Result) -> str:
    calls, bad, failed = (sum(one[key] for one in result["methods"]) for key in ("compared", "mismatches", "failures"))
    moments = sorted(filter(None, (one[key] for one in result["methods"] for key in ("earliest", "latest"))))
    when = f", seen from {_time(moments[0])} to {_time(moments[-1])}" if moments else ""
    return f"{plural(calls, 'call')} compared{when}: {bad:,} differed, {failed:,} failed."


def glance(result: Result) -> list[Table]:
    """Return one table with a row for each method; none where there is no method."""
    heads = ("verdict", "stage", "compared", "differed or failed", "p50 gRPC", "p50 shm", "shm takes")
    return [Table("method", heads, list(map(_row, result["methods"])))] if result["methods"] else []


def _row(one: Result) -> tuple[str, ...]:
    name, stage, latency = printable(short_name(one["method"])), printable(one["stage"]), one["latency"]
    cells = (name, one["verdict"], stage, f"{one['compared']:,}", f"{one['mismatches'] + one['failures']:,}")
    middle = next((row for row in latency if row["percentile"] == "p50"), None)
    if middle is None:
        return (*cells, "–", "–", "–")
    ratio = f"{times_text(middle['times'])}× up to {times_text(middle['at_most'])}"
    return (*cells, duration_text(middle["control_us"]), duration_text(middle["candidate_us"]), ratio)


def _details(one: Result) -> Iterator[tuple[str, str | list[str]]]:
    """Yield what there is to know of a method, by what that is."""
    yield "not ready", one["reasons"]
    follows = f"stage promote moves it to {one['next']}" if one["next"] else "stage promote leaves it there"
    yield "stage", f"{one['stage']} ({one['by']}){'' if one['stage'] == 'complete' else f'; {follows}'}"
    yield "effect", f"{one['effect']}: {one['why']}"
    kinds = ", ".join(f"{calls:,} {kind}" for kind, calls in one["kinds"].items())
    between = f"; from {_time(one['earliest'])} to {_time(one['latest'])}" if one["earliest"] else ""
    yield "calls", f"{one['calls']:,}{kinds and f' ({kinds})'}{between}"
    compared = plural(one["compared"], "call")
    few = f" of {plural(one['distinct'], 'distinct accepted request')}" if one["distinct"] < one["compared"] else ""
    counts = f"{compared}{few}: {one['mismatches']:,} differed, {one['failures']:,} failed"
    yield "compared", list(filter(None, [counts, one["refused"]]))
    yield "first difference", _difference(one["first"])
    yield "the gate would hold it back", one["against"]
    told = (*one["reasons"], *one["against"])
    said = [row["sentence"] for row in one["latency"] if row["sentence"] not in told]
    yield "latency", said if one["latency"] else "too few calls were timed over both transports"
    whys = {row["why"]: f"{plural(row['calls'], 'call')}: {row['why']}" for row in one["not_compared"]}
    yield "not compared", [*whys.values(), *one["gaps"]]
    gaps = ((row["what"] + (row["why"] and f" ({row['why']})"), row["calls"]) for row in one["left_out"])
    yield "left out", [f"{what}, in {calls:,} of {plural(one['compared'], 'compared call')}" for what, calls in gaps]
    if (gate := one["gate"]) and gate["compared"]:
        bounds = f"mismatch rate at most {gate['mismatch_bound'] * 100:.3g} %"
        sure = f"each bound wrong with at most {gate['error'] * 100:.2g} % (look {gate['look']:,})"
        others = [what for what in gate["unjudged"] if what.partition(": ")[2] not in whys]
        yield "gate", [f"{bounds}; {sure}", *(f"not judged: {what}" for what in others)]


def _difference(first: Result | None) -> list[str]:
    if first is None:
        return []
    what = " at ".join(filter(None, (first["aspect"] or "answer", first["where"])))
    seen = f"{what}, {_time(first['at'])}, {first['kind']} at {first['stage'] or 'no stage'}"
    return [seen, *(f"{side}: {value}" for side, value in first["values"].items())]


def _not_looked_at(result: Result) -> Iterator[str]:
    """Yield what was compared of each call, and everything of which this page says nothing."""
    if looked_at := dict.fromkeys(what for one in result["methods"] for what in one["looked_at"]):
        yield f"Compared, unless the method says otherwise: {', '.join(looked_at)}."
        yield f"Of no live call: {NEVER}."
    if result["on_grpc"]:
        names = ", ".join(f"{short_name(name)} ({calls:,})" for name, calls in result["on_grpc"].items())
        yield f"Stays on gRPC, with the calls that were seen: {names}."
    if result["itself"]:
        names = ", ".join(map(short_name, result["itself"]))
        yield f"{names}: the server differs from itself in it, asked the same twice over gRPC."
    if result["never_seen"]:
        names = ", ".join(map(short_name, result["never_seen"]))
        yield f"On the way by a pattern or the default, and never seen: {names}."
    if result["pattern"] != "*":
        yield f"Methods that {result['pattern']!r} does not fit."
    if result["damaged"]["lines"]:
        yield f"{result['damaged']['sentence']}."


def _history(result: Result) -> list[str]:
    """Return the demotions, the latest first."""
    rows = [
        f"{_time(one['at'])}: {short_name(one['method'])} from {one['from']} to {one['to']}: {one['why']}"
        for one in reversed(result["sent_back"])
    ]
    more = len(rows) - _MOST_ENTRIES
    return rows[:_MOST_ENTRIES] + [f"{plural(more, 'earlier one')}."] * (more > 0)


def _program(one: Result) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
    when = _time(one["at"]) if one["last"] == one["at"] else f"{_time(one['at'])} to {_time(one['last'])}"
    commit = f"commit {one['commit']}" if one["commit"] else "no commit"
    return f"{plural(one['processes'], 'process', 'processes')}, {when}; {commit}; {versions}; {one['system']}"


def _way_back(result: Result) -> Iterator[str]:
    """Yield who may send a method back, and what does it by itself."""
    owners = " and ".join(result["may_turn_back"]) or "its owner"
    yield f"By hand: {owners}, with the command of the method, in the folder of {result['file']}."
    has_step = any(one["method"] in STEPPING_PATH for one in result["methods"])
    stepping = "; the stepping path changes its transport when a program starts" if has_step else ""
    yield f"A running program follows within a second{stepping}."
    yield (
        "The first live call at shadow, canary or shm that differs or fails sends its method back by itself."
        if result["limits"]["demote"]
        else "No method is sent back by itself: demote = false."
    )
    yield "For one program, from its start: LUCKY_TRANSPORT=grpc in its environment."


def _time(moment: str) -> str:
    return f"{moment[:19].replace('T', ' ')} UTC"
