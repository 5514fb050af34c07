"""What decides for each call of a staged migration, and collects the outcomes.

decision = policy.decide("/hazel.rpc.SceneService/GetEntity")
outcome = <make the call over decision.primary>          # the caller gets this one
other = <make it over decision.shadow too, if that is set, without keeping the caller waiting>
policy.note(Comparison("/hazel.rpc.SceneService/GetEntity", decision, outcome, other))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lucky_transport.call import Metadata
from lucky_transport.routing import Decision
from lucky_transport_migration.compare.difference import Difference

__all__ = ["CANDIDATE", "CONTROL", "CallOutcome", "Comparison", "RoutingPolicy"]

#: What a call can go over, by the names that decisions have for it, wherever it is.
CONTROL, CANDIDATE = "grpc", "shm"


@dataclass(slots=True)
class CallOutcome:
    """The answer of one transport to one call.

    items: the response, or all items of a stream, in their order: messages of the method's response class, or bytes as
    they came where the caller's own stubs decode them. code: a status as gRPC names it ("OK", "NOT_FOUND").
    took_us: from the request to the last item. dropped: items that a stream skipped.
    """

    transport: str
    items: Sequence[Any] = ()
    code: str = "OK"
    details: str = ""
    headers: Metadata = ()
    trailing: Metadata = ()
    took_us: float = 0.0
    dropped: int = 0


@dataclass(slots=True)
class Comparison:
    """One call: what the caller got, and what the shadow answered (None when none was asked, `why` says why).

    request: the message, or bytes, or the list of them where requests are a stream. ended_early: the caller left a
    stream before its end, so that only what both sent by then can be compared. unseen: what of it was not looked at.
    changed: where the engine's state is another one before and after each such call, though it is a read.
    """

    method: str
    decision: Decision
    primary: CallOutcome
    shadow: CallOutcome | None = None
    request: Any = None
    why: str = ""
    ended_early: bool = False
    unseen: tuple[str, ...] = ()
    changed: Difference | None = None


class RoutingPolicy(Protocol):
    """Decides for each call, and collects the outcomes. Called from any thread; no method waits or raises."""

    def decide(self, method: str) -> Decision:
        """Return the decision for the next call of a method, given by its full name "/package.Service/Method"."""
        ...

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call."""
        ...

    def close(self) -> None:
        """Write the outcomes; takes a few seconds at most. Idempotent."""
        ...
