"""The maps: rock, ore and starting places, and the way from anywhere to a cell.

A map never changes and is the same for every seed; all worlds of a process share it, and the ways found in it. A cell
is one number, y * width + x.
"""

from __future__ import annotations

from array import array
from collections import deque
from functools import cache

import numpy as np
from numpy.typing import NDArray

#: name -> cells a side, and whether a ridge of rock parts the two bases.
MAPS = {"plains": (32, False), "ridge": (48, True), "arena": (20, False)}

_UNREACHED = -1
_EDGE = 4


class Terrain:
    """One map. rock: bool (size, size). ore_cells: where ore grows. starts: the cells of the two bases."""

    def __init__(self, name: str, size: int, has_ridge: bool) -> None:
        self.name = name
        self.width = self.height = size
        self.starts = (_EDGE * size + _EDGE, (size - 1 - _EDGE) * size + size - 1 - _EDGE)
        self.rock: NDArray[np.bool_] = np.zeros((size, size), np.bool_)
        if has_ridge:  # across the diagonal, with a pass at each third
            for x in range(size):
                self.rock[size - 1 - x, x] = self.rock[size - 1 - x, max(x - 1, 0)] = x % (size // 3) > 3
        self.ore_cells = tuple(self._fields())
        self._neighbours = [tuple(self._around(cell)) for cell in range(size * size)]
        self._ways: dict[int, array[int]] = {}

    def _fields(self) -> list[int]:
        """Return a field of ore beside each base and one in the middle of each side of the map."""
        size, away = self.width, _EDGE + 5
        middles = [(away, _EDGE), (_EDGE, away), (size // 2, _EDGE), (_EDGE, size // 2)]
        middles += [(size - 1 - x, size - 1 - y) for x, y in middles]
        found = {
            (y + dy) * size + x + dx
            for x, y in middles
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
            if not self.rock[y + dy, x + dx]
        }
        return sorted(found)

    def _around(self, cell: int) -> list[int]:
        """Return the free cells beside a cell; a corner is cut only where both its sides are free."""
        y, x = divmod(cell, self.width)
        if self.rock[y, x]:
            return []
        return [
            (y + dy) * self.width + x + dx
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if (dx or dy) and self._is_free(x + dx, y + dy) and self._is_free(x + dx, y) and self._is_free(x, y + dy)
        ]

    def _is_free(self, x: int, y: int) -> bool:
        return 0 <= x < self.width and 0 <= y < self.height and not self.rock[y, x]

    def is_on_map(self, x: int, y: int) -> bool:
        """True for a cell of the map."""
        return 0 <= x < self.width and 0 <= y < self.height

    def next_cell(self, here: int, goal: int) -> int:
        """Return the next cell on a shortest way to `goal`, -1 when no way leads there."""
        way = self._ways.get(goal)
        if way is None:
            way = self._ways[goal] = self._way_to(goal)  # two threads may both find it: it is the same way
        return way[here]

    def _way_to(self, goal: int) -> array[int]:
        way = array("h", [_UNREACHED]) * (self.width * self.height)
        if not self._neighbours[goal]:
            return way
        way[goal] = goal
        open_cells = deque((goal,))
        while open_cells:
            cell = open_cells.popleft()
            for other in self._neighbours[cell]:
                if way[other] == _UNREACHED:
                    way[other] = cell
                    open_cells.append(other)
        return way


@cache
def terrain(name: str) -> Terrain:
    """Return the map of that name; raises ValueError naming those there are."""
    if name not in MAPS:
        raise ValueError(f"no map {name!r}; there are: {', '.join(MAPS)}")
    return Terrain(name, *MAPS[name])


@cache
def disk(radius: int) -> NDArray[np.bool_]:
    """Return bool (2 radius + 1, 2 radius + 1): the cells within `radius` of the middle one."""
    reach = np.arange(-radius, radius + 1)
    return reach[:, None] ** 2 + reach[None, :] ** 2 <= radius * radius + radius
