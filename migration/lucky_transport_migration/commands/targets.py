"""What the project promises of commands, as the table that `bench --suite commands --check` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport_migration.targets import Target

__all__ = ["COMMAND_TARGETS"]

Result = Mapping[str, Any]
Measure = Callable[[Result], float | None]


def _times(**wanted: Any) -> Measure:
    """Return what reads the ratio of gRPC to shm of that kind; adaptive waits unless `wait` is given."""

    def measure(result: Result) -> float | None:
        keys: dict[str, Any] = {"of": "shm", "to": "grpc", "rate_hz": None, "what": "", "wait": "adaptive", **wanted}
        for one in result["ratios"]:
            if all(one[key] == value for key, value in keys.items()):
                return float(one["ratio"])
        return None

    return measure


def _images(reading: str) -> Measure:
    """Return what reads that ratio where the pictures were of the size that the promise is about."""
    times = _times(kind="images", what=reading)

    def measure(result: Result) -> float | None:
        size = result["options"]["width"], result["options"]["height"]
        return times(result) if size == (1280, 720) else None

    return measure


def _codec(direction: str) -> Measure:
    """Return what reads how many times protobuf's time our codec takes."""
    grpc_over_shm = _times(kind="codec", what=direction, wait=None)

    def measure(result: Result) -> float | None:
        found = grpc_over_shm(result)
        return None if found is None else 1 / found

    return measure


def _loss(result: Result) -> float | None:
    for row in result["rows"]:
        if (row["kind"], row["path"], row["wait"]) == ("training", "shm", "adaptive"):
            return float(row["loss_percent"])
    return None


def _at_least(name: str, goal: float, measure: Measure) -> Target:
    return Target(name, "times", "at least", lambda result: goal, measure)


def _at_most(name: str, unit: str, goal: float, measure: Measure) -> Target:
    return Target(name, unit, "at most", lambda result: goal, measure)


def _unary(place: str, **more: Any) -> Measure:
    return _times(kind="unary", what=place, **more)


COMMAND_TARGETS: tuple[Target, ...] = (
    _at_least("small typed call, inline, adaptive: gRPC over shm", 15, _unary("inline")),
    _at_least("small typed call, pool, adaptive: gRPC over shm", 15, _unary("pool")),
    _at_least("small typed call, inline, block: gRPC over shm", 4, _unary("inline", wait="block")),
    _at_least("small typed call, pool, block: gRPC over shm", 4, _unary("pool", wait="block")),
    _at_least("50 calls a second, inline: gRPC over shm", 15, _unary("inline", rate_hz=50)),
    _at_least("50 calls a second, pool: gRPC over shm", 2.5, _unary("pool", rate_hz=50)),
    _at_least("stream of 1 kB messages: gRPC over shm", 20, _times(kind="stream")),
    _at_least("1280x720 RGBA as views: gRPC over shm", 10, _images("view")),
    _at_least("1280x720 RGBA as copies: gRPC over shm", 8, _images("copy")),
    _at_most("training loop of 1 ms steps: rate lost beside two streams", "%", 5, _loss),
    _at_most("codec, to write a message: ours over protobuf", "times", 1.5, _codec("write")),
    _at_most("codec, to read a message: ours over protobuf", "times", 1.5, _codec("read")),
)
