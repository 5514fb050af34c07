"""Each kind of difference between two answers is found and named, and what proves nothing is not taken for one."""

import copy
import json
import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.messages import (
    AgentFrame,
    EntityId,
    GetJointStateResponse,
    JointState,
    RobotControllerSummary,
    StepRequest,
    StepResponse,
)
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import METHODS, method
from lucky_transport.registry import load
from lucky_transport.routing import Decision
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from lucky_transport_migration.evidence.call_comparison import ASPECTS, compare
from lucky_transport_migration.evidence.outcome import CallOptions, CallOutcome, Comparison
from lucky_transport_migration.evidence.tally import Tally, nothing_compared
from tests.planted.mirror_engine import filled
from tests.support.fixtures.migration_evidence import both, seen
from tests.support.message_strategies import messages

pytest.importorskip("google.protobuf", reason="typed payloads are compared with what stubs send")

EVERY = "/hazel.rpc.AgentService/StreamRobotController"
LATEST = "/hazel.rpc.MujocoService/StreamJointState"
FOREIGN = "/team.v1.Planner/GetPlan"

RULES = ComparisonRules()


def joints(*positions: float) -> GetJointStateResponse:
    return GetJointStateResponse(True, "", JointState(list(positions), [0.5]))


def stream(*numbers: int) -> list[Any]:
    return [RobotControllerSummary(entity=EntityId(number)) for number in numbers]


def wire(row: Any, message: Any) -> bytes:
    """Return the response as a program of gRPC gets it."""
    response = load("lucky_transport_grpc._pb:methods", owner="tests")()[row.name].response
    return load("lucky_transport_grpc.codec:encode", owner="tests")(message, row.response, response).SerializeToString()


def named(evidence: Any) -> tuple[str, str, str, dict[str, Any]]:
    return evidence.verdict, evidence.aspect, evidence.where, evidence.values


# equal


@given(data=st.data(), row=st.sampled_from(METHODS))
def test_what_is_the_same_is_equal_as_messages_and_as_bytes(data: st.DataObject, row: Any) -> None:
    message = data.draw(messages(row.response))
    payload = wire(row, message)
    for one, other in ((message, copy.deepcopy(message)), (payload, payload), (payload, wire(row, message))):
        outcomes = CallOutcome("grpc", [one]), CallOutcome("shm", [other])
        assert compare(Comparison(row.name, Decision("grpc", "shm", "shadow"), *outcomes), RULES).verdict == "equal"


def test_evidence_has_what_both_sides_did() -> None:
    evidence = compare(both([joints(1.0)], [joints(1.0)]), RULES)
    assert (evidence.stage, evidence.kind, evidence.verdict, evidence.aspect) == ("shadow", "live", "equal", "")
    assert (evidence.primary.transport, evidence.primary.us, evidence.primary.items) == ("grpc", 100.0, 1)
    assert evidence.shadow is not None
    assert evidence.shadow.transport == "shm"


def test_fields_that_rules_leave_out_are_named_in_the_evidence() -> None:
    one, other = (StepResponse(observation=AgentFrame(timestamp_ms=at)) for at in (1, 2))
    evidence = compare(both([one], [other], method="/hazel.rpc.AgentService/Step"), RULES)
    assert evidence.verdict == "equal"
    assert "AgentFrame.timestamp_ms" in evidence.left_out


def test_two_answers_of_one_transport_are_noise() -> None:
    evidence = compare(both([joints(1.0)], CallOutcome("grpc", [joints(2.0)])), RULES)
    assert (evidence.kind, evidence.verdict) == ("aa", "different")
    assert evidence.values == {"grpc": 1.0, "grpc again": 2.0}


# each kind of difference, found and named


def test_another_value_is_found_in_a_response_of_every_method() -> None:
    for row in [row for row in METHODS if fields_of(row.response)]:
        message, changed = filled(row.response, Random(0)), row.response()
        for one, other in ((message, changed), (wire(row, message), wire(row, changed))):
            outcomes = CallOutcome("grpc", [one]), CallOutcome("shm", [other])
            evidence = compare(Comparison(row.name, Decision("grpc", "shm", "shadow"), *outcomes), RULES)
            assert (evidence.verdict, evidence.aspect) == ("different", "item"), row.name
            assert "bytes" not in evidence.where, row.name


@pytest.mark.parametrize(
    ("shadow", "aspect", "where", "said"),
    [
        (stream(1, 3, 2, 4), "order", "items[1]", ("item 1", "item 2")),
        (stream(1, 3, 4), "count", "items[1]", ("4 items", "3 items, without item 1 of the other")),
        (stream(1, 2, 3), "count", "items[3]", ("4 items", "3 items, without item 3 of the other")),
        (stream(1), "count", "items[1]", ("4 items", "1 items, without items 1 to 3 of the other")),
        (stream(1, 2, 9, 3, 4), "count", "items[2]", ("4 items, without item 2 of the other", "5 items")),
        (stream(1, 2, 9, 4), "item", "items[2].entity.id", (3, 9)),
        (stream(1, 9, 2, 3), "item", "items[1].entity.id", (2, 9)),
        (stream(1, 2, 3, 3), "item", "items[3].entity.id", (4, 3)),
        ([], "count", "items[0]", ("4 items", "0 items, without items 0 to 3 of the other")),
    ],
)
def test_a_stream_that_differs_is_named_by_what_happened_to_it(
    shadow: list[Any], aspect: str, where: str, said: tuple[Any, Any]
) -> None:
    evidence = compare(both(stream(1, 2, 3, 4), shadow, method=EVERY), RULES)
    assert named(evidence) == ("different", aspect, where, dict(zip(("grpc", "shm"), said, strict=True)))


@given(st.lists(st.integers(0, 5), max_size=8), st.lists(st.integers(0, 5), max_size=8))
def test_streams_are_equal_just_when_all_items_are(one: list[int], other: list[int]) -> None:
    outcomes = CallOutcome("grpc", stream(*one)), CallOutcome("shm", stream(*other))
    evidence = compare(Comparison(EVERY, Decision("grpc", "shm", "shadow"), *outcomes), RULES)
    assert (evidence.verdict == "equal") == (one == other)
    assert (evidence.verdict == "different") == (evidence.aspect in ("item", "order", "count"))


def test_metadata_may_come_in_another_order_of_keys_and_a_rule_leaves_one_out() -> None:
    """That others are compared is shown by tests/planted/test_answers.py."""

    def outcome(name: str, **metadata: Any) -> CallOutcome:
        return CallOutcome(name, [joints(1.0)], **metadata)

    pairs, reordered = (("a", "1"), ("b", "2"), ("b", "3")), (("b", "2"), ("a", "1"), ("b", "3"))
    assert compare(both(outcome("grpc", trailing=pairs), outcome("shm", trailing=reordered)), RULES).verdict == "equal"
    rules = ComparisonRules({"metadata.x-bin": Rule(skip="its own each time")})
    for where in ("headers", "trailing"):
        evidence = compare(both(outcome("grpc", **{where: (("x-bin", b"\0"),)}), outcome("shm")), rules)
        assert (evidence.verdict, evidence.left_out) == ("equal", {"metadata.x-bin": "its own each time"})
    others = (outcome(name, headers=(("x", "1"),)) for name in ("grpc", "shm"))
    assert compare(both(*others), rules).left_out == {}


# a candidate that fails


@pytest.mark.parametrize("stage", ["shadow", "canary 10%", "shm"])
@pytest.mark.parametrize(
    ("code", "aspect"), [("UNAVAILABLE", "code"), ("INTERNAL", "code"), ("DEADLINE_EXCEEDED", "late")]
)
def test_a_candidate_that_crashes_or_is_late_has_failed_whether_shadow_or_primary(
    stage: str, code: str, aspect: str
) -> None:
    candidate, control = CallOutcome("shm", (), code, "why", is_local=True), CallOutcome("grpc", [joints(1.0)])
    sides = (control, candidate) if stage == "shadow" else (candidate, control)
    evidence = compare(both(*sides, stage=stage), RULES)
    assert (evidence.verdict, evidence.aspect, evidence.where) == ("failed", aspect, "code")
    assert evidence.values == {"grpc": "OK", "shm": f"{code}: why"}


def test_both_too_late_is_the_same_deadline_behaviour() -> None:
    late = [
        CallOutcome(name, stream(1), "DEADLINE_EXCEEDED", f"{name} was late", is_local=True) for name in ("grpc", "shm")
    ]
    found = compare(both(*late, method=EVERY), RULES)
    assert (found.verdict, found.left_out["details"]) == ("equal", "both were late")


def test_a_call_without_a_shadow_shows_only_whether_the_candidate_was_there() -> None:
    reset: dict[str, Any] = {"method": "/hazel.rpc.AgentService/ResetAgent"}
    assert compare(both([1], None, stage="canary 10%", **reset), RULES).verdict == "not_compared"
    refused = CallOutcome("shm", (), "NOT_FOUND", "no agent")
    assert compare(both(refused, None, stage="canary 10%", **reset), RULES).verdict == "not_compared"
    gone = CallOutcome("shm", (), "UNAVAILABLE", "the engine died", is_local=True)
    evidence = compare(both(gone, None, stage="canary 10%", **reset), RULES)
    assert named(evidence) == ("failed", "code", "code", {"shm": "UNAVAILABLE: the engine died"})
    gone = CallOutcome("grpc", (), "UNAVAILABLE", "the engine died", is_local=True)
    assert compare(both(gone, None, why="dropped", **reset), RULES).why == "dropped"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/hazel.rpc.AgentService/ResetAgent", "it changes what there is, and is not made twice"),
        ("/hazel.rpc.MujocoService/GetJointState", "no shadow was asked"),
        (FOREIGN, "what it changes is not known, so it is not made twice"),
    ],
)
def test_a_call_that_was_not_compared_says_why(name: str, why: str) -> None:
    assert compare(both([1], None, method=name), RULES).why == why


# what proves nothing


def test_of_a_stream_that_was_left_only_what_both_sent_is_compared() -> None:
    def left(one: list[Any], other: list[Any]) -> Any:
        sides = CallOutcome("grpc", one, "CANCELLED", "left"), CallOutcome("shm", other)
        return compare(both(*sides, method=EVERY, ended_early=True), RULES)

    assert left(stream(1, 2), stream(1, 2, 3)).verdict == "equal"
    assert left(stream(1, 2), stream(1, 3)).aspect == "item"
    assert left(stream(1, 2, 3), stream(1, 3)).aspect == "count"
    assert left(stream(1, 2, 3), stream(1, 3, 4)).where == "items[1]"
    assert left(stream(1, 2, 3), stream(1, 3, 4)).aspect == "count"
    assert left(stream(1, 3, 4), stream(1, 2, 3)).aspect == "count"
    assert left(stream(1, 2), []).verdict == "not_compared"
    assert left(stream(1, 2), []).why


def test_gaps_of_a_stream_that_may_skip_items_are_no_difference() -> None:
    sides = CallOutcome("grpc", [joints(1.0)]), CallOutcome("shm", [joints(2.0)], dropped=3)
    evidence = compare(both(*sides, method=LATEST), RULES)
    assert (evidence.verdict, evidence.why) == ("not_compared", "shm skipped 3 items that its reader was too slow for")
    gaps = CallOutcome("grpc", stream(1)), CallOutcome("shm", stream(1), dropped=1)
    values = {"grpc": "1 items, 0 skipped", "shm": "1 items, 1 skipped"}
    assert named(compare(both(*gaps, method=EVERY), RULES)) == ("different", "count", "items", values)


@pytest.mark.parametrize("sent", [19, 1, 21])
def test_a_stream_that_may_skip_items_and_skipped_none_has_as_many_as_the_other(sent: int) -> None:
    found = compare(both([joints(1.0)] * 20, [joints(1.0)] * sent, method=LATEST), RULES)
    assert (found.verdict, found.aspect) == ("different", "count")
    cut = both([joints(1.0)] * 20, [joints(1.0)] * sent, method=LATEST, ended_early=True)
    assert compare(cut, RULES).verdict == "equal"


@pytest.mark.parametrize(
    ("skipped", "verdict"), [(2, "not_compared"), (1, "different"), (0, "different"), (3, "different")]
)
def test_a_stream_that_skipped_items_lacks_just_those(skipped: int, verdict: str) -> None:
    control = CallOutcome("grpc", [joints(1.0)] * 20)
    for candidate in (
        CallOutcome("shm", [joints(1.0)] * 18, dropped=skipped),
        CallOutcome("shm", [joints(1.0)] * 18, trailing=(("lucky-dropped", str(skipped)),)),  # as stubs are told
    ):
        found = compare(both(control, candidate, method=LATEST), RULES)
        assert (found.verdict, found.aspect) == (verdict, "count" if verdict == "different" else "")


def test_a_typed_call_says_that_metadata_was_not_looked_at() -> None:
    typed, stubs = (compare(replace(both([1], [1]), request=one), RULES).left_out for one in (StepRequest(), b""))
    assert {"headers", "trailing metadata"} <= set(typed)
    assert not {"headers", "trailing metadata"} & set(stubs)
    left = compare(both(stream(1, 2), stream(1), method=EVERY, ended_early=True), RULES)
    assert set(left.left_out) == {"items beyond the last that both sent", *(one for one in ASPECTS if one != "items")}


# bytes that nobody knows


def test_messages_of_a_teams_own_are_compared_as_bytes() -> None:
    evidence = compare(both([b"abcd"], [b"abxd"], method=FOREIGN), RULES)
    assert named(evidence) == ("different", "item", "bytes[2]", {"grpc": 99, "shm": 120})
    assert named(compare(both([b"abc"], [b"ab"], method=FOREIGN), RULES))[2] == "len(bytes)"


def test_a_field_that_this_version_does_not_know_is_said_to_be_one() -> None:
    known = wire(method("MujocoService/GetJointState"), joints(1.0))
    evidence = compare(both([known + b"\xfa\x3f\x01x"], [known]), RULES)
    place = "len(bytes) (a response with fields that this version does not know, or none)"
    assert named(evidence) == ("different", "item", place, {"grpc": len(known) + 4, "shm": len(known)})


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_that_are_no_message_are_compared_as_they_are(one: bytes, other: bytes) -> None:
    outcomes = CallOutcome("grpc", [one]), CallOutcome("shm", [other])
    call = Comparison("/hazel.rpc.AgentService/Step", Decision("grpc", "shm", "shadow"), *outcomes)
    evidence = compare(call, RULES)
    assert evidence.verdict == "equal" or one != other
    json.loads(evidence.write())


def test_tolerances_hold_for_bytes_of_known_methods() -> None:
    row = method("MujocoService/GetJointState")
    sides = [wire(row, joints(1.0))], [wire(row, joints(1.0 + 1e-6))]
    assert compare(both(*sides), RULES).where == "state.positions[0]"
    assert compare(both(*sides), ComparisonRules({"JointState.positions": Rule(abs=1e-5)})).verdict == "equal"


def test_equal_bytes_with_a_nan_differ_where_a_rule_says_so() -> None:
    payload = wire(method("MujocoService/GetJointState"), joints(math.nan))
    assert compare(both([payload], [payload]), RULES).verdict == "equal"
    assert (
        compare(both([payload], [payload]), ComparisonRules({"JointState.positions": Rule(nan="different")})).verdict
        == "different"
    )


def test_a_retry_policy_hides_attempts_and_that_is_said() -> None:
    made, config = both([], []), '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3}}]}'
    made.options = CallOptions(channel=(("grpc.service_config", config),))
    assert "attempts before the last" in compare(made, RULES).left_out
    made.options = CallOptions(channel=(("grpc.service_config", "{}"),))
    assert "attempts before the last" not in compare(made, RULES).left_out


def test_what_a_check_of_tokens_refused_is_told_how_to_pass() -> None:
    refused, missing = Tally(), Tally()
    for tally, code in ((refused, "UNAUTHENTICATED"), (missing, "NOT_FOUND")):
        tally.add(seen("/lab.Arm/Read", code=code))
    assert "--metadata" in nothing_compared({"/lab.Arm/Read": refused})
    assert "--metadata" not in nothing_compared({"/lab.Arm/Read": missing})
