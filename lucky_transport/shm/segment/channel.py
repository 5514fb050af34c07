"""What the two step channels are made from and what they return: offsets, action format, results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lucky_transport.shm.segment.layout import FIELDS, Feature, SegmentLayout
from lucky_transport.shm.wait import PEER_WAKES
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.batch_spec import BatchSpec


def peer_bits(features: int) -> int:
    """Return what a peer with these `Feature` bits does."""
    return PEER_WAKES if features & Feature.WAKE else 0


class Result:
    """Outcomes of `send` / `recv` / `step` (first lines) and bits of `EngineChannel.next` (last line)."""

    FRAME, FRAME_ENDED, FRAME_REFUSED = 0, 1, 2
    TIMED_OUT, OUT_OF_ORDER = -1, -3
    NOT_TRIED, UNFIT_ACTIONS, NOT_FINITE, UNFIT_CONTROL = -10, -11, -12, -13
    HAS_ACTIONS, HAS_CONTROL, HAS_COMMANDS = 1, 2, 4


class ChannelOffsets(NamedTuple):
    """Bytes of a mapping at which the words and regions of an exchange lie; the native module reads it by position."""

    frame_seq: int
    frame_status: int
    action_seq: int
    heartbeat: int
    park_engine: int
    park_frame: int
    commands: int  # write position of the command ring, client to engine
    actions: int
    control: int
    terminated: int
    truncated: int
    num_envs: int


class ActionFormat(NamedTuple):
    """A batch of actions: its shape, its `struct` code, and bounds that the code holds, or None."""

    shape: tuple[int, ...]
    code: str
    low: float | None = None
    high: float | None = None


def action_format(spec: BatchSpec, bounds: Bounds | None) -> ActionFormat:
    """Return the format of a batch of actions; values outside `bounds` are counted."""
    low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
    return ActionFormat(
        spec.action_shape,
        np.dtype(spec.action.dtype).char,
        None if low is None else low.item(),
        None if high is None else high.item(),
    )


def channel_offsets(layout: SegmentLayout, num_envs: int) -> ChannelOffsets:
    """Return where an exchange lies in a segment of this layout."""
    return ChannelOffsets(
        frame_seq=FIELDS["frame_seq"].offset,
        frame_status=FIELDS["frame_status"].offset,
        action_seq=FIELDS["action_seq"].offset,
        heartbeat=FIELDS["heartbeat"].offset,
        park_engine=FIELDS["park_engine"].offset,
        park_frame=FIELDS["park_frame"].offset,
        commands=layout["ring_c2s"].offset,
        actions=layout["actions"].offset,
        control=layout["control"].offset,
        terminated=layout["terminated"].offset,
        truncated=layout["truncated"].offset,
        num_envs=num_envs,
    )
