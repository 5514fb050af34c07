"""A policy that cannot harm the calls it decides on.

Whatever the policy raises or answers, the call is made: over gRPC, with no shadow, when nothing better is known.
"""

from __future__ import annotations

import logging
import threading

from lucky_transport.routing import Decision
from lucky_transport_migration.compare.shown import error_text
from lucky_transport_migration.routing_policy import Comparison, RoutingPolicy

__all__ = ["CANDIDATE", "CONTROL", "GuardedPolicy"]

_log = logging.getLogger("lucky_transport")

#: What a call can go over, by the names that decisions have for it, wherever it is.
CONTROL, CANDIDATE = TRANSPORTS = "grpc", "shm"

_PLAIN = Decision(CONTROL, stage="grpc")
#: A policy that finds ever new things to complain about is muted at some point.
_MOST_COMPLAINTS = 10


class GuardedPolicy:
    """`policy`, as one that keeps the promise not to raise. What is wrong with it is logged once."""

    def __init__(self, policy: RoutingPolicy) -> None:
        self._policy = policy
        self._complaints: set[str] = set()
        self._lock = threading.Lock()

    def decide(self, method: str) -> Decision:
        """Return the policy's decision; the plain one when it is none that can be followed."""
        try:
            decision = self._policy.decide(method)
            if decision.primary in TRANSPORTS and decision.shadow in ("", *TRANSPORTS):
                return decision
            self._warn(f"the policy decides {decision} for {method}: there are {' and '.join(TRANSPORTS)}")
        except Exception as error:  # foreign code
            self._warn(f"the policy cannot decide, calls go over gRPC: {error_text(error)}")
        return _PLAIN

    def note(self, comparison: Comparison) -> None:
        """Have the policy take the outcome of a call."""
        try:
            self._policy.note(comparison)
        except Exception as error:  # foreign code
            self._warn(f"the policy takes no note of calls: {error_text(error)}")

    def close(self) -> None:
        """Close the policy."""
        try:
            self._policy.close()
        except Exception as error:  # foreign code
            self._warn(f"the policy cannot be closed: {error_text(error)}")

    def _warn(self, text: str) -> None:
        with self._lock:
            is_new = text not in self._complaints and len(self._complaints) < _MOST_COMPLAINTS
            self._complaints.add(text)
        if is_new:
            _log.warning("%s", text)
