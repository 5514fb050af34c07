"""What came of a call: how it ended, and the outcome that policies take note of.

Both transports raise the same class with the same text for the same reason, so code and details can be compared
whichever of them raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucky_transport.errors import Status, StatusError, TransportError, status_of
from lucky_transport.routing import Ending
from lucky_transport_migration.compare.shown import error_text
from lucky_transport_migration.routing_policy import CallOutcome

__all__ = ["call_outcome", "ending_of"]


def ending_of(error: BaseException | None) -> Ending:
    """Return the ending of a typed call that raised `error`, None for nothing."""
    if error is None:
        return Ending()
    if not isinstance(error, TransportError):
        return Ending(Status.INTERNAL.name, error_text(error))
    code = status_of(error).name
    if isinstance(error, StatusError):
        return Ending(code, error.details, trailing=error.trailing)
    return Ending(code, str(error))


def call_outcome(
    transport: str, items: Sequence[Any], ending: Ending, took_ns: int, *, dropped: int = 0
) -> CallOutcome:
    """Return the outcome of a call over a transport; dropped: items that a stream skipped."""
    took_us = max(0, took_ns) / 1e3
    return CallOutcome(transport, items, ending.code, ending.details, ending.headers, ending.trailing, took_us, dropped)
