"""How a side waits: three named strategies, and the look at ring ends before it parks.

    spin        looks all the time (a core per waiting side), giving the core away after 10 us
    adaptive    looks for 10 us, yields until 150 us (0 to 800 us: as its last waits taught it), then parks; the default
    block       parks at once

`adaptive` neither loses to `block` at control rates nor to `spin` flat out: spinning longer before parking keeps a
woken peer off the core, parking sooner sticks in the machine's slow wake-up.
"""

from __future__ import annotations

import os

from lucky_transport import native
from lucky_transport.deadline import monotonic_ns
from lucky_transport.errors import ConfigError
from lucky_transport.shm.timing import NATIVE

#: Name to the code the native module knows.
STRATEGIES = {"spin": 0, "adaptive": 1, "block": 2}
#: As adaptive, without the first 10 us: for a process whose own threads want the core. Never chosen by a user.
OVERSUBSCRIBED = 3
#: What a peer may do: it wakes us when we are parked.
PEER_WAKES = 1
#: A round that took long is no sign yet of a busy machine; where sleeping costs 100 us, so few waits cost less than it.
_SMALLEST_PENALTY = 8


def strategy_code(name: str) -> int:
    """Return the code of a strategy; raises ConfigError for an unknown name."""
    if name not in STRATEGIES:
        raise ConfigError(f"wait {name!r}", backend="shm", hint=f"expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


class LoopLooks:
    """For how long an event loop looks for the next record before it sleeps, as its last waits taught it.

    A loop looks once in each of its rounds, between which its other work goes on, and yields the core in between; it
    waits in C only for moments, and only where it has nothing else to do. Where a round took long, some waits do
    without looks: each time twice as many.
    """

    def __init__(self, strategy: int) -> None:
        self._strategy = strategy
        self._budget = native.SpinBudget(strategy)
        self._since = self._without = 0
        self._unanswered_since = 0  # 0: nothing is expected
        self._penalty = _SMALLEST_PENALTY
        self._last = 0  # look, unless it was the last of its wait

    def begin(self) -> bool:
        """A record is expected from now on; True where looking for it pays."""
        self._begin(monotonic_ns())
        if not self._unanswered_since:
            self._unanswered_since = self._since
        elif self._since - self._unanswered_since > NATIVE["SOON_NS"]:
            self._budget.learn(self._since - self._unanswered_since)  # nothing may ever answer what a stream writes
        return self.most_ns > 0

    def came(self) -> bool:
        """Something came; more is expected from now on. True where looking for it pays."""
        now = monotonic_ns()
        self._budget.learn(now - self._since)
        if not self._without:
            self._penalty = max(self._penalty - 1, _SMALLEST_PENALTY)
        self._unanswered_since = 0
        self._begin(now)
        return self.most_ns > 0

    def _begin(self, now: int) -> None:
        self._since = self._last = now
        if self._without:
            self._without -= 1

    def go_on(self) -> bool:
        """True where looking once more pays; the core was free for others meanwhile."""
        most_ns = self.most_ns
        if not most_ns:
            return False
        os.sched_yield()
        now = monotonic_ns()
        if self._last and now - self._last > NATIVE["LOST_CORE_NS"]:
            self._without, self._penalty = self._penalty, min(2 * self._penalty, NATIVE["LOST_CORE_WAITS"])
        pays = now - self._since < most_ns
        self._last = now if pays else 0
        return pays

    @property
    def most_ns(self) -> int:
        """For how long looking pays now."""
        if self._strategy == STRATEGIES["block"] or (self._without and self._strategy != STRATEGIES["spin"]):
            return 0
        return self._budget.ns
