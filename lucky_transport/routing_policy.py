"""The contract of a staged migration: which transport answers a call while its method moves from one to another.

    decision = policy.decide("/hazel.rpc.SceneService/GetEntity")
    outcome = <make the call over decision.authority>          # the caller gets this one
    other = <make it over decision.shadow too, if that is set, without keeping the caller waiting>
    policy.note(Comparison("/hazel.rpc.SceneService/GetEntity", decision, outcome, other))

The caller gets the authority's answer, whatever the policy or the shadow does. A method that changes the world is never
called twice on one engine: a policy sets no shadow for it, and a router repeats no such call. A read whose authority is
shared memory, and is unreachable or dies, is answered by gRPC until the method is complete. Every call is noted, also
those without a shadow: counts, errors and times of the authority are evidence too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lucky_transport.call import Metadata

__all__ = ["CallOutcome", "Comparison", "Decision", "RoutingPolicy"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The transport that answers, by name ("grpc", "shm"), and the one that is asked as well ("" = none).

    `stage` is the reason.
    """

    authority: str
    shadow: str = ""
    stage: str = ""

    @property
    def may_fall_back(self) -> bool:
        """True where gRPC can answer instead of shared memory: at every stage before "complete"."""
        return self.authority == "shm" and self.stage != "complete"


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
    stream before its end, so that only what both sent by then can be compared.
    """

    method: str
    decision: Decision
    authority: CallOutcome
    shadow: CallOutcome | None = None
    request: Any = None
    why: str = ""
    ended_early: bool = False


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
