"""Attempts of one call by a retry policy, as gRFC A6 and gRPC's core have it; without I/O.

    an attempt ends ─▶ OK ───────────────────────────────▶ the call ends
                       a code that is not retryable ─────▶ the call ends
                       throttled ────────────────────────▶ the call ends
                       committed, or the last attempt ───▶ the call ends
                       pushed back: a negative time ─────▶ the call ends
                       else ─────────────────────────────▶ another attempt, after the time pushed back or the backoff

A call is committed once anything of a response has come, or requests were let go of that another attempt would need.
https://github.com/grpc/proposal/blob/master/A6-client-retries.md
"""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass
from typing import Any

from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport_stubs.words.metadata import PREVIOUS_ATTEMPTS
from lucky_transport_stubs.words.status import CallStatus, Code

#: What a server tells a client of the next attempt.
_PUSHBACK = "grpc-retry-pushback-ms"
#: A backoff is up to so much longer or shorter (gRPC's RETRY_BACKOFF_JITTER).
_JITTER = 0.2
#: What a failure takes from a throttle.
_TOKEN = 1000
_MILLISECONDS = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """max_attempts: with the first one. codes: of an attempt that another one follows."""

    max_attempts: int
    initial_backoff_s: float
    max_backoff_s: float
    multiplier: float
    codes: frozenset[Any]


class RetryThrottle:
    """The tokens of a channel, in thousandths: with less than half of them there is no further attempt."""

    def __init__(self, most: int, ratio: int) -> None:
        self._most = self._tokens = most
        self._ratio = ratio
        self._lock = threading.Lock()

    def note_success(self) -> None:
        """Give back a part of a token."""
        with self._lock:
            self._tokens = min(self._tokens + self._ratio, self._most)

    def note_failure(self) -> bool:
        """Take a token; True when another attempt may be made."""
        with self._lock:
            self._tokens = max(self._tokens - _TOKEN, 0)
            return self._tokens > self._most // 2


class Retries:
    """The attempts of one call, for any thread. is_committed: there is none after the present one."""

    def __init__(self, policy: RetryPolicy, throttle: RetryThrottle | None) -> None:
        self._policy = policy
        self._throttle = throttle
        self._backoff_s = 0.0  # the last one, 0 before the first
        self._ended = 0
        self.is_committed = False
        self._is_under_way = False
        self._is_due = False
        self._lock = threading.Lock()

    def begins(self) -> None:
        """An attempt is under way."""
        with self._lock:
            self._is_under_way = True
            self.is_committed = self.is_committed or self._is_due

    def commit(self) -> None:
        """Commit the call to the present attempt, between two attempts to the next one once it is under way."""
        with self._lock:
            self._is_due = True
            self.is_committed = self.is_committed or self._is_under_way

    def metadata(self, entries: Metadata) -> Metadata:
        """Return the metadata of the next attempt of a call with these."""
        if not self._ended:
            return entries
        first = 1 if entries and entries[0][0] == "user-agent" else 0  # servers look for it at the beginning
        return (*entries[:first], (PREVIOUS_ATTEMPTS, str(self._ended)), *entries[first:])

    def after(self, status: CallStatus) -> float | None:
        """Return the seconds until the next attempt when one has ended so; None when the call ends with it."""
        with self._lock:
            self._is_under_way = False
        throttle = self._throttle
        if status.code is Code.OK:
            if throttle is not None:
                throttle.note_success()
            return None
        if status.code not in self._policy.codes:
            return None
        if throttle is not None and not throttle.note_failure():
            return None
        if self.is_committed:
            return None
        self._ended += 1
        if self._ended >= self._policy.max_attempts:
            return None
        pushback = _pushback_s(status.trailing)
        if pushback is None:
            return self._next_backoff_s()
        self._backoff_s = 0.0
        return pushback if pushback >= 0 else None

    def _next_backoff_s(self) -> float:
        policy = self._policy
        following = min(self._backoff_s * policy.multiplier, policy.max_backoff_s)
        self._backoff_s = following if self._backoff_s else policy.initial_backoff_s
        return self._backoff_s * random.uniform(1 - _JITTER, 1 + _JITTER)


def _pushback_s(trailing: Metadata) -> float | None:
    """Return the seconds that the server asks to wait, negative for no further attempt; None where it asks nothing."""
    for key, value in trailing:
        if key == _PUSHBACK:
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            return int(text) / 1000 if _MILLISECONDS.fullmatch(text) else -1.0
    return None
