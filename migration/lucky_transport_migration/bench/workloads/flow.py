"""Timing what flows: streams of messages and of images, their contents checked while they are timed.

A lost, doubled, torn or stale item ends the measurement with an error; images may be skipped, messages not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lucky_transport.client import Client
from lucky_transport.errors import RemoteProtocolError
from lucky_transport_migration.bench.echo_engine import shade
from lucky_transport_migration.bench.flow import StreamMeasurement, timed_flow
from lucky_transport_migration.bench.measuring import Effort, Look

__all__ = ["measure_images", "measure_messages"]

_MOST_ITEMS = 4_000_000_000


def measure_messages(client: Client, item_bytes: int, effort: Effort, pid: int | None) -> StreamMeasurement:
    """Return the flow of a stream that must not skip anything."""
    expected = 0

    def check(item: Any) -> None:
        nonlocal expected
        if item.slot_id != expected or len(item.name) != item_bytes:
            raise RemoteProtocolError(
                f"item {item.slot_id} of {len(item.name)} bytes where item {expected} of {item_bytes} was due"
            )
        expected += 1

    with client.agent.stream_policy_slot_state(1, slot_id=_MOST_ITEMS, timeout_s=effort.patience_s) as stream:
        return timed_flow(stream, Look("its number and its length", check), effort, pid, lambda: stream.dropped)


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
