"""A frame as named arrays, for every comparison of exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.composite import observation_fields
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame

__all__ = ["FrameTables", "frame_table"]


def frame_table(frame: Frame, spec: BatchSpec) -> dict[str, NDArray[Any]]:
    """Return a frame as named arrays, copied, one row per env; signals by the names of their terms."""
    table: dict[str, NDArray[Any]] = {
        **observation_fields(spec, frame.observations.copy(), "observation"),
        "reward": frame.rewards.copy(),
        "terminated": frame.terminated != 0,
        "truncated": frame.truncated != 0,
    }
    for name, row in zip((*spec.reward_terms, *spec.termination_terms), frame.signals, strict=True):
        table[f"signals.{name}"] = row.copy()
    return table | {"seq": np.array([frame.seq])}


class FrameTables:
    """Makes tables of one transport's frames, numbered from the first one: its engine may have been stepped before."""

    def __init__(self, spec: BatchSpec) -> None:
        self._spec = spec
        self._first: int | None = None

    def table(self, frame: Frame) -> dict[str, NDArray[Any]]:
        """Return `frame_table` of the frame, its number counted from the first frame's."""
        if self._first is None:
            self._first = frame.seq
        table = frame_table(frame, self._spec)
        table["seq"] -= self._first
        return table
