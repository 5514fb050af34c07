"""How recorded calls of a team's own service are made again, and what their ends show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucky_transport_migration.compare.rules import ComparisonRules
from lucky_transport_migration.evidence.outcome import CallOutcome
from lucky_transport_migration.evidence.record import DIFFERENT, EQUAL, NOT_COMPARED, Evidence
from lucky_transport_migration.recording.asking import Asking, RecordedMethods, compared
from lucky_transport_migration.recording.entries import MASKED, RecordedCall, masked

STREAM = RecordedCall(
    "/t.Own/Watch", "protobuf", "grpc", (b"ask",), (b"a", b"b"), "CANCELLED", left=True, us=2e6, arity="unary_stream"
)
UNARY = replace(STREAM, call="/t.Own/Get", arity="unary_unary", items=())


def asking(call: RecordedCall) -> Asking:
    method = RecordedMethods().find(call)
    assert method is not None
    return Asking.of(call, method)


def shown(call: RecordedCall, now: CallOutcome) -> Evidence:
    method = RecordedMethods().find(call)
    assert method is not None
    was = CallOutcome(call.transport, call.items, call.code)
    return compared(3, Asking.of(call, method), was, now, ComparisonRules())


def test_a_stream_that_was_left_is_left_after_as_many_responses() -> None:
    how = asking(STREAM)
    assert (how.cancel_after, how.cancel_after_s, how.is_cut) == (2, None, True)
    assert shown(STREAM, CallOutcome("shm", [b"a", b"b"], "CANCELLED")).verdict == EQUAL


def test_a_call_that_was_left_without_a_response_is_left_after_as_much_time() -> None:
    how = asking(UNARY)
    assert (how.cancel_after, how.cancel_after_s) == (None, 2.0)
    assert how.incomparable(CallOutcome("shm", code="CANCELLED")) == ""
    assert "had one by then now" in how.incomparable(CallOutcome("shm", [b"a"]))


@pytest.mark.parametrize("now", [CallOutcome("shm", [b"a"]), CallOutcome("shm", [b"a"], "INTERNAL")])
def test_a_stream_that_ends_before_it_is_left_is_different(now: CallOutcome) -> None:
    found = shown(STREAM, now)
    assert found.verdict != EQUAL
    if now.code == "OK":
        assert (found.verdict, found.aspect, found.where) == (DIFFERENT, "count", "call 3: items")
        assert found.values["shm"] == "1 items, then OK"


def test_a_stream_that_its_server_cancelled_is_read_to_its_end() -> None:
    how = asking(replace(STREAM, left=False))
    assert (how.cancel_after, how.is_cut) == (None, False)
    assert shown(replace(STREAM, left=False), CallOutcome("shm", [b"a", b"b"])).aspect == "code"


def test_a_late_call_has_its_deadline_again() -> None:
    late = replace(STREAM, code="DEADLINE_EXCEEDED", left=False, timeout_s=0.25)
    how = asking(late)
    assert (how.timeout_s, how.cancel_after, how.is_cut) == (0.25, None, False)


def test_secrets_are_masked_and_left_out() -> None:
    sent = (("authorization", "Bearer 1"), ("x-api-key-bin", b"1"), ("cookie", "1"), ("team", "weather"))
    kept = masked(sent)
    assert [value for _, value in kept] == [MASKED, MASKED, MASKED, "weather"]
    how = asking(replace(STREAM, metadata=kept))
    assert how.metadata == (("team", "weather"),)
    assert how.without == ("authorization", "x-api-key-bin", "cookie")


def test_a_secret_that_is_given_is_not_wanted() -> None:
    kept = masked((("authorization", "Bearer 1"), ("cookie", "1")))
    method = RecordedMethods().find(STREAM)
    how = Asking.of(replace(STREAM, metadata=kept), method, given=(("authorization", "Bearer 2"),))
    assert how.without == ("cookie",)


def test_a_refusal_for_want_of_a_secret_that_no_recording_has_shows_nothing() -> None:
    call = replace(UNARY, metadata=masked((("authorization", "Bearer 1"),)), items=(b"a",), code="OK", left=False)
    refused = CallOutcome("shm", code="UNAUTHENTICATED", details="no token")
    found = shown(call, refused)
    assert (found.verdict, found.why) == (NOT_COMPARED, "it is made without its secret, and ended with UNAUTHENTICATED")
    assert shown(call, CallOutcome("shm", code="NOT_FOUND")).verdict == DIFFERENT
    same = replace(call, code="UNAUTHENTICATED", items=())
    assert shown(same, replace(refused, details="")).verdict == EQUAL, "it was refused with its secret too"
    assert shown(replace(call, metadata=()), refused).verdict == DIFFERENT


def test_without_a_word_on_how_it_is_called_no_call_is_made() -> None:
    assert RecordedMethods().find(replace(STREAM, arity="")) is None
