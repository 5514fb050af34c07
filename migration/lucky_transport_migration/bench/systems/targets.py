"""What the project promises of the systems it serves, as the table that `bench --suite systems --check` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_transport_migration.bench.call_suite.targets import Measure, Result, at_least, at_most, times
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["SYSTEM_TARGETS"]

#: A promise about many sessions says nothing of few, as `--quick` has them.
_SESSIONS, _QUEUED, _PAUSE_S = 64, 1000, 2.0


def _row(result: Result, kind: str, path: str, **options: Any) -> Mapping[str, Any] | None:
    """Return the row of that kind and path, adaptive where it waits; None where the run had other `options`."""
    if any(result["options"][name] != value for name, value in options.items()):
        return None
    fits = (row for row in result["rows"] if (row["kind"], row["path"]) == (kind, path))
    return next((row for row in fits if row["wait"] in (None, "adaptive")), None)


def _column(name: str, kind: str, path: str, **options: Any) -> Measure:
    def measure(result: Result) -> float | None:
        row = _row(result, kind, path, **options)
        return None if row is None else float(row[name])

    return measure


def _p50(result: Result, kind: str, path: str) -> float | None:
    row = _row(result, kind, path)
    return None if row is None else float(row["us"]["p50"])


def _hosting(result: Result) -> float | None:
    hosted, direct = _p50(result, "library", "shm"), _p50(result, "library", "direct")
    return None if hosted is None or direct is None else hosted - direct


def _over_socket(result: Result) -> float | None:
    found = times(of="pipe", to="unix-socket", kind="action", wait=None)(result)
    return None if found is None else 1 / found


def _of_sessions(kind: str, to: str) -> Measure:
    """Return what reads how many times shm's time another way takes, where there were as many sessions as promised."""
    ratio = times(to=to, kind=kind)
    return lambda result: ratio(result) if result["options"]["sessions"] == _SESSIONS else None


SYSTEM_TARGETS: tuple[SpeedTarget, ...] = (
    at_most("C library of 64 envs hosted over shm, adaptive: what hosting adds to a step", "µs", 10, _hosting),
    at_least("64 sessions, created until ready: gRPC over shm", 5, _of_sessions("ready", "openra")),
    at_least("64 sessions, advanced by a tick: gRPC over shm", 5, _of_sessions("advance", "openra")),
    at_least("64 sessions running freely, ticks a second: shm over in-process", 0.8, _of_sessions("free", "inproc")),
    at_most(
        "reader that paused for 2 s over shm: behind the newest", "ticks", 0,
        _column("behind_ticks", "pause", "shm", pause_s=_PAUSE_S),
    ),
    at_most(
        "reader that paused for 2 s over gRPC: behind the newest", "ticks", 1,
        _column("behind_ticks", "pause", "openra", pause_s=_PAUSE_S),
    ),
    at_most("pipe, one action: over a raw unix socket", "times", 1.5, _over_socket),
    at_most("pipe, 16 sessions in step: an action", "µs", 50, lambda result: _p50(result, "slots", "pipe")),
    at_most(
        "pipe, 1,000 sessions queued over 16 slots: longest time without news", "ms", 100,
        _column("largest_gap_ms", "queue", "pipe", queued=_QUEUED),
    ),
)  # fmt: skip
