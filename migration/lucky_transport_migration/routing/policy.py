"""What decides for each call of a staged migration, and collects the outcomes.

decision = policy.decide("/hazel.rpc.SceneService/GetEntity")
outcome = <make the call over decision.primary>          # the caller gets this one
other = <make it over decision.shadow too, if that is set, without keeping the caller waiting>
policy.note(Comparison("/hazel.rpc.SceneService/GetEntity", decision, outcome, other))
"""

from __future__ import annotations

from typing import Protocol

from lucky_transport.routing import Decision
from lucky_transport_migration.compare.item_digest import ItemDigest
from lucky_transport_migration.evidence.outcome import Comparison


class RoutingPolicy(Protocol):
    """Decides for each call, and collects the outcomes. Called from any thread; no method waits or raises."""

    def decide(self, method: str) -> Decision:
        """Return the decision for the next call of a method, given by its full name "/package.Service/Method"."""
        ...

    def digest(self, method: str, decision: Decision) -> ItemDigest | None:
        """Return a digest for the items of one side of a call beyond those that are kept, None where nobody asks."""
        ...

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call."""
        ...

    def close(self) -> None:
        """Write the outcomes; takes a few seconds at most. Idempotent."""
        ...
