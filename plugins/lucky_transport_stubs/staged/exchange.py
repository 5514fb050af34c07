"""One call of a staged channel: what was decided, what was sent and received, and the comparison that comes of it.

    exchange.begins(arity, metadata)
    exchange.sends(payload)      # the authority is given a request
    exchange.receives(payload)   # it answered with a message
    exchange.ends(ending)        # it has ended; noted at once, or when the shadow has ended too

Nothing here waits or raises: it runs on the threads of callers and of grpc. A shadow is asked when the authority has
answered, so that the two do not compete; only a stream of responses to one request is asked for at the same moment, for
what it brings may be a matter of time. A call is noted once. Two answers that a change of the world overlaps are not
compared, equal or not: equal ones would count for the candidate, and no different one against it. A read that shared
memory cannot answer is made again over gRPC, which is the authority from then on; what shared memory came to is noted
as the shadow's outcome.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from lucky_transport.routing_policy import CallOutcome, Comparison, Decision
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_stubs.staged.ending import SO_FAR, Ending
from lucky_transport_stubs.staged.items import RecordedMessages
from lucky_transport_stubs.staged.staging import Staging
from lucky_transport_stubs.staged.world import may_change_world

__all__ = ["UNREACHABLE", "RoutedRpc"]

#: How a call ends whose engine is not there, or dies.
UNREACHABLE = "UNAVAILABLE"
#: Codes of a transport in trouble: they are no matter of what the world was like.
_IN_TROUBLE = frozenset({UNREACHABLE, "INTERNAL", "DEADLINE_EXCEEDED", "UNKNOWN"})


class RoutedRpc:
    """A call of `method` that is about to be made. decision: who answers. timeout: the caller's, in seconds.

    From `begins` on, arity: as grpc names it, "unary_stream" has a stream of responses; metadata: the caller's;
    requests: what was sent, as bytes. is_over: True once the authority has ended, then code: its status, is_left: True
    when that was not its own end.
    """

    def __init__(self, staging: Staging, method: str, timeout: float | None) -> None:
        self.method = method
        self.timeout = timeout
        self.decision = staging.decide(method)
        self.arity = ""
        self.metadata: Metadata = ()
        self.requests: list[bytes] = []
        self.is_over = self.is_left = False
        self.code = ""
        self._staging = staging
        self._sent = RecordedMessages()
        self._received = RecordedMessages()
        self._sends_no_more = False
        self._lock = threading.Lock()
        self._authority: CallOutcome | None = None
        self._shadow: CallOutcome | None = None
        self._why = ""
        self._awaits_shadow = bool(self.decision.shadow)
        self._ended_early = self._is_noted = False
        self._knows_headers = True
        self._began_ns = self._mark = 0
        self._is_read = bool(self.decision.shadow) or not may_change_world(method)
        self._is_changing = False

    # -- what the authority does --------------------------------------------------------------------------------------

    def begins(self, arity: str, metadata: Metadata) -> None:
        """The authority is about to be called."""
        self.arity, self.metadata = arity, metadata
        self._began_ns = time.perf_counter_ns()
        self._mark = self._staging.world.mark()
        if not self._is_read and not self._is_changing:
            self._is_changing = True
            self._staging.world.begin()

    def sends(self, payload: Any) -> None:
        """The authority is given a request; what is no bytes it will refuse."""
        if not isinstance(payload, bytes):
            return
        if self.arity.startswith("stream"):
            self._sent.add(payload)
        elif not self.requests:
            self.requests = [payload]
            self._began_ns = time.perf_counter_ns()
            if self._awaits_shadow and self.arity == "unary_stream":
                self._ask()

    def sends_no_more(self) -> None:
        """The stream of requests has ended."""
        self._sends_no_more = True

    def receives(self, payload: bytes) -> None:
        """The authority sent a message."""
        if self.is_over:
            return
        self._received.add(payload)
        if self._received.is_full and self.arity.endswith("stream"):
            self.ends(SO_FAR)

    @property
    def can_fall_back(self) -> bool:
        """True while gRPC could answer instead: of a read with one request that is to go over shared memory."""
        return self._is_read and self.decision.may_fall_back and not self.arity.startswith("stream")

    def falls_back(self, ending: Ending) -> bool:
        """The authority's call has ended so: return True when it is to be made again now, over gRPC.

        That is so when shared memory was unreachable, or died before it sent anything.
        """
        now_ns = time.perf_counter_ns()
        with self._lock:
            is_lost = ending.code == UNREACHABLE and bool(self.requests) and not self._received.kept
            if not is_lost or self.is_over or not self.can_fall_back:
                return False
            failed = self.decision.authority
            self._shadow = _outcome(failed, RecordedMessages(), ending, now_ns - self._began_ns)
            self._why, self._awaits_shadow = "", False
            self.decision = Decision("grpc", failed, self.decision.stage)
            self._began_ns = now_ns
        self._staging.falls_back(self.method, ending)
        return True

    def left(self) -> None:
        """The call is over, however: it changes nothing any more."""
        with self._lock:
            was_changing, self._is_changing = self._is_changing, False
        if was_changing:
            self._staging.world.end()

    def ends(self, ending: Ending) -> None:
        """The authority has ended; no effect when that is known."""
        now_ns = time.perf_counter_ns()
        if ending is not SO_FAR:
            self.left()
        with self._lock:
            if self.is_over:
                return
            last_ns = self._received.last_ns if ending.code == "OK" and self._received.kept else now_ns
            self._authority = _outcome(self.decision.authority, self._received, ending, last_ns - self._began_ns)
            self._knows_headers = ending.knows_headers
            self._ended_early |= ending.is_early
            self.is_over, self.is_left, self.code = True, ending.is_early, ending.code
        if self.arity.startswith("stream"):
            self.requests = self._sent.kept
        elif not self.requests:
            return  # it could not be serialized: no transport was concerned, and there is nothing to note
        if self._awaits_shadow and self.arity != "unary_stream":
            self._ask_now()
        self._note_if_known()

    def has_enough(self, count: int) -> bool:
        """True when so many messages of the shadow can all be compared, and more could not."""
        return self.is_left and count >= len(self._received.kept)

    # -- what the shadow does -----------------------------------------------------------------------------------------

    def shadow_answered(self, items: RecordedMessages, ending: Ending, took_ns: int) -> None:
        """The shadow has ended; an early ending says that it was left."""
        self._shadow_is(_outcome(self.decision.shadow, items, ending, took_ns), ended_early=ending.is_early)

    def has_no_shadow(self, why: str) -> None:
        """The shadow was not asked, or not to its end."""
        self._shadow_is(None, why)

    def _ask(self) -> None:
        if why := self._staging.shadows.ask(self):
            self.has_no_shadow(why)

    def _ask_now(self) -> None:
        """Ask it, if the call that has ended can be made again."""
        if self.is_left:
            self.has_no_shadow("the call did not come to its end")
        elif self.arity.startswith("stream") and not self._sends_no_more:
            self.has_no_shadow("the requests had not ended")
        elif self._sent.is_full:
            self.has_no_shadow(f"more than {len(self.requests)} requests are not kept")
        else:
            self._ask()

    def _shadow_is(self, outcome: CallOutcome | None, why: str = "", *, ended_early: bool = False) -> None:
        with self._lock:
            if not self._awaits_shadow:
                return  # the call fell back to it
            self._shadow, self._why = outcome, why
            self._ended_early |= ended_early
            self._awaits_shadow = False
        self._note_if_known()

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _note_if_known(self) -> None:
        with self._lock:
            authority = self._authority
            if authority is None or self._awaits_shadow or self._is_noted:
                return
            self._is_noted = True
        shadow, why = self._shadow, self._why
        if shadow is not None and (doubt := self._doubt(shadow)):
            shadow, why = None, doubt
        elif shadow is not None and not self._knows_headers:
            shadow.headers = ()  # nothing to compare them with
        request = self.requests if self.arity.startswith("stream") else self.requests[0]
        self._staging.board.note(
            Comparison(self.method, self.decision, authority, shadow, request, why, self._ended_early)
        )

    def _doubt(self, shadow: CallOutcome) -> str:
        """Return why the two cannot be compared, "" when they can."""
        if shadow.code not in _IN_TROUBLE and not self._staging.world.stood_still(self._mark):
            return "the world changed before both had answered"
        return ""


def _outcome(transport: str, items: RecordedMessages, ending: Ending, took_ns: int) -> CallOutcome:
    return CallOutcome(
        transport, items.kept, ending.code, ending.details, ending.headers, ending.trailing, max(0, took_ns) / 1e3
    )
