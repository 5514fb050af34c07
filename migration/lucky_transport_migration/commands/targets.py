"""What the project promises of commands, as the table that `bench --suite commands --check` prints."""

from __future__ import annotations

from typing import Any

from lucky_transport_migration.call_suite.targets import Measure, Result, at_least, at_most, times
from lucky_transport_migration.targets import SpeedTarget

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


def _in_place(result: Result) -> float | None:
    """Return the microseconds per picture where pictures were of the size that the promise is about."""
    if (result["options"]["width"], result["options"]["height"]) != (1280, 720):
        return None
    for row in result["rows"]:
        if (row["kind"], row["path"], row["wait"]) == ("in_place", "shm", "adaptive"):
            return float(row["us"]["p50"])
    return None


def _unary(place: str, **more: Any) -> Measure:
    return times(to="grpc", kind="unary", what=place, **more)


COMMAND_TARGETS: tuple[SpeedTarget, ...] = (
    at_least("small typed call, inline, adaptive: gRPC over shm", 15, _unary("inline")),
    at_least("small typed call, pool, adaptive: gRPC over shm", 15, _unary("pool")),
    at_least("small typed call, inline, block: gRPC over shm", 4, _unary("inline", wait="block")),
    at_least("small typed call, pool, block: gRPC over shm", 4, _unary("pool", wait="block")),
    at_least("50 calls a second, inline: gRPC over shm", 15, _unary("inline", rate_hz=50)),
    at_least("50 calls a second, pool: gRPC over shm", 2.5, _unary("pool", rate_hz=50)),
    at_least("stream of 1 kB messages: gRPC over shm", 20, times(to="grpc", kind="stream")),
    at_least("1280x720 RGBA as views: gRPC over shm", 10, _images("view")),
    at_least("1280x720 RGBA as copies: gRPC over shm", 8, _images("copy")),
    at_most("1280x720 RGBA rendered in place, over shm", "µs", 5, _in_place),
    at_most("training loop of 1 ms steps: rate lost beside two streams", "%", 5, _loss),
    at_most("codec, to write a message: ours over protobuf", "times", 1.5, _codec("write")),
    at_most("codec, to read a message: ours over protobuf", "times", 1.5, _codec("read")),
)
