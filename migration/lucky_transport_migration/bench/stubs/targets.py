"""What the project promises of existing gRPC code, as the table that `bench --suite stubs --check` prints."""

from __future__ import annotations

from lucky_transport_migration.bench.call_suite.targets import Result, at_least, at_most, times
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["STUB_TARGETS"]


def _cpu_us(result: Result, path: str, wait: str | None) -> float | None:
    """Return the CPU time of both processes for one unary call with its handler in the pool."""
    for row in result["rows"]:
        if (row["kind"], row["what"], row["rate_hz"], row["path"], row["wait"]) == ("unary", "pool", None, path, wait):
            used = row["cpu_us_each"]
            return None if None in used.values() else sum(used.values())
    return None


def _cpu_share(result: Result) -> float | None:
    ours, theirs = _cpu_us(result, "shm", "adaptive"), _cpu_us(result, "grpc-tcp", None)
    return None if ours is None or not theirs else ours / theirs


STUB_TARGETS: tuple[SpeedTarget, ...] = (
    at_least("unary, pool, adaptive: gRPC over TCP over shm", 15, times(to="grpc-tcp", kind="unary", what="pool")),
    at_least(
        "unary, pool, adaptive: gRPC over a unix socket over shm", 12, times(to="grpc-unix", kind="unary", what="pool")
    ),
    at_least(
        "unary, pool, block: gRPC over TCP over shm", 4, times(to="grpc-tcp", kind="unary", what="pool", wait="block")
    ),
    at_least("server streaming of 1 kB messages: gRPC over TCP over shm", 20, times(to="grpc-tcp", kind="stream")),
    at_least("16 concurrent callers: gRPC over TCP over shm", 8, times(to="grpc-tcp", kind="callers")),
    at_most("CPU seconds per 10,000 calls, both processes: shm over gRPC over TCP", "times", 0.2, _cpu_share),
)
