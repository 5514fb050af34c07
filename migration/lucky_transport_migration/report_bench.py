"""The bench's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport_migration import plots
from lucky_transport_migration.headlines import (
    envs_text,
    grouped,
    headlines,
    is_main_group,
    is_main_ratio,
    is_plain,
    times_shm,
)
from lucky_transport_migration.losses import losses
from lucky_transport_migration.page import (
    Html,
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
from lucky_transport_migration.paths import label
from lucky_transport_migration.report_parts import STANDING_LIMITS, dot, header, machine, reading
from lucky_transport_migration.stats import duration_text, times_text, us_text
from lucky_transport_migration.tables import supported_us

__all__ = ["bench_page", "targets_table"]

Result = Mapping[str, Any]
Row = Mapping[str, Any]

_KINDS = {"PASS": "good", "FAIL": "bad", "NOT MEASURED": "open"}


def bench_page(result: Result) -> str:
    """Return the page of a bench's result."""
    title = f"Transports of {result['engine']}"
    parts = [
        header(title, result["rounds"]),
        _verdict(result),
        *([section("Targets", targets_table(result["targets"]))] if result.get("targets") else []),
        section("Steps", *_tables(result)),
        section("Charts", Html('<div class="charts">' + "".join(_charts(result)) + "</div>")),
        *_surroundings(result),
        section(f"Where {label(result['reference'])} does not win", items([*losses(result), *STANDING_LIMITS])),
        section(
            "How this was done",
            details("All comparisons in words", items(one["sentence"] for one in result["ratios"])),
            reading(*result["notes"], *_floor_text(result)),
            *machine(result, "bench.json"),
        ),
    ]
    return document(title, parts)


def _verdict(result: Result) -> Html:
    reference = result["reference"]
    rows = [row for row in result["rows"] if row["path"] == reference and is_plain(row, result)]
    lead = ", ".join(f"{duration_text(row['us']['p50'])} with {envs_text(row)}" for row in rows)
    big = [
        (f"{times_text(one['ratio'])}×", f"{label(one['to'])}, {envs_text(one)} {_interval(one)}")
        for one in headlines(result)
    ]
    body: list[Html] = []
    if lead:
        body.append(paragraph(f"One exchange over {label(reference)} takes {lead} (p50).", "lead"))
    if big:
        body.append(paragraph("Times longer over:", "note"))
        body.append(numbers(big))
    lost = [one for one in result["ratios"] if one["word"] != "FASTER" and one["to"] != "limit"]
    if lost:
        worst = min(lost, key=lambda one: one["ratio"])
        count = f"Not won: {len(lost)} of {len(result['ratios'])} comparisons"
        body.append(paragraph(f"{count}, by most here: {worst['sentence']}", "note"))
    return Html(f'<div class="verdict">{"".join(body)}</div>')


def _interval(one: Mapping[str, Any]) -> str:
    return "" if one["rounds"] == 1 else f"({times_text(one['low'])} to {times_text(one['high'])})"


def targets_table(targets: Sequence[Mapping[str, Any]]) -> Html:
    """Return the table of a checked result's targets."""
    rows = [
        (
            one["name"],
            word(one["word"], _KINDS[one["word"]]),
            "–" if one["measured"] is None else f"{times_text(one['measured'])} {one['unit']}",
            f"{one['sense']} {one['goal']:,g} {one['unit']}",
        )
        for one in targets
    ]
    return table(("Target", "Outcome", "Measured", "Goal"), rows)


def _tables(result: Result) -> Iterator[Html]:
    """Yield the table of the first questions, then the closed one of all others."""
    rows = result["rows"]
    others = [row for row in rows if not is_main_group(row)]
    yield _table([row for row in rows if is_main_group(row)], result)
    if others:
        yield details("In place, as views, at a fixed rate, with an engine that copies", _table(others, result))


def _table(rows: Sequence[Row], result: Result) -> Html:
    heads = ("", "Times", "p50 µs", "p99", "p99.9", "p99.99", "CPU client", "CPU engine", "Rounds' p50", "Cores", "n")
    body: list[Sequence[Any] | str] = []
    for title, members in grouped(rows):
        body.append(title)
        body += [_cells(row, result) for row in members]
    return table(heads, body)


def _cells(row: Row, result: Result) -> Sequence[Any]:
    us, cpu = row["us"], row["cpu_us_per_step"]
    wait = f", {escape(row['wait'])}" if row["wait"] else ""
    times = times_shm(row, result)
    return (
        Html(dot(row["path"]) + wait),
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


def _charts(result: Result) -> Iterator[Html]:
    plain = [row for row in result["rows"] if is_plain(row, result)] or [row for row in result["rows"] if row["copy"]]
    sizes = sorted({row["num_envs"] for row in plain})
    curves = {row["path"]: row["curve"] for row in plain if row["num_envs"] == sizes[0]}
    yield figure(
        plots.percentile_curves(curves, "Latency of one exchange"),
        f"Latency by percentile, {sizes[0]:,} env{'s' if sizes[0] > 1 else ''}",
        "Logarithmic; lower is better. Drawn as far as the sample supports it.",
    )
    if len(sizes) > 1:
        series = {
            path: {row["num_envs"]: row["us"]["p50"] for row in plain if row["path"] == path}
            for path in dict.fromkeys(row["path"] for row in plain)
        }
        yield figure(
            plots.latency_by_envs(series, "p50 of one exchange"), "p50 by number of envs", "Both axes logarithmic."
        )
    cpu = {
        row["path"]: (row["cpu_us_per_step"]["client"], row["cpu_us_per_step"]["engine"])
        for row in plain
        if row["num_envs"] == sizes[0] and row["cpu_us_per_step"]["client"] is not None
    }
    yield figure(
        plots.two_sided_dots(cpu, "CPU time per exchange, client and engine"),
        f"CPU per exchange, both processes, {sizes[0]:,} env{'s' if sizes[0] > 1 else ''}",
        "Logarithmic. In a closed loop a waiting side that spins burns CPU as long as the step takes.",
    )
    ratios = [one for one in result["ratios"] if one["to"] != one["of"] and is_main_ratio(one)]
    points = [(one["to"], _ratio_text(one), one["ratio"], one["low"], one["high"]) for one in ratios]
    if points:
        floor = result["noise_floor"]["floor"] if result["noise_floor"] else 1.0
        yield figure(
            plots.ratio_intervals(points, floor, label(result["reference"])),
            "Ratios with their intervals",
            "Right of the line: slower than the reference. The band is what measuring the same thing twice gave (A/A).",
        )


def _ratio_text(one: Mapping[str, Any]) -> str:
    level = "" if one["level"] == "transport" else ", VectorEnv"
    name = f"limit ({one['to_wait']})" if one["to"] == "limit" else one["to"]
    return f"{name}, {one['num_envs']:,}{level}"


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
    floor = result["noise_floor"]
    if floor is None:
        return []
    return [
        f"Measured twice (A/A), {label(floor['path'])} differed from itself by a ratio of {times_text(floor['ratio'])} "
        f"({times_text(floor['low'])} to {times_text(floor['high'])}); smaller differences are called no difference."
    ]
