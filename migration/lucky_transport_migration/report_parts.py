"""What both reports say in the same words: how to read them, and on what machine they were made."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from lucky_transport_migration.page import Html, definitions, details, items, paragraph
from lucky_transport_migration.palette import look
from lucky_transport_migration.paths import label

__all__ = ["STANDING_LIMITS", "dot", "header", "machine", "reading"]

#: True of every run, so said in every report.
STANDING_LIMITS = (
    "Shared memory needs client and engine on one host; gRPC does not.",
    "A CPU-bound Python thread in the client delays each step by up to one switch interval (5 ms by default) over "
    "every transport. Remedy: move that work into a process, or lower sys.setswitchinterval().",
)


def header(title: str, rounds: int) -> Html:
    """Return a page's title and how it was measured."""
    pairs = "1 round" if rounds == 1 else f"{rounds} rounds"
    return Html(f"<header><h1>{escape(title)}</h1><p>{pairs} of fresh process pairs, in alternating order</p></header>")


def dot(path: str) -> Html:
    """Return the path's name behind a dot in its colour."""
    return Html(f'<i style="background:var(--{look(path).name})"></i>{escape(label(path))}')


def reading(*texts: str) -> Html:
    """Return the closed part that explains the figures."""
    common = (
        "p50, p99, p99.9: half, 99 % and 99.9 % of the steps took at most so long. A dash stands where the sample is "
        "too small: p99 needs 500 steps, p99.9 needs 5,000, p99.99 needs 100,000.",
        "A ratio is the median of ratios taken inside one run, side by side; the range behind it is its 95 % interval.",
        "CPU per step counts all threads of a process, so work that overlaps with waiting is in it.",
    )
    return details("Understanding this report", items((*common, *texts)))


def machine(result: Mapping[str, Any], raw: str) -> list[Html]:
    """Return the closed parts with machine, versions, command and raw data."""
    environment = dict(result["environment"])
    versions = environment.pop("versions", {})
    shown = {key.replace("_", " "): _value(value) for key, value in environment.items() if value is not None}
    command = Html(f"<pre><code>{_escaped(result['command'])}</code></pre>")
    link = Html(f'All figures, with the histograms they come from: <a href="{raw}">{raw}</a> beside this page.')
    return [
        details("Machine", definitions(shown)),
        details("Versions", definitions(versions)),
        details("Command and raw data", paragraph("Run again with:"), command, paragraph(link)),
    ]


def _escaped(text: str) -> str:
    return escape(text)


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
