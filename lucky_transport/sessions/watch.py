"""What ends an advance before its last tick: an event somebody asked for, the deadline, a caller who gave up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout

__all__ = ["Watch"]


class Watch:
    """Called after each tick with its events and whether the world is over.

    interrupts: the names asked for, looked for every `check_every` ticks and at the end. is_given_up: True when nobody
    waits for the outcome any more.
    """

    def __init__(
        self,
        interrupts: Collection[str],
        check_every: int,
        deadline: Deadline,
        is_given_up: Callable[[], bool] | None,
    ) -> None:
        self._interrupts = frozenset(interrupts)
        self._check_every = check_every
        self._deadline = deadline
        self._is_given_up = is_given_up
        self._ticks = 0
        self._happened: list[str] = []

    def __call__(self, events: Sequence[str], is_over: bool) -> str:
        """Return the first event asked for, in the order they happened; "" to go on. Raises PeerTimeout."""
        self._ticks += 1
        if self._interrupts:
            self._happened += events
            if is_over or self._ticks % self._check_every == 0:
                found = next((name for name in self._happened if name in self._interrupts), "")
                self._happened.clear()
                if found:
                    return found
        if self._deadline.expired or (self._is_given_up is not None and self._is_given_up()):
            raise PeerTimeout(
                f"an advance did {self._ticks} ticks within {self._deadline.timeout_s:g} s and was to do more",
                hint="ask for fewer ticks at once, or raise the timeout",
            )
        return ""
