"""Timing what flows: streams of messages and of pictures, their contents checked while they are timed.

Rule 1: the clock starts after a tenth of the time, when buffers are warm and the stream runs at its rate.
Rule 2: a lost, doubled, torn or stale item ends the measurement with an error; pictures may be skipped, messages not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_transport.engines.echo import shade
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.services import Client
from lucky_transport.transport import Stream
from lucky_transport_migration.measuring import Effort, Watch

__all__ = ["Flow", "measure_images", "measure_messages"]

_MOST_ITEMS = 4_000_000_000


@dataclass(slots=True)
class Flow:
    """One stream in one round: `n` items in `took_ns`, `skipped` on the way; CPU as in Measurement."""

    n: int
    took_ns: int
    skipped: int
    client_cpu_ns: int
    engine_cpu_ns: int | None
    same_core: bool | None

    @property
    def us_each(self) -> float:
        """Microseconds per item."""
        return self.took_ns / self.n / 1e3


def measure_messages(client: Client, item_bytes: int, effort: Effort, pid: int | None) -> Flow:
    """Return the flow of a stream that must not skip anything."""
    expected = 0

    def check(item: Any) -> None:
        nonlocal expected
        if item.slot_id != expected or len(item.name) != item_bytes:
            raise RemoteProtocolError(
                f"item {item.slot_id} of {len(item.name)} bytes where item {expected} of {item_bytes} was due"
            )
        expected += 1

    with client.agent.stream_policy_slot_state(1, slot_id=_MOST_ITEMS) as stream:
        return _timed(stream, check, effort, pid)


def measure_images(client: Client, reading: str, effort: Effort, pid: int | None) -> Flow:
    """Return the flow of a camera stream, each picture looked at ("view") or copied into our own array ("copy")."""
    own: list[Any] = []
    last = 0

    def check(frame: Any) -> None:
        nonlocal last
        pixels = np.frombuffer(frame.data, np.uint8)
        if reading == "copy":
            if not own:
                own.append(np.empty_like(pixels))
            np.copyto(own[0], pixels)
            pixels = own[0]
        size = frame.width * frame.height * frame.channels
        expected = shade(frame.frame_number)
        if pixels.size != size or not pixels[0] == pixels[size // 2] == pixels[-1] == expected:
            raise RemoteProtocolError(f"picture {frame.frame_number} is torn: {pixels.size} bytes of {size}")
        if frame.frame_number <= last:
            raise RemoteProtocolError(f"picture {frame.frame_number} came after picture {last}")
        last = frame.frame_number

    with client.camera.stream("front", copy=False) as stream:
        return _timed(stream, check, effort, pid)


def _timed(stream: Stream, check: Callable[[Any], None], effort: Effort, pid: int | None) -> Flow:
    clock = time.perf_counter_ns
    begin = clock() + int(effort.budget_s * 1e8)
    end = begin + int(effort.budget_s * 1e9)
    watch: Watch | None = None
    n = skipped = started = now = 0
    for item in stream:
        check(item)
        now = clock()
        if watch is not None:
            n += 1
            if now >= end and n >= effort.least:
                break
        elif now >= begin:
            watch, started, skipped = Watch(pid), clock(), stream.dropped
    if watch is None or not n:
        raise RemoteProtocolError("the stream ended before it could be measured")
    client, engine = watch.stop()
    return Flow(n, now - started, stream.dropped - skipped, client, engine, watch.same_core())
