"""Where the reference path does not win, as sentences: what a report must not leave out.

Every sentence comes from a row or a ratio of this run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lucky_transport_migration.bench.reading import cpu_each, group_title, is_of_steps
from lucky_transport_migration.bench.suites.steps import IDLE
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text, us_text

__all__ = ["STANDING_LIMITS", "glance_caption", "losses", "not_won", "tails_lost"]

Result = Mapping[str, Any]

#: True of every run, so said in every report.
STANDING_LIMITS = (
    "Shared memory needs client and engine on one host; gRPC does not.",
    "A CPU-bound Python thread in the client delays each step by up to one switch interval (5 ms by default) over "
    "every transport. Remedy: move that work into a process, or lower sys.setswitchinterval().",
)

#: Below the tables at a glance: what their engine does, and where like is compared with like.
_CAPTION = (
    "Times as long as the reference, and p50. The engine does nothing, so over shared memory no frame is copied; "
    "all others send theirs. Rows with an engine that copies its frame are among all rows."
)


def glance_caption(result: Result) -> list[str]:
    """Return what stands below the tables at a glance; nothing for an engine that computes."""
    return [_CAPTION] if result["engine"] == IDLE else []


def not_won(result: Result) -> list[Mapping[str, Any]]:
    """Return the comparisons that were lost or drawn; one without a verdict is neither."""
    return [one for one in result["ratios"] if one["word"] in ("SLOWER", "NO DIFFERENCE")]


def losses(result: Result) -> list[str]:
    """Return the sentences: comparisons lost or drawn, smaller gains at the users' own rate, CPU spent on waiting."""
    lost = [one["sentence"] for one in not_won(result)]
    tails = tails_lost(result["rows"], result["reference"]) if "parity" in result else ()
    found = [*lost, *tails, *_at_a_rate(result), *_cpu(result)]
    return found or ["Nothing measured in this run; see the standing limits below."]


def tails_lost(rows: Sequence[Mapping[str, Any]], reference: str) -> Iterator[str]:
    """Yield a sentence per row whose slowest steps are faster than those of the reference's row of its group."""
    ours = {group_title(row): row for row in rows if row["path"] == reference}
    for row in rows:
        mine = ours.get(group_title(row))
        if mine is None or row["path"] == "inproc" or "p50" in (mine["reliable_to"], row["reliable_to"]):
            continue
        if row["us"]["p99"] < mine["us"]["p99"]:
            yield (
                f"{group_title(row)}: at p99 it took {duration_text(row['us']['p99'])} over {label(row['path'])}, "
                f"{duration_text(mine['us']['p99'])} over {label(reference)}."
            )


def _at_a_rate(result: Result) -> Iterator[str]:
    """At a fixed rate both sides sleep between steps, and the wake-up is the same on every transport."""
    exchanges = [one for one in result["ratios"] if _exchange(one)]
    full = {(one["to"], one["num_envs"]): one for one in exchanges if one["rate_hz"] is None}
    for one in exchanges:
        flat_out = full.get((one["to"], one["num_envs"]))
        if not (one["rate_hz"] and one["word"] == "FASTER" and flat_out is not None):
            continue
        if one["ratio"] < flat_out["ratio"] / 1.5:
            yield (
                f"At {one['rate_hz']} steps a second the gain over {label(one['to'])} is {times_text(one['ratio'])} "
                f"times, not the {times_text(flat_out['ratio'])} of full rate: both processes sleep between steps."
            )


def _exchange(one: Mapping[str, Any]) -> bool:
    main = is_of_steps(one) and one["level"] == "transport" and one["engine"] != "toy:copy"
    return main and one["to"] not in (one["of"], "limit")


def _cpu(result: Result) -> Iterator[str]:
    """Rows in which the reference's two processes spend more CPU per step than another path's."""
    rows = [row for row in result["rows"] if is_of_steps(row) and row["actions"] == "copy"]
    for row in rows:
        total = _total(row)
        if row["path"] != result["reference"] or total is None:
            continue
        for other in rows:
            keys = ("level", "num_envs", "copy", "rate_hz", "engine", "frame_bytes")
            theirs = _total(other)
            if (
                other["path"] in (row["path"], "limit")
                or theirs is None
                or any(other.get(key) != row.get(key) for key in keys)
            ):
                continue
            if total > theirs * 1.1:
                yield (
                    f"{group_title(row)}: {_way(row)} spends {us_text(total)} µs of CPU per step, "
                    f"{label(other['path'])} {us_text(theirs)} µs."
                )


def _total(row: Mapping[str, Any]) -> float | None:
    client, engine = cpu_each(row)
    return None if client is None or engine is None else client + engine


def _way(row: Mapping[str, Any]) -> str:
    name = label(row["path"])
    return f"{name[:1].upper()}{name[1:]} ({row['wait']})" if row["wait"] else name
