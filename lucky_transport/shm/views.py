"""NumPy views of a segment; the one place that makes them.

Rule 1: a view keeps the mapping alive (`np.frombuffer` holds the buffer), so reading it after `close` is safe. The
        idiom `np.ndarray(buffer=...)` on a closed mapping is a crash; it appears nowhere in this project.
"""

from __future__ import annotations

import math
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers
from lucky_transport.shm.layout import SegmentLayout
from lucky_transport.spec.batch_spec import BatchSpec

__all__ = ["buffers", "view"]


def view(mapping: mmap, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a writable view of `shape` elements at `offset`; it is valid for as long as it is referenced."""
    return np.frombuffer(mapping, dtype, math.prod(shape), offset).reshape(shape)


def buffers(mapping: mmap, layout: SegmentLayout, spec: BatchSpec) -> Buffers:
    """Return the arrays of a step as views of the segment."""
    n = spec.num_envs
    return Buffers(
        view(mapping, layout["actions"].offset, spec.action.dtype, spec.action_shape),
        view(mapping, layout["observations"].offset, spec.observation.dtype, spec.observation_shape),
        view(mapping, layout["rewards"].offset, "float32", (n,)),
        view(mapping, layout["terminated"].offset, "uint8", (n,)),
        view(mapping, layout["truncated"].offset, "uint8", (n,)),
        view(mapping, layout["signals"].offset, "float32", (spec.num_terms, n)),
    )
