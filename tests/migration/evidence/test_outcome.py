"""Whose side ended a call: the caller's own, or the application, whose answer it is."""

from __future__ import annotations

import pytest

from lucky_transport.errors import EngineFailed, NotReachable, PeerDied, PeerTimeout, Status, StatusError
from lucky_transport.routing import Ending
from lucky_transport_migration.evidence.outcome import as_seen, ending_of

_LATE = Ending("DEADLINE_EXCEEDED", "Deadline Exceeded", is_local=True)


@pytest.mark.parametrize(
    ("took_s", "timeout_s", "is_local"), [(1.0, 1.0, True), (0.998, 1.0, True), (0.2, 1.0, False), (9.0, None, False)]
)
def test_a_deadline_is_over_when_the_callers_clock_says_so(
    took_s: float, timeout_s: float | None, is_local: bool
) -> None:
    assert as_seen(_LATE, int(took_s * 1e9), timeout_s).is_local == is_local


def test_another_end_stays_as_it_is_whatever_the_clock_says() -> None:
    gone = Ending("UNAVAILABLE", "Socket closed", is_local=True)
    assert as_seen(gone, 0, 1.0) is gone


@pytest.mark.parametrize(
    ("error", "code", "is_local"),
    [
        (NotReachable("nobody there"), "UNAVAILABLE", True),
        (PeerDied("it ended"), "UNAVAILABLE", True),
        (PeerTimeout("too late"), "DEADLINE_EXCEEDED", True),
        (StatusError(Status.UNAVAILABLE, "try again"), "UNAVAILABLE", False),
        (EngineFailed("it broke"), "INTERNAL", False),
    ],
)
def test_of_a_typed_call_the_error_says_it(error: Exception, code: str, is_local: bool) -> None:
    found = ending_of(error)
    assert (found.code, found.is_local) == (code, is_local)
