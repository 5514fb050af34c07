"""What both reports say in the same words: how to read them, and on what machine they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.page import (
    Html,
    definitions,
    details,
    items,
    numbers,
    paragraph,
    section,
    table,
    word,
)
from lucky_transport_migration.bench.palette import look
from lucky_transport_migration.bench.stats import LEAST_COVERAGE
from lucky_transport_migration.bench.verdict import INCONCLUSIVE
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import times_text, us_text

__all__ = [
    "STANDING_LIMITS",
    "changes_section",
    "dot",
    "header",
    "interval_text",
    "machine",
    "measured_at",
    "reading",
    "targets_section",
    "verdict_box",
]

_GOOD = ("PASS", "FASTER", "MOSTLY FASTER")
_BAD = ("FAIL", "SLOWER", "NOT FASTER")

#: True of every run, so said in every report.
STANDING_LIMITS = (
    "Shared memory needs client and engine on one host; gRPC does not.",
    "A CPU-bound Python thread in the client delays each step by up to one switch interval (5 ms by default) over "
    "every transport. Remedy: move that work into a process, or lower sys.setswitchinterval().",
)


def header(title: str, result: Mapping[str, Any]) -> Html:
    """Return a page's title, how it was measured and when."""
    pairs = plural(result["rounds"], "round")
    text = f"{pairs} of fresh process pairs, in alternating order{measured_at(result)}"
    return Html(f"<header><h1>{escape(title)}</h1><p>{escape(text)}</p></header>")


def measured_at(result: Mapping[str, Any]) -> str:
    """Return when a result was measured, to be added to a sentence; "" for one that does not say."""
    date = result["environment"].get("date")
    return f"; measured {str(date).replace('T', ' ').replace('Z', ' UTC')}" if date else ""


def dot(path: str, name: str | None = None) -> Html:
    """Return the path's name, or the one given, behind a dot in its colour."""
    return Html(f'<i style="background:var(--{look(path).name})"></i>{escape(name or label(path))}')


def verdict_box(result: Mapping[str, Any], lead: str, big: Sequence[tuple[str, str]], lost: str) -> Html:
    """Return the first thing on a page: verdict, figures, what was not won, how many targets were met."""
    verdict = result["verdict"]
    sentence = Html(f"{_word(verdict['word'])} {escape(verdict['sentence'])}")
    if verdict["word"] == INCONCLUSIVE:
        return Html(f'<div class="verdict">{paragraph(sentence, "lead")}</div>')
    body = [paragraph(lead, "lead")] if lead else []
    body.append(paragraph(sentence))
    if big:
        body += [paragraph(f"Times longer than {label(result['reference'])}:", "note"), numbers(big)]
    body += [paragraph(sentence, "note") for sentence in (*verdict["beside"], *([lost] if lost else []))]
    if result.get("targets"):
        words = [one["word"] for one in result["targets"]]
        shown = ", ".join(f"{words.count(one)} {one}" for one in ("PASS", "FAIL", "NOT MEASURED") if one in words)
        body.append(paragraph(f"Targets: {shown}.", "note"))
    return Html(f'<div class="verdict">{"".join(body)}</div>')


def interval_text(one: Mapping[str, Any]) -> str:
    """Return a ratio's interval in brackets, "" where there were too few rounds for one."""
    known = one["coverage"] >= LEAST_COVERAGE if "coverage" in one else one.get("rounds") != 1
    return f"({times_text(one['low'])} to {times_text(one['high'])})" if known else ""


def _word(text: str) -> Html:
    return word(text, "good" if text in _GOOD else "bad" if text in _BAD else "open")


def targets_section(result: Mapping[str, Any]) -> list[Html]:
    """Return the targets of a result that was checked."""
    rows = [
        (
            one["name"],
            _word(one["word"]),
            "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}",
            f"{one['sense']} {one['goal']:,g} {one['unit']}",
        )
        for one in result.get("targets", ())
    ]
    return [section("Targets", table(("Target", "Outcome", "Measured", "Goal"), rows))] if rows else []


def changes_section(result: Mapping[str, Any]) -> list[Html]:
    """Return what changed since the run that the result was compared with."""
    found = result.get("changes")
    if found is None:
        return []
    moved = [one for one in found["rows"] if one["word"] != "NO DIFFERENCE"]
    rows = [
        (
            one["what"],
            _word(one["word"]),
            " ".join((times_text(one["ratio"]), interval_text(one))),
            us_text(one["before_us"]),
            us_text(one["now_us"]),
        )
        for one in moved
    ]
    heads = ("Row", "Now", "Times as long as before", "p50 µs before", "p50 µs now")
    body = [paragraph(found["sentence"]), *([table(heads, rows)] if rows else [])]
    notes = [f"The machines differ in {one}." for one in found["machine_differs"]]
    before = found["before"]
    notes.append(f"Before: {before['command']}" + (f", commit {before['git']}" if before["git"] else ""))
    if found["only_before"] or found["only_now"]:
        notes.append(f"Rows without a partner: {found['only_before']} before, {found['only_now']} now.")
    return [section("What changed", *body, items(notes))]


def reading(*texts: str) -> Html:
    """Return the closed part that explains the figures."""
    common = (
        "p50, p99, p99.9: half, 99 % and 99.9 % of the steps took at most so long. A dash stands where the sample is "
        "too small: p99 needs 500 steps, p99.9 needs 5,000, p99.99 needs 100,000.",
        "A ratio is the median of ratios taken inside one run, side by side; the range behind it holds the true one in "
        "at least 95 % of runs. Fewer than six rounds give none. Each ratio is judged alone.",
        "CPU per step counts all threads of a process, so work that overlaps with waiting is in it.",
    )
    return details("Understanding this report", items((*common, *texts)))


def machine(result: Mapping[str, Any], raw: Sequence[str] = ("bench.json", "bench.hlog")) -> list[Html]:
    """Return the closed parts with machine, versions, command and raw data; `raw` are files beside the page."""
    environment = dict(result["environment"])
    versions = environment.pop("versions", {})
    shown = {key.replace("_", " "): _value(value) for key, value in environment.items() if value is not None}
    command = Html(f"<pre><code>{escape(result['command'])}</code></pre>")
    links = " and ".join(f'<a href="{name}">{name}</a>' for name in raw)
    link = Html(f"All figures, with the histograms they come from: {links} beside this page.")
    return [
        details("Machine", definitions(shown)),
        details("Versions", definitions(versions)),
        details("Command and raw data", paragraph("Run again with:"), command, paragraph(link)),
    ]


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
