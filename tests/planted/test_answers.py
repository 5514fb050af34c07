"""Each difference that two answers can have is found by the comparison that every tool uses, and named."""

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf.struct_pb2 import Struct

from lucky_transport.messages.methods import Effect, Flow
from lucky_transport.routing import Decision
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.compare.items import ItemDigest
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from lucky_transport_migration.evidence.call_comparison import compare
from lucky_transport_migration.evidence.outcome import CallOutcome, Comparison
from lucky_transport_migration.routing.received import ReceivedItems
from tests.planted.answers import PLANTS, Answer, AnswerPlant, numbered

RULES = ComparisonRules()


def row(name: str, response: type[Any] = Struct) -> ServiceMethod:
    stream = Flow.EVERY if "/Watch" in name else None
    return ServiceMethod(name, Effect.READ, "a test", "a test", stream=stream, request=Struct, response=response)


def outcome(transport: str, answer: Answer, method: ServiceMethod, most: int | None, rules: ComparisonRules) -> Any:
    """Return an answer as a side keeps it: `most` items and a digest of the rest, None = all of them."""
    items = [one.SerializeToString(deterministic=True) for one in answer.items]
    kept = ReceivedItems(len(items) + 1 if most is None else most, lambda: ItemDigest(method, rules))
    for item in items:
        kept.add(item)
    end = answer.code, answer.details, tuple(answer.headers), tuple(answer.trailing)
    return CallOutcome(transport, kept.items, *end, more=kept.more, rest=kept.rest, is_local=answer.is_local)


def compared(
    plant: AnswerPlant,
    sides: Sequence[Answer],
    most: Sequence[int | None] = (None, None),
    rules: ComparisonRules = RULES,
) -> Any:
    method = row(plant.method, type(plant.control.items[0]) if plant.control.items else Struct)
    one, other = (
        outcome(name, answer, method, kept, rules)
        for name, answer, kept in zip(("grpc", "shm"), sides, most, strict=True)
    )
    made = Comparison(method.name, Decision("grpc", "shm", "shadow"), one, other, [b""])
    return compare(made, rules, method=method)


#: How many items are kept of each side: by parity, by a shadow, by a recording and its replay.
KEPT = {"parity": (None, None), "shadow": (256, 256), "replay": (256, None)}


@pytest.mark.parametrize("tool", KEPT)
@pytest.mark.parametrize("name", PLANTS)
def test_a_difference_is_found_and_named_however_much_each_side_keeps(name: str, tool: str) -> None:
    plant = PLANTS[name]
    found = compared(plant, (plant.control, plant.candidate), KEPT[tool])
    assert (found.verdict, found.aspect) == (plant.verdict, plant.aspect)
    missing = [word for word in plant.words if word not in found.sentence]
    assert not missing, found.sentence


@pytest.mark.parametrize("tool", KEPT)
@pytest.mark.parametrize("name", PLANTS)
def test_an_answer_equals_itself_and_nothing_of_it_is_left_out(name: str, tool: str) -> None:
    found = compared(PLANTS[name], (PLANTS[name].control,) * 2, KEPT[tool])
    assert (found.verdict, found.left_out) == ("equal", {})


def test_of_a_field_that_is_left_out_the_rest_of_a_stream_says_nothing() -> None:
    plant, rules = (
        PLANTS["late item changed"],
        ComparisonRules({"google.protobuf.Value.number_value": Rule(skip="a clock")}),
    )
    assert compared(plant, (plant.control, plant.candidate), (256, 256), rules).verdict == "equal"
    lost = PLANTS["late item lost"]
    assert compared(lost, (lost.control, lost.candidate), (256, 256), rules).verdict == "different"


def test_where_a_rule_has_a_tolerance_the_rest_is_counted_and_said_to_be_left_out() -> None:
    plant, rules = PLANTS["late item changed"], ComparisonRules({"google.protobuf.Value.number_value": Rule(abs=1e-9)})
    found = compared(plant, (plant.control, plant.candidate), (256, 256), rules)
    assert found.verdict == "equal"
    assert "has a tolerance" in found.left_out["items beyond the first 256"]


def test_digests_that_were_made_by_other_rules_are_not_compared_and_that_is_said() -> None:
    plant, skips = (
        PLANTS["late item changed"],
        ComparisonRules({"google.protobuf.Value.bool_value": Rule(skip="a test")}),
    )
    method = row(plant.method)
    one, other = (outcome(name, plant.control, method, 256, rules) for name, rules in (("grpc", RULES), ("shm", skips)))
    found = compare(Comparison(method.name, Decision("grpc", "shm"), one, other, [b""]), RULES, method=method)
    assert (found.verdict, found.left_out) == (
        "equal",
        {"items beyond the first 256": "no digest of them was made by these rules"},
    )


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_where_the_controls_own_side_ended_the_call_there_is_nothing_to_compare_with(code: str) -> None:
    plant = PLANTS["text"]
    found = compared(plant, (Answer((), code, "gone", is_local=True), plant.candidate))
    assert (found.verdict, found.why) == ("not_compared", f"grpc brought no answer: {code}: gone")


def test_two_maps_in_another_order_are_equal_beyond_what_is_kept_too() -> None:
    method, items = row("/plants.v1.Plants/Watch"), numbered(1)
    items[0].update({"a": 1, "b": 2})
    first = items[0].SerializeToString()
    other = Struct()
    for key in reversed(list(items[0].fields)):
        other.fields[key].CopyFrom(items[0].fields[key])
    digests = [ItemDigest(method, RULES) for _ in range(2)]
    for digest, payload in zip(digests, (first, other.SerializeToString()), strict=True):
        digest.add(payload)
    assert digests[0].value == digests[1].value != ItemDigest(method, RULES).value
