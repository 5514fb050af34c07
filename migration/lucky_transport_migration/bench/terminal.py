"""What a command prints for a person: a verdict, then tables.

The sentences come from the result, so the report and the JSON say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from lucky_transport_migration.bench.reading import columns, grouped, headlines, supported_us, way
from lucky_transport_migration.console import new_table, print_text
from lucky_transport_migration.units import duration_text, times_text, us_text

__all__ = ["show_bench", "show_demo", "without_histograms"]

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "NOT MEASURED": "dim", "FASTER": "green", "SLOWER": "red"}


def without_histograms(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without the encoded histograms, which only a file should hold."""
    return {key: _without(value) for key, value in result.items() if key != "hdr"}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_histograms(value)
    return [_without(one) for one in value] if isinstance(value, list) else value


def show_bench(result: Mapping[str, Any]) -> None:
    """Print a bench's verdict, rows, surroundings, targets, changes, noise and notes."""
    console = Console()
    verdict = result["verdict"]
    print_text(console, f"{verdict['word']}  {verdict['sentence']}", "bold")
    for sentence in (*verdict["beside"], *(one["sentence"] for one in headlines(result))):
        print_text(console, sentence)
    for title, rows in grouped(result["rows"]):
        heads, cells = columns(rows, result)
        table = new_table("", *heads, title=title)
        for row, one in zip(rows, cells, strict=True):
            table.add_row(way(row), *one)
        console.print(table)
    for row in result["surroundings"]:
        if row["suite"] == "idle":
            print_text(console, f"idle engine, {way(row)}: {row['cpu_percent']:.2f} % of one core")
        if row["suite"] == "threads":
            beside = "the machine alone" if row["path"] == "none" else way(row)
            print_text(console, f"other threads of the client, {beside}: p99 {us_text(row['us']['p99'])} µs late")
    _show_targets(console, result)
    if "changes" in result:
        print_text(console, result["changes"]["sentence"], "bold")
        for one in result["changes"]["rows"]:
            if one["word"] != "NO DIFFERENCE":
                print_text(console, one["sentence"], _STYLES.get(one["word"], "dim"))
        for one in result["changes"]["machine_differs"]:
            print_text(console, f"the machines differ in {one}", "yellow")
    if result["noise_floor"]:
        print_text(console, result["noise_floor"]["sentence"], "dim")
    for note in result["notes"]:
        print_text(console, note, "dim")


def _show_targets(console: Console, result: Mapping[str, Any]) -> None:
    """Print the targets of a result that was checked."""
    for one in result.get("targets", ()):
        measured = "" if one["measured"] is None else f"{one['measured']:,} {one['unit']}, "
        text = f"{one['word']}  {one['name']}: {measured}goal {one['sense']} {one['goal']:g} {one['unit']}"
        print_text(console, text, _STYLES.get(one["word"], "dim"))


def show_demo(result: Mapping[str, Any], page: str) -> None:
    """Print a demo's verdict and table; `page` is where its report lies."""
    console = Console()
    equal = result["parity"]["equal"]
    print_text(console, result["parity"]["sentence"], "bold green" if equal else "bold red")
    for sentence in result["verdict"]:
        print_text(console, sentence)
    table = new_table(
        "step over", "times", "p50 µs", "p99", "alone", "CPU c + e", title="per step; alone: without an engine"
    )
    for name, row in {"inproc": result["in_process"], **result["transports"]}.items():
        ratio = result["ratios"].get(name)
        cpu = [row["cpu_us_per_step"][who] for who in ("client", "engine")]
        us = {"us": row["step_us"], "reliable_to": row["reliable_to"]}
        table.add_row(
            name,
            "1" if ratio is None else times_text(ratio["ratio"]),
            us_text(row["step_us"]["p50"]),
            supported_us(us, "p99"),
            us_text(row["transport_us"]["p50"]),
            _cpu_text(cpu),
        )
    console.print(table)
    for sentence in result["limits"]:
        print_text(console, sentence, "dim")
    print_text(console, f"report: {page}")


def _cpu_text(client_and_engine: list[float | None]) -> str:
    """Return "client + engine", each in the unit that fits; an engine in the client's process has none of its own."""
    return " + ".join(duration_text(one) for one in client_and_engine if one is not None) or "–"
