"""How often a call is made again that the engine refused because it was busy.

Only a refusal is retried, never a call that may have been begun: no tick is done twice. The waits grow, are never alike
for two clients, and end with the caller's deadline.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lucky_transport.deadline import Deadline
from lucky_transport.errors import Busy

__all__ = ["Retry"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retry:
    """attempts: how often a call is made at most, 1 = it is not retried. Waits in seconds."""

    attempts: int = 12
    first_wait_s: float = 0.02
    longest_wait_s: float = 2.0

    def call(self, make: Callable[[], _T], deadline: Deadline) -> _T:
        """Return what `make` returns; raises its error, Busy only after the last attempt or at the deadline."""
        wait_s = self.first_wait_s
        for _ in range(self.attempts - 1):
            try:
                return make()
            except Busy:
                pause_s = wait_s * random.uniform(0.5, 1.0)
                if pause_s >= deadline.remaining_s:
                    raise
                time.sleep(pause_s)
                wait_s = min(2 * wait_s, self.longest_wait_s)
        return make()
