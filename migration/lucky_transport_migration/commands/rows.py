"""From measurements to the rows of the suite's JSON.

Rule 1: `us` holds p50 in every row: of a call's latency, of a stream's time per item, of the codec's time per message;
        so any two rows of one kind can be compared. Percentiles beyond p50 are those of single calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lucky_transport_migration.commands.cells import CommandCell
from lucky_transport_migration.commands.flow import Flow
from lucky_transport_migration.commands.rounds import Measured
from lucky_transport_migration.commands.training import Training
from lucky_transport_migration.histogram import Histogram
from lucky_transport_migration.measuring import Measurement, Samples
from lucky_transport_migration.rows import cpu_s, placement, summary_us
from lucky_transport_migration.stats import percentile, supported

__all__ = ["command_row", "typical_us"]


def typical_us(one: Measured | Samples) -> float:
    """Return a round's figure in microseconds: p50 of its calls, or the mean time of a step or an item."""
    if isinstance(one, Flow):
        return one.us_each
    if isinstance(one, Training):
        return 1e6 / one.beside_hz
    return percentile(one.samples_ns if isinstance(one, Measurement) else one, 50.0) / 1e3


def command_row(cell: CommandCell, rounds: Sequence[Any]) -> dict[str, Any]:
    """Return the row of a cell; `rounds` holds measurements of one kind."""
    typical = [typical_us(one) for one in rounds]
    row: dict[str, Any] = {"suite": "commands", **asdict(cell), "rounds": len(rounds)}
    if isinstance(rounds[0], Training):
        return row | _training(rounds, typical)
    if isinstance(rounds[0], Flow):
        return row | _flow(rounds, typical)
    samples = [one.samples_ns if isinstance(one, Measurement) else one for one in rounds]
    histogram = Histogram.of(samples)
    row |= {
        "n": histogram.n,
        "us": summary_us(typical, histogram),
        "reliable_to": supported(histogram.n)[-1],
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
    }
    if isinstance(rounds[0], Measurement):
        row |= _processes(rounds, histogram.n)
        row["rate_achieved"] = None if cell.rate_hz is None else all(one.rate_achieved for one in rounds)
        row["warmup"] = {"n": sum(one.warmup_ns.size for one in rounds)}
    return row


def _plain_us(typical: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.median(typical)), 3),
        "p50_min": round(min(typical), 3),
        "p50_max": round(max(typical), 3),
    }


def _processes(rounds: Sequence[Any], n: int) -> dict[str, Any]:
    """Return the CPU time of both processes, whole and per item, and on which cores they ran."""
    used = cpu_s(rounds)
    each = {who: None if seconds is None else round(seconds / n * 1e6, 3) for who, seconds in used.items()}
    return {"cpu_s": used, "cpu_us_each": each, "placement": placement(rounds)}


def _flow(rounds: Sequence[Flow], typical: Sequence[float]) -> dict[str, Any]:
    n = sum(one.n for one in rounds)
    return {
        "n": n,
        "us": _plain_us(typical),
        "reliable_to": "p50",
        "per_s": round(1e6 / float(np.median(typical)), 1),
        "skipped": sum(one.skipped for one in rounds),
        **_processes(rounds, n),
    }


def _training(rounds: Sequence[Training], typical: Sequence[float]) -> dict[str, Any]:
    def median(name: str) -> float:
        return round(float(np.median([getattr(one, name) for one in rounds])), 3)

    return {
        "n": sum(one.n for one in rounds),
        "us": _plain_us(typical),
        "reliable_to": "p50",
        "alone_per_s": median("alone_hz"),
        "per_s": median("beside_hz"),
        "loss_percent": median("loss_percent"),
        "loss_percent_max": round(max(one.loss_percent for one in rounds), 3),
        "telemetry_per_s": median("telemetry_hz"),
        "camera_per_s": median("camera_hz"),
    }
