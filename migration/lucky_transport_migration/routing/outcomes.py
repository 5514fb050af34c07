"""What came of a call over one of our transports, as an `Outcome`: an error of ours as the status gRPC has for it.

Rule 1: both transports raise the same class with the same text for the same reason, so code and details can be compared
        whichever of them raised.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lucky_transport import errors
from lucky_transport.staging import Outcome

__all__ = ["IN_TROUBLE", "answer", "failure"]

#: Codes of a transport in trouble: whatever the world was like, an answer does not have them.
IN_TROUBLE = frozenset({"UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"})

#: gRPC's statuses by number, for errors that carry one.
_STATUSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)

#: Error class -> the status that a server of ours answers it with.
_CODES: dict[type[BaseException], str] = {
    errors.Cancelled: "CANCELLED",
    errors.SpecError: "INVALID_ARGUMENT",
    errors.ConfigError: "INVALID_ARGUMENT",
    errors.PeerTimeout: "DEADLINE_EXCEEDED",
    errors.UnknownName: "NOT_FOUND",
    errors.NoSpace: "RESOURCE_EXHAUSTED",
    errors.LocalProtocolError: "FAILED_PRECONDITION",
    errors.MissingExtra: "FAILED_PRECONDITION",
    errors.BrokenPlugin: "FAILED_PRECONDITION",
    errors.Busy: "ABORTED",
    errors.Unimplemented: "UNIMPLEMENTED",
    errors.EngineFailed: "INTERNAL",
    errors.PeerDied: "UNAVAILABLE",
    errors.NotReachable: "UNAVAILABLE",
    errors.ClosedError: "UNAVAILABLE",
    errors.RemoteProtocolError: "DATA_LOSS",
    errors.SegmentError: "DATA_LOSS",
    errors.TransportError: "UNKNOWN",
    BaseException: "INTERNAL",
}


def answer(transport: str, items: Sequence[Any], began_ns: int, *, dropped: int = 0) -> Outcome:
    """Return the outcome of a call that succeeded just now."""
    return Outcome(transport, items, took_us=_since_us(began_ns), dropped=dropped)


def failure(transport: str, error: BaseException, began_ns: int, items: Sequence[Any] = ()) -> Outcome:
    """Return the outcome of a call that `error` ended just now; items: what a stream brought before it."""
    took_us = _since_us(began_ns)
    if isinstance(error, errors.StatusError) and error.code < len(_STATUSES):
        code, trailing = _STATUSES[error.code], error.trailing
        return Outcome(transport, items, code, error.details, trailing=trailing, took_us=took_us)
    code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    details = str(error) if isinstance(error, errors.TransportError) else f"{type(error).__name__}: {error}"
    return Outcome(transport, items, code, details, took_us=took_us)


def _since_us(began_ns: int) -> float:
    return (time.perf_counter_ns() - began_ns) / 1000
