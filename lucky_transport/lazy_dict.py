"""A dict of what is made from its keys when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _always(key: object) -> bool:
    return True


class LazyDict(dict[K, V]):
    """What `make` returns for a key. It is kept for the next time while `keeps(key)`, and as long as there are fewer
    than `most`: a peer that sends ever new keys must not fill our memory.
    """

    def __init__(
        self, make: Callable[[K], V], *, keeps: Callable[[K], bool] = _always, most: float = float("inf")
    ) -> None:
        super().__init__()
        self._make = make
        self._keeps = keeps
        self._most = most

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if self._keeps(key) and len(self) < self._most:
            self[key] = value
        return value
