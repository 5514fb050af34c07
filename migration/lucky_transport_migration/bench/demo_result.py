"""From a demo's measurements to its JSON: per transport, and what the switch buys.

`step_us` holds the engine's work, which is the same on every transport; `transport_us` is the same step with an engine
that does nothing. Both are shown, so that the one is not taken for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lucky_transport.errors import plural
from lucky_transport_migration.bench.histogram import Histogram
from lucky_transport_migration.bench.measuring import Measurement
from lucky_transport_migration.bench.rows import p50s_us, summary_us
from lucky_transport_migration.bench.stats import Interval, compare, percentile, ratio, supported
from lucky_transport_migration.parity.step_parity import Parity
from lucky_transport_migration.paths import label
from lucky_transport_migration.units import duration_text, times_text

__all__ = ["demo_result", "tail_losses"]

Blocks = Mapping[str, Sequence[Measurement]]


def demo_result(
    asked: Mapping[str, Any],
    parity: Parity,
    blocks: Blocks,
    alone: Mapping[str, Measurement],
    environment: dict[str, Any],
) -> dict[str, Any]:
    """Return the whole result as JSON values; each member's first block is its warm-up.

    `asked` holds command, engine, num_envs, steps and seed. `alone` is one measurement per path without an engine.
    """
    num_envs = asked["num_envs"]
    measured = {name: found[1:] for name, found in blocks.items()}
    transports = {
        name: _transport(measured[name], blocks[name][0], alone[name], num_envs)
        for name in measured
        if name != "inproc"
    }
    speedups = _speedups(measured)
    return {
        "version": 1,
        **asked,
        "parity": parity.plain() | {"sentence": parity.sentence},
        "transports": transports,
        "in_process": _transport(measured["inproc"], blocks["inproc"][0], alone["inproc"], num_envs),
        "speedup": {
            "step_p50": round(speedups["grpc"].mid, 3),
            "step_p50_low": round(speedups["grpc"].low, 3),
            "step_p50_high": round(speedups["grpc"].high, 3),
            "transport_p50": round(_p50_us(alone["grpc"]) / _p50_us(alone["shm"]), 3),
        },
        "ratios": {name: one.row() for name, one in speedups.items()},
        "verdict": _verdict(num_envs, measured, speedups, alone),
        "limits": [*_limits(measured, speedups), *tail_losses(transports)],
        "environment": environment,
    }


def _p50_us(measurement: Measurement) -> float:
    return percentile(measurement.samples_ns, 50.0) / 1e3


def _median(rounds: Sequence[Measurement]) -> float:
    return float(np.median(p50s_us(rounds)))


def _transport(rounds: Sequence[Measurement], warmup: Measurement, alone: Measurement, num_envs: int) -> dict[str, Any]:
    histogram = Histogram.of(one.samples_ns for one in rounds)
    us = summary_us(p50s_us(rounds), histogram)
    n = histogram.n
    engine = [one.engine_cpu_ns for one in rounds if one.engine_cpu_ns is not None]
    return {
        "step_us": us,
        "n": n,
        "reliable_to": supported(n)[-1],
        "env_steps_per_s": round(num_envs * 1e6 / us["p50"]),
        "transport_us": {"p50": round(_p50_us(alone), 3), "n": int(alone.samples_ns.size)},
        "cpu_us_per_step": {
            "client": round(sum(one.client_cpu_ns or 0 for one in rounds) / n / 1e3, 3),
            "engine": round(sum(engine) / n / 1e3, 3) if engine else None,
        },
        "warmup": {
            "n": int(warmup.samples_ns.size),
            "first_us": round(warmup.samples_ns[0] / 1e3, 3),
            "p50_us": round(_p50_us(warmup), 3),
        },
        "curve": histogram.curve(),
        "hdr": histogram.encoded(),
    }


def _speedups(measured: Blocks) -> dict[str, Interval]:
    """Return how many times longer a step takes over each other path than over shm, block by block."""
    shm = p50s_us(measured["shm"])
    return {name: ratio(p50s_us(found), shm) for name, found in measured.items() if name != "shm"}


def _verdict(
    num_envs: int, measured: Blocks, speedups: Mapping[str, Interval], alone: Mapping[str, Measurement]
) -> list[str]:
    """Return the sentences on what the switch buys, the most important first."""
    legacy, shm = _median(measured["grpc"]), _median(measured["shm"])
    envs = plural(num_envs, "env")
    bare = _p50_us(alone["grpc"]) / _p50_us(alone["shm"])
    return [
        f"A step of {envs} takes {duration_text(shm)} over shared memory "
        f"and {duration_text(legacy)} over legacy gRPC (p50).",
        _sentence("grpc", label("grpc"), speedups),
        _sentence("grpc-batch", label("grpc-batch"), speedups),
        f"The transport alone, with an engine that does nothing: {duration_text(_p50_us(alone['shm']))} against "
        f"{duration_text(_p50_us(alone['grpc']))}, a factor of {times_text(bare)}.",
    ]


def _sentence(name: str, other: str, speedups: Mapping[str, Interval]) -> str:
    sentence = compare(label("shm"), other, speedups[name]).sentence
    return sentence[:1].upper() + sentence[1:]


def _limits(measured: Blocks, speedups: Mapping[str, Interval]) -> list[str]:
    """Return the sentences on what shared memory does not change."""
    engine, shm = _median(measured["inproc"]), _median(measured["shm"])
    share = 100 * min(1.0, engine / shm)
    return [
        f"The engine's own work takes {duration_text(engine)} of a step (measured in one process), {share:.0f} % of a "
        "step over shared memory; no transport makes it faster.",
        f"{_sentence('inproc', 'the engine in the same process', speedups)} An engine that lives in the training "
        "process needs no transport.",
        "Shared memory needs client and engine on one host; gRPC does not.",
    ]


def tail_losses(transports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence per transport whose slowest steps are faster than those of shared memory."""
    ours = transports["shm"]
    for name, row in transports.items():
        supported_both = "p50" not in (ours["reliable_to"], row["reliable_to"])
        if supported_both and row["step_us"]["p99"] < ours["step_us"]["p99"]:
            yield (
                f"At p99 a step over {label(name)} took {duration_text(row['step_us']['p99'])}, "
                f"over shared memory {duration_text(ours['step_us']['p99'])}."
            )
