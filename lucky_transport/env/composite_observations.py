"""A frame's rows of bytes as the nested observation of its spec.

Rule 1: a copy has each part in one piece; a view has the row's stride, and is read-only where the frame is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Record, flat, nested, tree_of, unpack

__all__ = ["CompositeObservations", "observation_fields"]


class CompositeObservations:
    """Reads the observations of one spec with parts."""

    def __init__(self, spec: BatchSpec) -> None:
        self._tree = tree_of("observation", spec.observation_parts)
        self._record = Record(spec.observation_parts, spec.observation.size)

    def view(self, rows: NDArray[np.uint8]) -> Any:
        """Return dicts and tuples of views, each (num_envs, *shape), of `rows`, uint8 (num_envs, row_bytes)."""
        found = self._record.views(rows)
        return nested(self._tree, lambda part: found[part.path])

    def copy(self, rows: NDArray[np.uint8]) -> Any:
        """Return the same as copies, which are the caller's."""
        found = self._record.views(rows)
        return nested(self._tree, lambda part: found[part.path].copy())


def observation_fields(spec: BatchSpec, rows: NDArray[Any], name: str = "observations") -> dict[str, NDArray[Any]]:
    """Return the arrays in a frame's observations by the names that reports use: `name`, or, where they have parts,
    `observation["camera"]` and so on, and `info["lives"]` for the info parts; all are views of `rows`.
    """
    if not spec.observation_parts:
        return {name: rows}
    infos = flat("info", unpack(rows, spec.info_parts)) if spec.info_parts else {}
    return flat("observation", unpack(rows, spec.observation_parts)) | infos
