"""A frame as named arrays, for every comparison of exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.env.composite import observation_fields
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame

__all__ = ["frame_table"]


def frame_table(frame: Frame, spec: BatchSpec, first_seq: int = 0) -> dict[str, NDArray[Any]]:
    """Return a frame as named arrays, copied, one row per env; signals by the names of their terms.

    first_seq: what its number is counted from; an engine that was there before has made other exchanges.
    """
    table: dict[str, NDArray[Any]] = {
        **observation_fields(spec, frame.observations.copy(), "observation"),
        "reward": frame.rewards.copy(),
        "terminated": frame.terminated != 0,
        "truncated": frame.truncated != 0,
    }
    for name, row in zip((*spec.reward_terms, *spec.termination_terms), frame.signals, strict=True):
        table[f"signals.{name}"] = row.copy()
    return table | {"seq": np.array([frame.seq - first_seq])}
