"""One point in time that a whole chain of waits shares.

Rule 1: a timeout is turned into a `Deadline` once, at the API's edge; below it only the deadline travels.
"""

from __future__ import annotations

import time

__all__ = ["Deadline"]


_LONGEST_S = 1e9


class Deadline:
    """A moment on the monotonic clock, `timeout_s` seconds from now."""

    __slots__ = ("at_ns", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        if not timeout_s >= 0:
            raise ValueError(f"timeout {timeout_s!r} s: expected a number of seconds >= 0")
        self.timeout_s = timeout_s
        self.at_ns = time.monotonic_ns() + int(timeout_s * 1e9 if timeout_s < _LONGEST_S else _LONGEST_S * 1e9)

    @classmethod
    def after(cls, deadline: Deadline | None, default_s: float) -> Deadline:
        """Return `deadline` itself, or one `default_s` seconds from now when it is None."""
        return cls(default_s) if deadline is None else deadline

    @property
    def remaining_ns(self) -> int:
        """Nanoseconds left, never negative."""
        return max(0, self.at_ns - time.monotonic_ns())

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return self.remaining_ns / 1e9

    @property
    def expired(self) -> bool:
        """True once the moment has passed."""
        return time.monotonic_ns() >= self.at_ns

    def __repr__(self) -> str:
        return f"Deadline({self.timeout_s} s, {self.remaining_s:.3f} s left)"
