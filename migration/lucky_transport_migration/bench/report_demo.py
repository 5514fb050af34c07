"""The demo's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from lucky_transport.errors import plural
from lucky_transport_migration.bench.bench_page import dot, interval_text, machine, measured_at, reading
from lucky_transport_migration.bench.charts import cpu, percentiles
from lucky_transport_migration.bench.drawing import Chart
from lucky_transport_migration.bench.page import (
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
from lucky_transport_migration.bench.reading import supported_us
from lucky_transport_migration.bench.slower_cases import STANDING_LIMITS
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text, us_text

__all__ = ["demo_page"]

Result = Mapping[str, Any]


def demo_page(result: Result) -> str:
    """Return the page of a demo's result."""
    rows = _rows(result)
    envs, steps = plural(result["num_envs"], "env"), plural(result["steps"], "step")
    title = f"{result['engine']}: shared memory beside gRPC"
    parts = [
        Html(
            f"<header><h1>{escape(title)}</h1><p>{envs}, {steps}, seed {result['seed']}, "
            f"the same moves on every transport{escape(measured_at(result))}</p></header>"
        ),
        _verdict(result),
        section("Side by side", _table(result, rows)),
        section("Charts", Html('<div class="charts">' + "".join(map(figure, _charts(rows))) + "</div>")),
        section("Where shared memory does not win", items([*result["limits"], STANDING_LIMITS[1]])),
        section(
            "How this was done",
            _parity_details(result["parity"]),
            reading(
                "Steps run in blocks of 25 back to back; the blocks of the transports alternate (A B .., B A ..), "
                "and the interval comes from them.",
                "Transport alone: the same step, the same sizes, with an engine that does nothing.",
            ),
            *machine(result, "demo.json"),
        ),
    ]
    return document(title, parts)


def _rows(result: Result) -> dict[str, Mapping[str, Any]]:
    """Return path -> measurements, the fastest transport first and the engine in this process last."""
    order = sorted(result["transports"], key=lambda name: result["transports"][name]["step_us"]["p50"])
    return {name: result["transports"][name] for name in order} | {"inproc": result["in_process"]}


def _verdict(result: Result) -> Html:
    parity, speedup = result["parity"], result["speedup"]
    shm = result["transports"]["shm"]
    mark = word("EQUAL", "good") if parity["equal"] else word("DIFFERENT", "bad")
    _, _, rest = parity["sentence"].partition(": ")
    faster = f"faster step than legacy gRPC {interval_text(result['ratios']['grpc'])}".strip()
    body = "".join(
        [
            paragraph(result["verdict"][0], "lead"),
            paragraph(Html(f"{mark} {escape(rest[:1].upper() + rest[1:])}")),
            numbers(
                [
                    (
                        f"{times_text(speedup['step_p50'])}×",
                        faster,
                    ),
                    (f"{times_text(speedup['transport_p50'])}×", "for the transport alone"),
                    (duration_text(shm["step_us"]["p50"]), "p50 of a step over shared memory"),
                    (f"{shm['env_steps_per_s']:,}", "env steps a second over shared memory"),
                ]
            ),
            *(paragraph(sentence) for sentence in result["verdict"][2:]),
            paragraph(result["limits"][0], "note"),
        ]
    )
    return Html(f'<div class="verdict">{body}</div>')


def _table(result: Result, rows: Mapping[str, Mapping[str, Any]]) -> Html:
    heads = (
        "Step over",
        "Times shm",
        "p50 µs",
        "p99 µs",
        "Without engine µs",
        "CPU client µs",
        "CPU engine µs",
        "Env steps/s",
        "First step µs",
        "n",
    )
    return table(heads, [_cells(name, row, result["ratios"].get(name)) for name, row in rows.items()])


def _cells(name: str, row: Mapping[str, Any], ratio: Mapping[str, Any] | None) -> Sequence[Any]:
    us = {"us": row["step_us"], "reliable_to": row["reliable_to"]}
    cpu = row["cpu_us_per_step"]
    return (
        dot(name),
        "1" if ratio is None else f"{times_text(ratio['ratio'])} {interval_text(ratio)}".strip(),
        us_text(row["step_us"]["p50"]),
        supported_us(us, "p99"),
        us_text(row["transport_us"]["p50"]),
        us_text(cpu["client"]),
        "in client" if cpu["engine"] is None else us_text(cpu["engine"]),
        f"{row['env_steps_per_s']:,}",
        us_text(row["warmup"]["first_us"]),
        f"{row['n']:,}",
    )


def _charts(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Chart]:
    named = [{"path": path, **row} for path, row in rows.items()]
    yield percentiles(named, "Step latency by percentile", "Step latency")
    yield from cpu(named, "CPU per step, both processes")


def _parity_details(parity: Mapping[str, Any]) -> Html:
    heads = ("Mode", "Steps", "Values", "Resets all/one/some", "Terminated", "Truncated")
    rows = [
        (
            mode,
            f"{one['steps']:,}",
            f"{one['values']:,}",
            "/".join(str(one["resets"][kind]) for kind in ("all", "one", "some")),
            f"{one['terminations']:,}",
            f"{one['truncations']:,}",
        )
        for mode, one in parity["compared"]["modes"].items()
    ]
    between = ", ".join(label(name) for name in parity["between"])
    gaps = [f"{gap['what']}: {gap['why']}" for gap in parity["compared"]["not_compared"]]
    return details(
        "What was compared, and what was not",
        paragraph(f"Between {between}, after every move, bit for bit."),
        table(heads, rows),
        paragraph("Not compared:"),
        items(gaps),
    )
