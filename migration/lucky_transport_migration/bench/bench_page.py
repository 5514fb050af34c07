"""The page of a bench: verdict, figures at a glance, charts, where shared memory does not win, how it was done.

A page is a function of the result alone, so equal results give equal bytes and an old JSON can be drawn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.charts import charts
from lucky_transport_migration.bench.drawing import look
from lucky_transport_migration.bench.page import (
    Html,
    definitions,
    details,
    document,
    figure,
    items,
    numbers,
    paragraph,
    section,
    table,
    word,
)
from lucky_transport_migration.bench.reading import (
    Seen,
    Summary,
    columns,
    envs_text,
    grouped,
    headlines,
    is_main_group,
    is_of_steps,
    is_plain,
    name_of,
    page_title,
    rows_with_floor,
    stands_for_its_path,
    summaries,
    supported_us,
)
from lucky_transport_migration.bench.slower_cases import STANDING_LIMITS, glance_caption, losses, not_won
from lucky_transport_migration.bench.stats import LEAST_COVERAGE
from lucky_transport_migration.bench.verdict import INCONCLUSIVE
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text, us_text

__all__ = ["bench_page", "dot", "header", "interval_text", "machine", "measured_at", "reading", "verdict_box"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_GOOD = ("PASS", "FASTER", "MOSTLY FASTER")
_BAD = ("FAIL", "SLOWER", "NOT FASTER")


def bench_page(result: Result) -> str:
    """Return the page of a bench's result."""
    title = page_title(result)
    floor = [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
    parts = [
        header(title, result),
        _verdict(result),
        *_glance(result),
        section("Charts", Html('<div class="charts">' + "".join(map(figure, charts(result))) + "</div>")),
        section(f"Where {label(result['reference'])} does not win", items([*losses(result), *STANDING_LIMITS])),
        *changes_section(result),
        *targets_section(result),
        *_surroundings(result),
        *_all_rows(result),
        section(
            "How this was done",
            details("All comparisons in words", items(one["sentence"] for one in result["ratios"])),
            reading(*result["notes"], *floor),
            *machine(result),
        ),
    ]
    return document(title, parts)


def _verdict(result: Result) -> Html:
    reference = result["reference"]
    rows = [row for row in result["rows"] if row["path"] == reference and is_plain(row, result)]
    lead = ", ".join(f"{duration_text(row['us']['p50'])} with {envs_text(row)}" for row in rows)
    big = [
        (f"{times_text(one['ratio'])}×", f"{label(one['to'])}, {_what(one)} {interval_text(one)}".strip())
        for one in headlines(result)
        if one.get("main", True)
    ]
    lost = [one for one in not_won(result) if one["to"] != "limit"]
    worst = min(lost, key=lambda one: one["ratio"], default=None)
    count = f"Not won: {len(lost)} of {plural(len(result['ratios']), 'comparison')}"
    return verdict_box(
        result,
        f"One exchange over {label(reference)} takes {lead} (p50)." if lead else "",
        big,
        "" if worst is None else f"{count}, by most here: {worst['sentence']}",
    )


def _what(one: Row) -> str:
    return envs_text(one) if is_of_steps(one) else str(one["title"])


def _glance(result: Result) -> Iterator[Html]:
    """Yield the first table: of steps the batch sizes side by side, of calls all rows."""
    shown = list(summaries(result))
    if not all(map(is_of_steps, result["rows"])):
        yield section("Rows", _table(rows_with_floor(result), result))
    elif shown:
        captions = [paragraph(one, "note") for one in glance_caption(result)]
        yield section("At a glance", *(_sizes(one) for one in shown), *captions)


def _sizes(one: Summary) -> Html:
    rows = [(dot(path, name), *map(_seen, cells)) for path, name, cells in one.rows]
    return table((one.title, *(f"Times, {size}" for size in one.sizes)), rows)


def _seen(cell: Seen | None) -> Html:
    if cell is None:
        return Html("–")
    times = "" if cell.times is None else f"<b>{times_text(cell.times)}×</b>"
    return Html(f"{times}<small>{duration_text(cell.p50_us)}</small>")


def _all_rows(result: Result) -> Iterator[Html]:
    """Yield the closed tables of steps: first those that answer the first questions, then all others."""
    if not all(map(is_of_steps, result["rows"])):
        return
    rows = rows_with_floor(result)
    main = [row for row in rows if is_main_group(row) and stands_for_its_path(row, result)]
    tables = [details("Exchanges and steps at full rate", _table(main, result))]
    others = [row for row in rows if row not in main]
    if others:
        title = "In place, as views, at a fixed rate, other waits, with an engine that copies, larger frames"
        tables.append(details(title, _table(others, result)))
    yield section("All rows", *tables)


def _table(rows: Sequence[Row], result: Result) -> Html:
    ordered = [row for _, members in grouped(rows) for row in members]
    heads, cells = columns(ordered, result, detailed=True)
    told = iter(cells)
    body: list[Sequence[Any] | str] = []
    for title, members in grouped(rows):
        body.append(title)
        for row in members:
            wait = f", {escape(row['wait'])}" if row["wait"] and row["path"] != "limit" else ""
            body.append((Html(dot(row["path"], name_of(row, result)) + wait), *next(told)))
    return table(("", *heads), body)


def _surroundings(result: Result) -> Iterator[Html]:
    """Yield the part on an idle engine and on the client's other threads."""
    rows: list[Sequence[Any]] = []
    for row in result["surroundings"]:
        name = "the machine alone" if row["path"] == "none" else label(row["path"])
        way = f"{name} ({row['wait']})" if row["wait"] else name
        if row["suite"] == "idle":
            rows.append(("Idle engine, CPU", way, f"{row['cpu_percent']:.2f} % of a core", f"{row['n']}"))
        else:
            late = f"p50 {us_text(row['us']['p50'])} µs, p99 {supported_us(row, 'p99')} µs"
            rows.append(("Other Python threads of a waiting client, late by", way, late, f"{row['n']:,}"))
    if rows:
        yield section("What it costs its surroundings", table(("", "Over", "Measured", "n"), rows))


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
    return Html(f'<i style="background:{look(path)["color"]}"></i>{escape(name or label(path))}')


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
        shown = ", ".join(f"{words.count(one)} {one}" for one in dict.fromkeys(words))
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


def machine(result: Mapping[str, Any], raw: str = "bench.json") -> list[Html]:
    """Return the closed parts with machine, versions, command and raw data; `raw` is a file beside the page."""
    environment = dict(result["environment"])
    versions = environment.pop("versions", {})
    shown = {key.replace("_", " "): _value(value) for key, value in environment.items() if value is not None}
    command = Html(f"<pre><code>{escape(result['command'])}</code></pre>")
    link = Html(f'All figures, with the histograms they come from: <a href="{raw}">{raw}</a> beside this page.')
    return [
        details("Machine", definitions(shown)),
        details("Versions", definitions(versions)),
        details("Command and raw data", paragraph("Run again with:"), command, paragraph(link)),
    ]


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
