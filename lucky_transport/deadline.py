"""One point in time that a chain of waits shares, and the log line of a wait that has become long.

A timeout is turned into a `Deadline` once, at the edge of the API; below it only the deadline travels.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial

from lucky_transport.errors import ConfigError
from lucky_transport.uninterrupted import start_thread

__all__ = ["Deadline", "log_long_wait", "monotonic_ns"]

_log = logging.getLogger("lucky_transport")

#: The clock of all deadlines, in nanoseconds: a test that freezes the functions of `time` does not stop it.
monotonic_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)

#: A shorter wait is not logged.
NOTICE_AFTER_S = 5.0

#: True inside a wait that is logged when it lasts; the waits that it consists of are not.
_waits: ContextVar[bool] = ContextVar("_waits", default=False)

#: Longer timeouts are cut to this: about 30 years.
_LONGEST_S = 1e9


class Deadline:
    """A moment on the monotonic clock, `timeout_s` seconds from now. Raises ConfigError for less than 0."""

    __slots__ = ("at_ns", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        if not timeout_s >= 0:
            raise ConfigError(f"timeout {timeout_s!r} s: expected a number of seconds >= 0")
        self.timeout_s = timeout_s
        self.at_ns = monotonic_ns() + int(timeout_s * 1e9 if timeout_s < _LONGEST_S else _LONGEST_S * 1e9)

    @classmethod
    def after(cls, deadline: Deadline | None, default_s: float) -> Deadline:
        """Return `deadline` itself, or one `default_s` seconds from now when it is None."""
        return cls(default_s) if deadline is None else deadline

    @property
    def remaining_ns(self) -> int:
        """Nanoseconds left, never negative."""
        return max(0, self.at_ns - monotonic_ns())

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return self.remaining_ns / 1e9

    @property
    def expired(self) -> bool:
        """True once the moment has passed."""
        return monotonic_ns() >= self.at_ns

    def __repr__(self) -> str:
        return f"Deadline({self.timeout_s} s, {self.remaining_s:.3f} s left)"


@contextmanager
def log_long_wait(what: str, timeout_s: float | None = None) -> Generator[None]:
    """A context in which something waits for `what`, at most `timeout_s` (None: without a limit).

    After `NOTICE_AFTER_S` the wait is logged to "lucky_transport", as a warning: warnings are shown where no logging is
    configured. A wait with a shorter timeout is not logged, because its own error comes as soon, and one inside another
    is part of that.
    """
    end = "" if timeout_s is None else f"; gives up after {timeout_s:g} s"
    timer = threading.Timer(NOTICE_AFTER_S, _log.warning, ("still waiting for %s%s", what, end))
    timer.name = "lucky-notice"
    timer.daemon = True
    is_inside = _waits.get()
    token = _waits.set(True)
    try:
        if not is_inside and (timeout_s is None or timeout_s > NOTICE_AFTER_S):
            with suppress(RuntimeError):  # no thread is to be had: the wait is what counts
                start_thread(timer)
        yield
    finally:
        _waits.reset(token)
        timer.cancel()
