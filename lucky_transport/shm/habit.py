"""What a waiting side learns from its waits: how long to look at the rings before it parks.

    habit = Habit(strategy)
    spin(readers, strategy, habit.longest_ns, ...)
    habit.learn(waited_ns)

Rule 1: being woken costs either side 100 us and more, much of it in CPU, so looking for 800 us pays where the
        last waits were over within that, and looking at all does not where they were not. In between it is 150 us.
Rule 2: a change of rate is believed at once; an extreme only after some waits that agree.

_atomics.c does the same for the waits inside the native module.
"""

from __future__ import annotations

from lucky_transport.shm.wait import STRATEGIES

__all__ = ["Habit"]

_YIELD_NS = 150_000
_SOON_NS = 800_000
_SPIN_NS = 10_000_000
#: So many waits in a row make a habit.
_LATE, _SOON = -2, 4


class Habit:
    """Of one waiting side. `longest_ns`: for how long its next wait looks; 0: it parks at once."""

    __slots__ = ("_adapts", "_score", "longest_ns")

    def __init__(self, strategy: int) -> None:
        self._adapts = strategy == STRATEGIES["adaptive"]
        self._score = 0
        self.longest_ns = _YIELD_NS if self._adapts else _SPIN_NS

    def learn(self, waited_ns: int) -> None:
        """A wait was over after so long: something came, or its time had passed."""
        if not self._adapts:
            return
        score = self._score
        if waited_ns <= _SOON_NS:
            score = 0 if score < 0 else min(score + 1, _SOON)
        else:
            score = 0 if score > 0 else max(score - 1, _LATE)
        self._score = score
        self.longest_ns = _SOON_NS if score == _SOON else 0 if score == _LATE else _YIELD_NS
