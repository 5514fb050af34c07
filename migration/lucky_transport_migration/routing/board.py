"""The board of this process, and a fence around it: whatever a board does, the calls it decides on are made.

A board is opened once per process and closed when that ends, so that its evidence is whole. A board that raises is said
once; calls then go over gRPC alone.
"""

from __future__ import annotations

import atexit
import logging
from functools import cache

from lucky_transport.registry import load, registry
from lucky_transport.routing_policy import Comparison, Decision, RoutingPolicy

__all__ = ["FencedBoard", "process_board"]

_log = logging.getLogger("lucky_transport")


class FencedBoard:
    """`board`, as one that keeps the promise not to raise."""

    def __init__(self, board: RoutingPolicy) -> None:
        self._board = board
        self._said: set[str] = set()

    def decide(self, method: str) -> Decision:
        """Return the board's decision, or gRPC alone when it has none."""
        try:
            return self._board.decide(method)
        except Exception as error:  # foreign code
            self._say("decides nothing, calls go over gRPC", error)
            return Decision("grpc", stage="grpc")

    def note(self, comparison: Comparison) -> None:
        """Have the board take the outcome of a call."""
        try:
            self._board.note(comparison)
        except Exception as error:  # foreign code
            self._say("takes no note of calls", error)

    def close(self) -> None:
        """Close the board."""
        self._board.close()

    def _say(self, what: str, error: Exception) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning("the board %s: %s: %s", what, type(error).__name__, error)


@cache
def process_board() -> RoutingPolicy:
    """Return the board of this process; raises what opening it raises (ConfigError, MissingExtra, BrokenPlugin)."""
    info = next(iter(registry().policies.values()))
    board = load(info.open, owner=f"board {info.name!r}", extra=info.extra)()
    atexit.register(board.close)
    return board
