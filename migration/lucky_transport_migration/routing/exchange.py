"""One call from its decision to its note: the authority's outcome, and the shadow's when one was asked.

A call is noted once, when all that was asked has answered; nothing here waits. An answer of a shadow counts only when
the world stood still meanwhile; trouble of it always does.
"""

from __future__ import annotations

import copy
import threading
from typing import Any

from lucky_transport.messages.methods import Effect, Method
from lucky_transport.routing_policy import CallOutcome, Comparison, Decision, RoutingPolicy
from lucky_transport_migration.routing.outcomes import IN_TROUBLE
from lucky_transport_migration.routing.side import CANDIDATE, CONTROL
from lucky_transport_migration.routing.world import WorldChanges

__all__ = ["CHANGES", "RoutedCall"]

#: Why there is no second answer to a call that changes something.
CHANGES = "it changes the world and is not made twice; compare by parity, or by record and replay"
_MOVED = "the world changed between the two answers"


class RoutedCall:
    """See the module. decision: as it was made, without a shadow where none may be asked."""

    def __init__(
        self, board: RoutingPolicy, world: WorldChanges, method: Method, request: Any, decision: Decision
    ) -> None:
        self.method = method
        self.why = "" if method.effect is Effect.READ else CHANGES
        if self.why and decision.shadow:
            decision = Decision(decision.authority, "", decision.stage)
        self.decision = decision
        self.request = copy.deepcopy(request) if decision.shadow else request  # the caller may change his meanwhile
        self._board = board
        self._world = world
        self._mark = world.mark()
        self._lock = threading.Lock()
        self._authority: CallOutcome | None = None
        self._shadow: CallOutcome | None = None
        self._waits = bool(decision.shadow)
        self._ended_early = False
        self._noted = False

    @property
    def waits(self) -> bool:
        """True while an answer of a shadow would count."""
        return self._waits

    def answered(self, outcome: CallOutcome, *, ended_early: bool = False) -> None:
        """The caller has his outcome."""
        with self._lock:
            self._authority = outcome
            self._ended_early |= ended_early
        self._note_when_complete()

    def shadowed(self, outcome: CallOutcome, *, ended_early: bool = False) -> None:
        """The shadow has answered."""
        with self._lock:
            if not self._waits:
                return  # the authority failed over to it
            self._shadow, self._waits = outcome, False
            self._ended_early |= ended_early
        self._note_when_complete()

    def unshadowed(self, why: str) -> None:
        """No shadow answers, for that reason."""
        with self._lock:
            if not self._waits:
                return
            self.why, self._waits = why, False
        self._note_when_complete()

    def fails_over(self, outcome: CallOutcome) -> None:
        """The candidate was to answer and had `outcome` instead: the control answers, and this counts as the shadow."""
        with self._lock:
            self.decision = Decision(CONTROL, CANDIDATE, self.decision.stage)
            self._shadow, self.why, self._waits = outcome, "", False

    def _note_when_complete(self) -> None:
        with self._lock:
            if self._authority is None or self._waits or self._noted:
                return
            self._noted = True
            shadow, why = self._shadow, self.why
            if shadow is not None and shadow.code not in IN_TROUBLE and not self._world.stood_still(self._mark):
                shadow, why = None, _MOVED
            comparison = Comparison(
                self.method.name,
                self.decision,
                self._authority,
                shadow,
                self.request,
                why,
                self._ended_early,
            )
        self._board.note(comparison)
