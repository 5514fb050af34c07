"""Timing what flows: many items in one stretch of time, of which only the whole is timed.

The clock starts after a tenth of the time, when buffers are warm and the stream runs at its rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from lucky_transport.client import Client
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.echo_engine import shade
from lucky_transport_migration.bench.measuring import CpuTimer, Effort, Look
from lucky_transport_migration.bench.rows import processes

_MOST_ITEMS = 4_000_000_000


@dataclass(slots=True)
class StreamMeasurement:
    """`n` items in `took_ns`, in one round; `skipped` on the way, None where nothing may be.

    CPU and `looked_at` as in Measurement.
    """

    n: int
    took_ns: int
    client_cpu_ns: int | None
    engine_cpu_ns: int | None = None
    same_core: bool | None = None
    skipped: int | None = None
    looked_at: str = ""

    @property
    def us_each(self) -> float:
        """Microseconds per item."""
        return self.took_ns / self.n / 1e3

    @staticmethod
    def columns(rounds: Sequence[StreamMeasurement]) -> dict[str, Any]:
        """Return what a row of these rounds has beside its times."""
        columns: dict[str, Any] = {"per_s": round(1e6 / float(np.median([one.us_each for one in rounds])), 1)}
        skipped = [one.skipped for one in rounds if one.skipped is not None]
        if skipped:
            columns["skipped"] = sum(skipped)
        return columns | processes(rounds, sum(one.n for one in rounds))


def timed_flow(
    items: Iterable[Any],
    look: Look,
    effort: Effort,
    pid: int | None,
    dropped: Callable[[], int | None] = lambda: None,
) -> StreamMeasurement:
    """Return the flow of `items`, each of them looked at; `dropped` tells how many were skipped until now.

    Raises RemoteProtocolError when they end too early, and what `look` raises.
    """
    clock, check = time.perf_counter_ns, look.at
    begin = clock() + int(effort.budget_s * 1e8)
    end = begin + int(effort.budget_s * 1e9)
    watch: CpuTimer | None = None
    n = started = now = 0
    before: int | None = None
    for item in items:
        check(item)
        now = clock()
        if watch is not None:
            n += 1
            if now >= end and n >= effort.least:
                break
        elif now >= begin:
            watch, before, started = CpuTimer(pid), dropped(), clock()
    if watch is None or not n:
        raise RemoteProtocolError("the stream ended before it could be measured")
    used, after = watch.stop(), dropped()
    skipped = None if after is None or before is None else after - before
    return StreamMeasurement(n, now - started, *used, skipped, look.words)


def in_order(number_of: Callable[[Any], int], content: Callable[[Any], Any], item_bytes: int) -> Look:
    """Return what refuses an item that is not the next one, from 0 on, or whose content has another length."""
    expected = count()

    def check(item: Any) -> None:
        due, number, length = next(expected), number_of(item), len(content(item))
        if number != due or length != item_bytes:
            raise RemoteProtocolError(f"item {number} of {length} bytes where item {due} of {item_bytes} was due")

    return Look("its number and its length", check)


def measure_messages(client: Client, item_bytes: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of a stream that must not skip anything."""
    with client.agent.stream_policy_slot_state(1, slot_id=_MOST_ITEMS, timeout_s=effort.patience_s) as stream:
        look = in_order(lambda item: item.slot_id, lambda item: item.name, item_bytes)
        return timed_flow(stream, look, effort, pid, lambda: stream.dropped)


def measure_images(client: Client, reading: str, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of a camera's stream, each image looked at ("view") or copied into our own array ("copy")."""
    own: list[Any] = []
    last = 0

    def check(frame: Any) -> None:
        nonlocal last
        pixels = frame.data
        if reading == "copy":
            if not own:
                own.append(np.empty(len(pixels), np.uint8))
            np.copyto(own[0], np.frombuffer(pixels, np.uint8))
            pixels = own[0].data
        size = frame.width * frame.height * frame.channels
        expected = shade(frame.frame_number)
        if len(pixels) != size or not pixels[0] == pixels[size // 2] == pixels[-1] == expected:
            raise RemoteProtocolError(f"image {frame.frame_number} is torn: {len(pixels)} bytes of {size}")
        if frame.frame_number <= last:
            raise RemoteProtocolError(f"image {frame.frame_number} came after image {last}")
        last = frame.frame_number

    look = Look("its number, its size, and its first, middle and last byte", check)
    with client.camera.stream("front", copy=False, timeout_s=effort.patience_s) as stream:
        return timed_flow(stream, look, effort, pid, lambda: stream.dropped)
