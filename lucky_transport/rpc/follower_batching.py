"""Whether woken followers return at once with their next call, so that one thread at a time may read for all."""

from __future__ import annotations

import time

__all__ = ["FollowerBatching"]

#: A thread that is back within this time made its next call at once; its work on the answer is a fraction of it.
_QUICK_NS = 200_000
_FIRST_PROOF = 64
_LONGEST_PROOF = 4096
#: Batching that has held for so many returns is as good as new.
_HELD = 1024
#: What a return that was not quick costs, in quick ones.
_SLOW = 8


class FollowerBatching:
    """is_on: woken threads come back at once. It is earned by many quick returns; one that is not costs several.

    Batching that broke down has to earn twice as many before the next one, until one has held for long.
    """

    __slots__ = ("_proof", "_returns", "_woken_ns", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._proof = _FIRST_PROOF
        self._returns = 0
        self._woken_ns = 0

    def note_woken(self) -> None:
        """Note that a thread was woken."""
        self._woken_ns = time.monotonic_ns()

    def note_return(self) -> None:
        """Note that a thread waits again."""
        if time.monotonic_ns() - self._woken_ns > _QUICK_NS:
            self._returns = max(0, self._returns - _SLOW)
        else:
            self._returns += 1
            if self._returns == self._proof:
                self.is_on = True
            elif self._returns == self._proof + _HELD:
                self._proof = _FIRST_PROOF

    def note_break(self) -> None:
        """Note that a thread woken while batching did not come back."""
        self.is_on = False
        self._returns = 0
        self._proof = min(2 * self._proof, _LONGEST_PROOF)
