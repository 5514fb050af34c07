"""The page of a bench of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.bench_summary import (
    CAPTION,
    BenchSummary,
    Seen,
    bench_summaries,
    is_again,
    name_of,
    rows_with_floor,
)
from lucky_transport_migration.bench.headline_ratios import (
    envs_text,
    grouped,
    headlines,
    is_main_group,
    is_plain,
    stands_for_its_path,
    times_shm,
)
from lucky_transport_migration.bench.page import Html, details, document, items, paragraph, section, table
from lucky_transport_migration.bench.report_charts import charts
from lucky_transport_migration.bench.report_parts import (
    STANDING_LIMITS,
    changes_section,
    dot,
    header,
    interval_text,
    machine,
    reading,
    targets_section,
    verdict_box,
)
from lucky_transport_migration.bench.slower_cases import losses
from lucky_transport_migration.bench.suites.steps import IDLE
from lucky_transport_migration.bench.tables import supported_us
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text, us_text

__all__ = ["bench_page"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]


def bench_page(result: Result) -> str:
    """Return the page of a bench's result."""
    title = f"Transports of {result['engine']}"
    parts = [
        header(title, result),
        _verdict(result),
        section("At a glance", *(_glance(one) for one in bench_summaries(result)), *_caption(result)),
        section("Charts", Html('<div class="charts">' + "".join(charts(result)) + "</div>")),
        section(f"Where {label(result['reference'])} does not win", items([*losses(result), *STANDING_LIMITS])),
        *changes_section(result),
        *targets_section(result),
        *_surroundings(result),
        section("All rows", *_tables(result)),
        section(
            "How this was done",
            details("All comparisons in words", items(one["sentence"] for one in result["ratios"])),
            reading(*result["notes"], *_floor_text(result)),
            *machine(result),
        ),
    ]
    return document(title, parts)


def _verdict(result: Result) -> Html:
    reference = result["reference"]
    rows = [row for row in result["rows"] if row["path"] == reference and is_plain(row, result)]
    lead = ", ".join(f"{duration_text(row['us']['p50'])} with {envs_text(row)}" for row in rows)
    big = [
        (f"{times_text(one['ratio'])}×", f"{label(one['to'])}, {envs_text(one)} {interval_text(one)}")
        for one in headlines(result)
    ]
    lost = [one for one in result["ratios"] if one["word"] != "FASTER" and one["to"] != "limit"]
    worst = min(lost, key=lambda one: one["ratio"], default=None)
    count = f"Not won: {len(lost)} of {plural(len(result['ratios']), 'comparison')}"
    return verdict_box(
        result,
        f"One exchange over {label(reference)} takes {lead} (p50)." if lead else "",
        big,
        "" if worst is None else f"{count}, by most here: {worst['sentence']}",
    )


def _glance(one: BenchSummary) -> Html:
    rows = [(dot(path, name), *(_seen(cell) for cell in cells)) for path, name, cells in one.rows]
    return table((one.title, *(f"Times, {size}" for size in one.sizes)), rows)


def _caption(result: Result) -> list[Html]:
    return [paragraph(CAPTION, "note")] if result["engine"] == IDLE else []


def _seen(cell: Seen | None) -> Html:
    if cell is None:
        return Html("–")
    times = "" if cell.times is None else f"<b>{times_text(cell.times)}×</b>"
    return Html(f"{times}<small>{duration_text(cell.p50_us)}</small>")


def _tables(result: Result) -> Iterator[Html]:
    """Yield the closed tables: first those that answer the first questions, then all others."""
    rows = rows_with_floor(result)
    main = [row for row in rows if is_main_group(row) and stands_for_its_path(row, result)]
    yield details("Exchanges and steps at full rate", _table(main, result))
    others = [row for row in rows if row not in main]
    if others:
        title = "In place, as views, at a fixed rate, other waits, with an engine that copies, larger frames"
        yield details(title, _table(others, result))


def _table(rows: Sequence[Row], result: Result) -> Html:
    heads = ("", "Times", "p50 µs", "p99", "p99.9", "p99.99", "CPU client", "CPU engine", "Rounds' p50", "Cores", "n")
    body: list[Sequence[Any] | str] = []
    for title, members in grouped(rows):
        body.append(title)
        body += [_cells(row, result) for row in members]
    return table(heads, body)


def _cells(row: Row, result: Result) -> Sequence[Any]:
    us, cpu = row["us"], row["cpu_us_per_step"]
    wait = f", {escape(row['wait'])}" if row["wait"] and row["path"] != "limit" else ""
    times = result["noise_floor"]["ratio"] if is_again(row, result) else times_shm(row, result)
    return (
        Html(dot(row["path"], name_of(row, result)) + wait),
        "" if times is None else times_text(times) if times != 1 else "1",
        us_text(us["p50"]),
        supported_us(row, "p99"),
        supported_us(row, "p999"),
        supported_us(row, "p9999"),
        *("–" if cpu[who] is None else us_text(cpu[who]) for who in ("client", "engine")),
        f"{us_text(us['p50_min'])}–{us_text(us['p50_max'])}",
        row["placement"] or "–",
        f"{row['n']:,}",
    )


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


def _floor_text(result: Result) -> list[str]:
    return [result["noise_floor"]["sentence"]] if result["noise_floor"] else []
