"""One call from its decision to its note: what was decided, sent and received, and the comparison that comes of it.

A shadow is asked when the primary has answered, so that the two do not compete; only a stream of responses to one
request is asked for at the same moment, for what it brings may be a matter of time. Two answers that a change of the
world overlaps are not compared, equal or not: equal ones would count for the candidate, different ones not against it.

A call is noted once two things are known of it: how the primary ended, and what the shadow answered or why it did not.
`MOVES` says which is awaited in each state, and what makes it known; a move that comes too late does nothing. What is
not known at the end of the program is said to be unknown then (`OpenCalls`), so that every call is noted.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

from lucky_transport.call import Metadata
from lucky_transport.messages.methods import BY_NAME, Effect
from lucky_transport.routing import SO_FAR, UNFINISHED, ChannelOptions, Decision, Ending, ReadEnding
from lucky_transport_migration.evidence.outcome import (
    CONTROL,
    CallOptions,
    CallOutcome,
    Comparison,
    as_seen,
    call_outcome,
)
from lucky_transport_migration.evidence.record import NOT_ENDED
from lucky_transport_migration.routing.open_calls import OpenCalls, WorldChanges
from lucky_transport_migration.routing.policies import RoutingPolicy
from lucky_transport_migration.routing.received import ReceivedItems

_log = logging.getLogger("lucky_transport")

#: Why there is no second answer to a call that changes something.
CHANGES = "it may change the world and is not made twice"
OWN = "nothing says that it is a read, so it is not made twice"
_DROPPED = "gRPC may read them after the status, and grpc.aio drops them then where a call failed"
_MOVED = "the world changed before both had answered"

#: Codes of a transport in trouble: they are no matter of what the world was like.
_IN_TROUBLE = frozenset({"INTERNAL", "UNKNOWN"})


class Awaited(Enum):
    """What is awaited of a call."""

    BOTH = "its primary and its shadow"
    PRIMARY = "its primary"
    SHADOW = "its shadow"
    NOTED = "nothing"

    __hash__ = object.__hash__  # each is one object, and these are looked up in every call


class Move(Enum):
    """What becomes known of a call."""

    PRIMARY_ENDS = "how its primary ended"
    PROGRAM_ENDS = "that the program ends before it does"
    SHADOW_IS_KNOWN = "what its shadow answered, or why it did not"
    FALLS_BACK = "that the candidate was lost, and the control is asked in its place"

    __hash__ = object.__hash__


_S, _M = Awaited, Move

#: The state that follows a move. The one that leads to NOTED notes the call.
MOVES: dict[Awaited, dict[Move, Awaited]] = {
    _S.BOTH: {
        _M.PRIMARY_ENDS: _S.SHADOW,
        _M.PROGRAM_ENDS: _S.NOTED,
        _M.SHADOW_IS_KNOWN: _S.PRIMARY,
        _M.FALLS_BACK: _S.PRIMARY,
    },
    _S.PRIMARY: {_M.PRIMARY_ENDS: _S.NOTED, _M.PROGRAM_ENDS: _S.NOTED, _M.FALLS_BACK: _S.PRIMARY},
    _S.SHADOW: {_M.SHADOW_IS_KNOWN: _S.NOTED},
    _S.NOTED: {},
}


class CallTarget(Protocol):
    """What a call needs of the target that it goes to. policy: is told of it. world: what it may change. open_calls:
    has it until it is noted. options: of its channel.
    """

    policy: RoutingPolicy
    world: WorldChanges
    open_calls: OpenCalls
    options: ChannelOptions

    def ask_shadow(self, call: TrackedCall) -> str:
        """Have the call's shadow asked; returns why it is not, "" when it will be. Does not wait."""
        ...

    def fell_back(self, method: str, ending: Ending) -> None:
        """Be told that the control answers, since the candidate ended so."""
        ...


class TrackedCall:
    """A `lucky_transport.routing.RoutedCall`. most: how many items are kept of each side, 0 for none and no shadow."""

    arity = ""
    metadata: Metadata = ()
    # most calls never change these: kept by the class they cost a call nothing
    _sent: ReceivedItems | None = None
    _primary: tuple[CallOutcome, Ending] | None = None
    _shadow: tuple[CallOutcome, Ending] | None = None
    _read_ending: ReadEnding | None = None
    _began_ns = _mark = 0

    def __init__(self, target: CallTarget, method: str, timeout_s: float | None, decision: Decision, most: int) -> None:
        self._effect = effect = _effect(method, decision)
        is_known = method in BY_NAME or effect is Effect.IDEMPOTENT
        self._why = "" if effect is Effect.READ else CHANGES if is_known else OWN
        if decision.shadow and not (effect is Effect.READ and most):
            decision = replace(decision, shadow="")
        self.method = method
        self.timeout_s = timeout_s
        self.decision = decision
        self.requests: list[Any] = []
        self.received = _room(target, method, decision, most)
        self.most = most
        self._target = target
        self._lock = threading.Lock()
        self._state = Awaited.BOTH if decision.shadow else Awaited.PRIMARY

    @property
    def is_over(self) -> bool:
        """True once the primary has ended."""
        return self._primary is not None

    @property
    def ending(self) -> Ending | None:
        """How the primary has ended, None before."""
        return None if self._primary is None else self._primary[1]

    def room(self) -> ReceivedItems:
        """Return room for what another side sends, as much as there is for the primary's."""
        return _room(self._target, self.method, self.decision, self.most)

    # -- what the primary does --------------------------------------------------------------------------------------

    def begins(self, arity: str, metadata: Metadata = ()) -> None:
        self._target.open_calls.add(self)
        self.arity, self.metadata = arity, metadata
        if arity.startswith("stream"):
            self._sent = ReceivedItems()
        self._began_ns = time.perf_counter_ns()
        self._mark = self._target.world.mark()
        if self._effect is not Effect.READ:
            self._target.world.begin(self)

    def sends(self, request: Any) -> None:
        if self._sent is not None:
            self._sent.add(request)
        elif not self.requests:
            awaits_shadow = self._state is Awaited.BOTH
            is_ours = awaits_shadow and not isinstance(request, bytes)
            self.requests = [copy.deepcopy(request) if is_ours else request]  # the caller may change it meanwhile
            self._began_ns = time.perf_counter_ns()
            if awaits_shadow and self.arity == "unary_stream":
                self._ask()

    def sends_no_more(self) -> None:
        if self._sent is not None:
            self._sent.has_ended = True

    def receives(self, item: Any) -> None:
        if self.is_over:
            return
        self.received.add(item)
        is_alone = self.received.is_full and self._shadow_is_left
        if self.arity.endswith("stream") and (is_alone or not self.received.wants_more):
            self.ends(SO_FAR)

    @property
    def can_fall_back(self) -> bool:
        may_repeat = self._effect in (Effect.READ, Effect.IDEMPOTENT)
        return may_repeat and self.decision.may_fall_back and self._sent is None

    def falls_back(self, ending: Ending, *, unsent: bool = False) -> bool:
        now_ns = time.perf_counter_ns()
        with self._lock:
            following = MOVES[self._state].get(Move.FALLS_BACK)
            is_safe = self.can_fall_back or (unsent and self.decision.may_fall_back)
            if following is None or not is_safe or not self.requests or self.received.items:
                return False
            failed = self.decision.primary
            self._shadow, self._why = (call_outcome(failed, (), ending, now_ns - self._began_ns), ending), ""
            self.decision = replace(self.decision, primary=CONTROL, shadow=failed)
            self._began_ns = now_ns
            self._state = following
        self._target.fell_back(self.method, ending)
        return True

    def ends_as(self, read: ReadEnding) -> None:
        self._read_ending = read

    def settle(self, within_s: float) -> None:
        """End it if it is over and nobody has said so yet."""
        read = self._read_ending
        if read is None or self.is_over:
            return
        try:
            ending = read(within_s)
        except Exception:  # of an interceptor's own kind of call
            _log.exception("%s: how the call ended cannot be read", self.method)
        else:
            if ending is not None:
                self.ends(ending)

    def left(self) -> None:
        self._target.world.end(self)

    def ends(self, ending: Ending) -> None:
        now_ns = time.perf_counter_ns()
        if ending is not SO_FAR:
            self.left()
        with self._lock:
            move = Move.PROGRAM_ENDS if ending is UNFINISHED else Move.PRIMARY_ENDS
            following = MOVES[self._state].get(move)
            if following is None:
                return
            ending = as_seen(ending, now_ns - self._began_ns, self.timeout_s)
            last_ns = self.received.last_ns if ending.code == "OK" and self.received.items else now_ns
            outcome = self._outcome(self.decision.primary, self.received, ending, self._began_ns, last_ns)
            if move is Move.PROGRAM_ENDS:
                self._shadow, self._why = None, NOT_ENDED
            self._primary, self._state = (outcome, ending), following
        if self._sent is not None:
            self.requests = self._sent.items
        elif not self.requests:
            self._target.open_calls.remove(self)
            return  # it could not be serialized: no transport was concerned, and there is nothing to note
        if following is Awaited.NOTED:
            self._note()
        elif self.arity != "unary_stream":
            self._ask_now(ending)

    def has_enough(self, count: int) -> bool:
        return self._primary is not None and self._primary[1].is_early and count >= len(self.received.items)

    # -- what the shadow does -----------------------------------------------------------------------------------------

    def shadow_answered(self, received: ReceivedItems, ending: Ending, began_ns: int, last_ns: int) -> None:
        """The shadow has ended; an early ending says that it was left."""
        self._shadow_is((self._outcome(self.decision.shadow, received, ending, began_ns, last_ns), ending), "")

    def has_no_shadow(self, why: str) -> None:
        """The shadow was not asked, or not to its end."""
        self._shadow_is(None, why)

    def _ask(self) -> None:
        if why := self._target.ask_shadow(self):
            self.has_no_shadow(why)

    def _ask_now(self, ending: Ending) -> None:
        """Ask it, if the call that has ended so can be made again."""
        if ending.is_early:
            self.has_no_shadow("the call did not come to its end")
        elif self._sent is not None and not self._sent.has_ended:
            self.has_no_shadow("the requests had not ended")
        elif self._sent is not None and self._sent.is_full:
            self.has_no_shadow(f"more than {len(self.requests)} requests are not kept")
        else:
            self._ask()

    def _shadow_is(self, answer: tuple[CallOutcome, Ending] | None, why: str) -> None:
        with self._lock:
            following = MOVES[self._state].get(Move.SHADOW_IS_KNOWN)
            if following is None:
                return  # the call fell back to it, or was noted
            self._shadow, self._why = answer, why
            self._state = following
        if following is Awaited.NOTED:
            self._note()
        elif self._shadow_is_left and self.received.is_full:
            self.ends(SO_FAR)

    @property
    def _shadow_is_left(self) -> bool:
        return self._shadow is not None and self._shadow[1].is_early

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _outcome(
        self, transport: str, received: ReceivedItems, ending: Ending, began_ns: int, last_ns: int
    ) -> CallOutcome:
        # grpcio reads a response that a servicer returns beside an error, and gives it to no caller.
        is_unseen = ending.code != "OK" and self.arity.endswith("unary")
        items = () if is_unseen else received.items
        rest = {"dropped": received.dropped, "more": received.more, "rest": received.rest}
        outcome = call_outcome(transport, items, ending, last_ns - began_ns, **rest)
        if received.first_ns and self.arity.endswith("stream"):
            outcome.first_us = (received.first_ns - began_ns) / 1e3
        return outcome

    def _note(self) -> None:
        """Tell the policy of the call, of which everything is known."""
        assert self._primary is not None
        self._target.open_calls.remove(self)
        (primary, ending), why = self._primary, self._why
        shadow = None if self._shadow is None else self._shadow[0]
        is_unfinished = ending is UNFINISHED
        is_answer = shadow is not None and not shadow.is_local and shadow.code not in _IN_TROUBLE
        if is_answer and not self._target.world.stood_still(self._mark):
            shadow, why = None, _MOVED
        unseen = {} if ending.knows_headers else {"headers": _DROPPED}
        if shadow is not None and self.arity == "stream_stream":
            unseen["order between requests and responses"] = "a shadow gets all requests at once"
        request = self.requests[0] if self._sent is None else self.requests
        is_cut = ending.is_early or self._shadow_is_left
        self._target.policy.note(
            Comparison(
                self.method,
                self.decision,
                primary,
                shadow,
                request,
                why,
                is_cut,
                unseen,
                is_unfinished,
                CallOptions(self.arity, self.metadata, self.timeout_s, self._target.options),
            )
        )


def _room(target: CallTarget, method: str, decision: Decision, most: int) -> ReceivedItems:
    if method in BY_NAME:
        return ReceivedItems(most)
    return ReceivedItems(most, lambda: target.policy.digest(method, decision))  # a call would keep itself alive by it


def _effect(method: str, decision: Decision) -> Effect:
    """Return what a call changes: as its decision says, else as the table of methods; a shadow is asked of reads."""
    if decision.effect is not None:
        return decision.effect
    row = BY_NAME.get(method)
    if row is not None:
        return row.effect
    return Effect.READ if decision.shadow else Effect.WORLD
