"""THE contract of a staged migration: who answers a call while a method moves from one transport to another.

    decision = board.decide("/hazel.rpc.SceneService/GetEntity")
    outcome = <make the call over decision.authority>          # this is what the caller gets
    other = <make it over decision.shadow too, if that is set, where the caller does not wait for it>
    board.note(Comparison("/hazel.rpc.SceneService/GetEntity", decision, outcome, other))

Rule 1: whatever a board or a shadow does, the caller gets what the authority answered, when it answered.
Rule 2: what changes the world is never made twice on one engine: a board sets no shadow for it.
Rule 3: a read whose authority is shared memory, and is unreachable or dies, is answered by gRPC until the method is
        complete; the failure is noted as the shadow's outcome. What changes the world is never repeated.
Rule 4: every call is noted, also the ones without a shadow: counts, errors and times of the authority are evidence too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lucky_transport.call import Metadata

__all__ = ["Board", "Comparison", "Decision", "Outcome"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Which transport answers, by name ("grpc", "shm"), and which one is asked as well ("" = none); `stage` is why."""

    authority: str
    shadow: str = ""
    stage: str = ""

    @property
    def may_fall_back(self) -> bool:
        """True where gRPC can answer instead of shared memory: at every stage before "complete"."""
        return self.authority == "shm" and self.stage != "complete"


@dataclass(slots=True)
class Outcome:
    """What one transport answered to one call.

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
    authority: Outcome
    shadow: Outcome | None = None
    request: Any = None
    why: str = ""
    ended_early: bool = False


class Board(Protocol):
    """Decides for each call, and collects what came of it. From any thread; neither method waits nor raises."""

    def decide(self, method: str) -> Decision:
        """Return who answers the next call of a method, given by its full name "/package.Service/Method"."""
        ...

    def note(self, comparison: Comparison) -> None:
        """Take the outcome of a call."""
        ...

    def close(self) -> None:
        """Write what was noted; bounded by a few seconds. Idempotent."""
        ...
