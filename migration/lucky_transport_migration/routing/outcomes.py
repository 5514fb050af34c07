"""What came of a call over one of our transports, as an `CallOutcome`: an error of ours as the status gRPC has for it.

Both transports raise the same class with the same text for the same reason, so code and details can be compared
whichever of them raised.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lucky_transport.errors import Status, StatusError, TransportError, status_of
from lucky_transport.routing_policy import CallOutcome

__all__ = ["IN_TROUBLE", "answer", "failure"]

#: Codes of a transport in trouble: whatever the world was like, an answer does not have them.
IN_TROUBLE = frozenset({"UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"})


def answer(transport: str, items: Sequence[Any], began_ns: int, *, dropped: int = 0) -> CallOutcome:
    """Return the outcome of a call that succeeded just now."""
    return CallOutcome(transport, items, took_us=_since_us(began_ns), dropped=dropped)


def failure(transport: str, error: BaseException, began_ns: int, items: Sequence[Any] = ()) -> CallOutcome:
    """Return the outcome of a call that `error` ended just now; items: what a stream brought before it."""
    took_us = _since_us(began_ns)
    if not isinstance(error, TransportError):
        details = f"{type(error).__name__}: {error}"
        return CallOutcome(transport, items, Status.INTERNAL.name, details, took_us=took_us)
    code = status_of(error).name
    if isinstance(error, StatusError):
        return CallOutcome(transport, items, code, error.details, trailing=error.trailing, took_us=took_us)
    return CallOutcome(transport, items, code, str(error), took_us=took_us)


def _since_us(began_ns: int) -> float:
    return (time.perf_counter_ns() - began_ns) / 1000
