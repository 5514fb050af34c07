"""A board that cannot harm the calls it decides on.

Whatever the board raises or answers, the call is made: over gRPC, with no shadow, when nothing better is known. What is
wrong with a board is logged once.
"""

from __future__ import annotations

import threading

from lucky_transport.routing_policy import Comparison, Decision, RoutingPolicy
from lucky_transport_stubs.run.notice import say

__all__ = ["TRANSPORTS", "GuardedBoard"]

#: What calls of gRPC programs can go over.
TRANSPORTS = ("grpc", "shm")

_PLAIN = Decision("grpc", stage="grpc")


class GuardedBoard:
    """`board`, as a `RoutingPolicy` that keeps its promises."""

    def __init__(self, board: RoutingPolicy) -> None:
        self._board = board
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def decide(self, method: str) -> Decision:
        """Return the board's decision; the plain one when it is none that can be followed."""
        try:
            decision = self._board.decide(method)
            if decision.authority in TRANSPORTS and decision.shadow in ("", *TRANSPORTS):
                return decision
            self._say_once(f"the board decides {decision} for {method}: there are {' and '.join(TRANSPORTS)}")
        except Exception as error:  # foreign code
            self._say_once(f"the board cannot decide, calls go over gRPC: {type(error).__name__}: {error}")
        return _PLAIN

    def note(self, comparison: Comparison) -> None:
        """Have the board take the outcome of a call."""
        try:
            self._board.note(comparison)
        except Exception as error:  # foreign code
            self._say_once(f"the board takes no note of calls: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Close the board."""
        try:
            self._board.close()
        except Exception as error:  # foreign code
            self._say_once(f"the board cannot be closed: {type(error).__name__}: {error}")

    def _say_once(self, text: str) -> None:
        with self._lock:
            is_new = text not in self._said
            self._said.add(text)
        if is_new and len(self._said) <= _MOST_SAID:
            say(text)


#: A board that finds ever new things to complain about is muted at some point.
_MOST_SAID = 10
