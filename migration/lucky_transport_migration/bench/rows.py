"""From measurements to the rows of a bench's JSON.

P50 is the median of the rounds' p50 (with the lowest and highest round beside it); p99 and beyond come from all rounds'
samples together, because a tail needs all the samples there are. P50, p99 and p999 are always given, as nearest-rank
values of the sample; `reliable_to` says how far n supports them, and a table shows no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from lucky_transport_migration.bench.cells import Cell
from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.measuring import Measurement, Samples
from lucky_transport_migration.bench.stats import percentile, supported

__all__ = ["cpu_s", "idle_row", "p50s_us", "placement", "processes", "step_row", "summary_us", "threads_row"]


def p50s_us(rounds: Sequence[Measurement]) -> list[float]:
    """Return each round's p50 in microseconds."""
    return [percentile(one.samples_ns, 50.0) / 1e3 for one in rounds]


def summary_us(p50s: Sequence[float], histogram: Histogram) -> dict[str, float]:
    """Return the `us` of a row."""
    us = histogram.percentiles()
    us["p50"] = round(float(np.median(p50s)), 3)
    us["p50_min"], us["p50_max"] = round(min(p50s), 3), round(max(p50s), 3)
    return us


def step_row(cell: Cell, rounds: Sequence[Measurement]) -> dict[str, Any]:
    """Return the row of a cell."""
    histogram = Histogram.of(one.samples_ns for one in rounds)
    warmup = np.concatenate([one.warmup_ns for one in rounds])
    native = cell.path == "limit"
    return {
        "suite": "step",
        **asdict(cell),
        "peer": "native" if native else "python",
        "n": histogram.n,
        "rounds": len(rounds),
        "p50s": [round(one, 3) for one in p50s_us(rounds)],
        "us": summary_us(p50s_us(rounds), histogram),
        "reliable_to": supported(histogram.n)[-1],
        "cpu_s": cpu_s(rounds, native),
        "cpu_us_per_step": _cpu_us_per_step(rounds, native),
        "placement": placement(rounds),
        "rate_achieved": None if cell.rate_hz is None else all(one.rate_achieved for one in rounds),
        "warmup": {
            "n": int(warmup.size),
            "first_us": round(float(np.median([one.warmup_ns[0] for one in rounds])) / 1e3, 3),
            "p50_us": round(percentile(warmup, 50.0) / 1e3, 3),
        },
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
    }


class Processes(Protocol):
    """What every loop in one round says of the two processes."""

    client_cpu_ns: int
    engine_cpu_ns: int | None
    same_core: bool | None


def cpu_s(rounds: Sequence[Processes], native: bool = False) -> dict[str, float | None]:
    """Return the CPU seconds of both processes in all rounds, None where one has no process of its own."""
    engine = [one.engine_cpu_ns for one in rounds]
    known = [one for one in engine if one is not None]
    return {
        "client": None if native else round(sum(one.client_cpu_ns for one in rounds) / 1e9, 6),
        "engine": round(sum(known) / 1e9, 6) if len(known) == len(rounds) else None,
    }


def _cpu_us_per_step(rounds: Sequence[Measurement], native: bool) -> dict[str, float | None]:
    n = sum(one.samples_ns.size for one in rounds)
    return {who: None if s is None else round(s / n * 1e6, 3) for who, s in cpu_s(rounds, native).items()}


def processes(rounds: Sequence[Processes], n: int) -> dict[str, Any]:
    """Return the CPU time of both processes, whole and for each of `n` items, and on which cores they ran."""
    used = cpu_s(rounds)
    each = {who: None if seconds is None else round(seconds / n * 1e6, 3) for who, seconds in used.items()}
    return {"cpu_s": used, "cpu_us_each": each, "placement": placement(rounds)}


def placement(rounds: Sequence[Processes]) -> str | None:
    """Return where client and engine ran at the end of each round: on one core, on two, or some on either."""
    seen = {one.same_core for one in rounds} - {None}
    if not seen:
        return None
    return "mixed" if len(seen) == 2 else "one core" if True in seen else "two cores"


def idle_row(path: str, wait: str | None, percents: Sequence[float]) -> dict[str, Any]:
    """Return the row of an idle engine's CPU use."""
    return {
        "suite": "idle",
        "level": "transport",
        "path": path,
        "wait": wait,
        "num_envs": 1,
        "n": len(percents),
        "cpu_percent": round(float(np.median(percents)), 3),
        "cpu_percent_max": round(max(percents), 3),
    }


def threads_row(path: str, wait: str | None, rounds: Sequence[Samples]) -> dict[str, Any]:
    """Return the row of how late another Python thread of the client was; path "none" is the machine's own lateness."""
    histogram = Histogram.of(rounds)
    return {
        "suite": "threads",
        "level": "transport",
        "path": path,
        "wait": wait,
        "num_envs": 1,
        "n": histogram.n,
        "us": summary_us([percentile(one, 50.0) / 1e3 for one in rounds], histogram),
        "reliable_to": supported(histogram.n)[-1],
    }
