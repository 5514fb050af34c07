"""Where a library reads actions and writes all else: arrays per tensor, and the table of pointers to their rows.

A library is told its places once per env and may keep the pointers, so the arrays live as long as the env.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import engine
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part, Record
from lucky_transport_libenv.interface import LibenvBuffers


class Places:
    """Rows of observations, infos and actions of all envs, tensor by tensor, each array (num_envs, *shape).

    observations, infos, actions: in the library's order, views of a driver's buffers, so nothing is copied.
    """

    def __init__(self, spec: BatchSpec, buffers: engine.Buffers) -> None:
        self.observations = _views(spec.observation_parts, buffers.observations)
        self.infos = _views(spec.info_parts, buffers.observations)
        self.actions = _views(spec.action_parts, buffers.actions)

    def is_memory_of(self, buffers: engine.Buffers) -> bool:
        """True when these are views of the memory that `buffers` are."""
        return (
            self.actions[0].ctypes.data == buffers.actions.ctypes.data
            and self.observations[0].ctypes.data == buffers.observations.ctypes.data
        )

    def copy_rows_to(self, other: Places, rows: slice | NDArray[np.intp]) -> None:
        """Make those rows of the observations and infos of `other` the same."""
        for mine, theirs in zip(self.observations + self.infos, other.observations + other.infos, strict=True):
            theirs[rows] = mine[rows]

    def take_actions(self, other: Places, rows: slice) -> None:
        """Make those rows of the actions those of `other`."""
        for mine, theirs in zip(self.actions, other.actions, strict=True):
            mine[rows] = theirs[rows]


def _views(parts: Sequence[Part], rows: NDArray[Any]) -> list[NDArray[Any]]:
    return list(Record(parts, rows.shape[-1]).views(rows).values())


def _pointers(arrays: Sequence[NDArray[Any]], start: int, size: int) -> Any:
    addresses = [array.ctypes.data + env * array.strides[0] for array in arrays for env in range(start, start + size)]
    return (ctypes.c_void_p * len(addresses))(*addresses)


def table(
    places: Places, rewards: NDArray[np.float32], first: NDArray[np.uint8], start: int, size: int
) -> LibenvBuffers:
    """Return C's table of the rows `start` to `start + size`; it keeps its tables of pointers, not the arrays, alive.

    rewards, first: contiguous, (num_envs,).
    """
    as_pointers = ctypes.POINTER(ctypes.c_void_p)
    ob, info, ac = (_pointers(arrays, start, size) for arrays in (places.observations, places.infos, places.actions))
    return LibenvBuffers(
        ctypes.cast(ob, as_pointers),
        rewards[start:].ctypes.data,
        first[start:].ctypes.data,
        ctypes.cast(info, as_pointers),
        ctypes.cast(ac, as_pointers),
    )
