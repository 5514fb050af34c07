"""The contract of a staged migration: between a router, which says over which transport each call goes, and what calls.

    target = router.target("127.0.0.1:50051", shadow_caller)
    call = target.call("/hazel.rpc.SceneService/GetEntity", timeout_s=1.0)
    call.begins("unary_unary", metadata)
    call.sends(request)
    response = <make the call over call.decision.primary>
    call.receives(response)
    call.ends(Ending())

The caller gets the primary's answer, whatever the router or a shadow does. A method that changes the world is never
called twice on one engine. A read whose primary is shared memory, and is unreachable or dies, is answered by gRPC
until the method is complete. Every call ends, also those without a shadow: counts, errors and times of the primary
are evidence too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lucky_transport.call import Metadata
from lucky_transport.messages.method import Effect

#: Names and values of those options of a channel that decide how its calls end: limits and retries.
ChannelOptions = tuple[tuple[str, str | int], ...]

#: Is told of each call: (transport, method).
Count = Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class Decision:
    """The transport that answers, by name ("grpc", "shm"), and the one that is asked as well ("" = none).

    `stage` is the reason. effect: what a call of the method changes, None where the table of methods says it.
    """

    primary: str
    shadow: str = ""
    stage: str = ""
    effect: Effect | None = field(default=None, compare=False)

    @property
    def may_fall_back(self) -> bool:
        """True where gRPC can answer instead of shared memory: at every stage before "complete"."""
        return self.primary == "shm" and self.stage != "complete"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a call; code: a status as gRPC names it. is_early: its caller left, or no more of it is wanted.

    knows_headers: False when it is not known which headers came. is_local: the caller's own side ended it: its clock
    passed the deadline, it cancelled, no connection stood. Any other end is an answer of the application.
    """

    code: str = "OK"
    details: str = ""
    headers: Metadata = ()
    trailing: Metadata = ()
    is_early: bool = False
    knows_headers: bool = True
    is_local: bool = False


#: The caller dropped a call that went on.
LEFT = Ending("CANCELLED", is_early=True, is_local=True)
#: The call goes on, and enough of it is known.
SO_FAR = Ending(is_early=True)
#: The program ended, and the call went on.
UNFINISHED = Ending("CANCELLED", "the program ended before the call did", is_early=True, is_local=True)

#: Says how a call ended, None while it goes on; waits so many seconds at most for what comes with the end.
ReadEnding = Callable[[float], Ending | None]


class Received(Protocol):
    """What one side sent, as far as it is kept for a comparison.

    dropped: items that a stream skipped, set by its reader. items: messages of the method's response class, or bytes
    where the caller's own stubs decode them.
    """

    items: list[Any]
    dropped: int

    @property
    def wants_more(self) -> bool:
        """True when what comes next says something."""
        ...

    def add(self, item: Any) -> None:
        """Keep one more item, or count it where there are too many."""
        ...


class RoutedCall(Protocol):
    """One call from its decision to its note. Nothing here waits or raises; callable from any thread.

    timeout_s: the caller's. From `begins` on, arity: as gRPC names it ("unary_stream" has a stream of responses);
    metadata: the caller's; requests: what was sent. received: what the primary sent.
    """

    method: str
    timeout_s: float | None
    arity: str
    metadata: Metadata
    requests: list[Any]

    @property
    def is_over(self) -> bool:
        """True once it has ended."""
        ...

    @property
    def received(self) -> Received:
        """What the primary sent so far."""
        ...

    @property
    def decision(self) -> Decision:
        """Who answers; it changes when the call falls back."""
        ...

    @property
    def can_fall_back(self) -> bool:
        """True while gRPC could answer instead: of a call with one request that goes over shared memory
        and may be made again, a read or an idempotent one.
        """
        ...

    def begins(self, arity: str, metadata: Metadata = ()) -> None:
        """The primary is about to be called."""
        ...

    def sends(self, request: Any) -> None:
        """The primary is given a request."""
        ...

    def sends_no_more(self) -> None:
        """The stream of requests has ended."""
        ...

    def receives(self, item: Any) -> None:
        """The primary sent a message."""
        ...

    def falls_back(self, ending: Ending, *, unsent: bool = False) -> bool:
        """The primary was lost: return True when the call is to be made again, now over `decision.primary`.

        unsent: it never got the request, so that also a call that changes the world may be made.
        """
        ...

    def ends_as(self, read: ReadEnding) -> None:
        """The primary's end is read by `read`, by whichever comes first: `RoutedTarget.end_later`, the begin of another
        call, the end of the program.
        """
        ...

    def left(self) -> None:
        """The call is over, however: it changes nothing any more."""
        ...

    def ends(self, ending: Ending) -> None:
        """The primary has ended; no effect when that is known."""
        ...

    def has_enough(self, count: int) -> bool:
        """True when so many messages of the shadow can all be compared, and more could not."""
        ...


class ShadowCaller(Protocol):
    """Makes calls a second time, over channels of its own. Its methods run on the router's threads."""

    def ask(self, call: RoutedCall, transport: str, timeout_s: float, received: Received) -> Ending:
        """Make the call over a transport, add what comes to `received`, and return how it ended. May raise anything."""
        ...

    def close(self) -> None:
        """End the channels, and with them calls under way."""
        ...


class RoutedTarget(Protocol):
    """One engine behind two transports, as one channel sees it."""

    @property
    def default(self) -> str:
        """The transport that stands for the channel as a whole; the same while the channel lives."""
        ...

    def call(self, method: str, timeout_s: float | None = None) -> RoutedCall:
        """Return the next call of a method, given by its full name, decided and not begun."""
        ...

    def end_later(self, call: RoutedCall) -> None:
        """Have a call that is over end as its `ends_as` says, which may wait, on another thread."""
        ...

    def close(self) -> None:
        """Ask no shadows any more; those under way have a moment. Does not wait, idempotent."""
        ...


class Router(Protocol):
    """Everything that is shared by the staged channels of a process."""

    def target(
        self, name: str, shadows: ShadowCaller, count: Count | None = None, options: ChannelOptions = ()
    ) -> RoutedTarget:
        """Return the engine behind a target for one channel; channels of one target share what changes its world."""
        ...
