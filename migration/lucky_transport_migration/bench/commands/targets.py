"""What the project promises of commands, as the table that `bench --suite commands --check` prints."""

from __future__ import annotations

from typing import Any

from lucky_transport_migration.bench.call_suite.targets import Measure, Result, at_least, at_most, times
from lucky_transport_migration.bench.targets import SpeedTarget

__all__ = ["COMMAND_TARGETS"]


def _images(reading: str) -> Measure:
    """Return what reads that ratio where the pictures were of the size that the promise is about."""
    ratio = times(to="grpc", kind="images", what=reading)

    def measure(result: Result) -> float | None:
        size = result["options"]["width"], result["options"]["height"]
        return ratio(result) if size == (1280, 720) else None

    return measure


def _codec(direction: str) -> Measure:
    """Return what reads how many times protobuf's time our codec takes."""
    grpc_over_shm = times(to="grpc", kind="codec", what=direction, wait=None)

    def measure(result: Result) -> float | None:
        found = grpc_over_shm(result)
        return None if found is None else 1 / found

    return measure


def _loss(result: Result) -> float | None:
    for row in result["rows"]:
        if (row["kind"], row["path"], row["wait"]) == ("training", "shm", "adaptive"):
            return float(row["loss_percent"])
    return None


def _unary(place: str, **more: Any) -> Measure:
    return times(to="grpc", kind="unary", what=place, **more)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    at_least("small typed call, inline, adaptive: gRPC over shm", 15, _unary("inline")),
    at_least("small typed call, pool, adaptive: gRPC over shm", 15, _unary("pool")),
    at_least("small typed call, inline, block: gRPC over shm", 4, _unary("inline", wait="block")),
    at_least("small typed call, pool, block: gRPC over shm", 4, _unary("pool", wait="block")),
    at_least("stream of 1 kB messages: gRPC over shm", 20, times(to="grpc", kind="stream")),
    at_least("1280x720 RGBA as views: gRPC over shm", 10, _images("view")),
    at_least("1280x720 RGBA as copies: gRPC over shm", 8, _images("copy")),
    at_most("training loop of 1 ms steps: rate lost beside two streams", "%", 5, _loss),
    at_most("codec, to write a message: ours over protobuf", "times", 1.5, _codec("write")),
    at_most("codec, to read a message: ours over protobuf", "times", 1.5, _codec("read")),
)
