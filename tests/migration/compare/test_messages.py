"""Where two answers, or the items of two streams, first differ, how it is shown, and which rules make them equal."""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport.codec import flatbuffers
from lucky_transport.errors import ConfigError
from lucky_transport.messages import (
    AgentFrame,
    CameraConfigResponse,
    FullState,
    GetAgentSchemaResponse,
    GetCapabilityManifestResponse,
    GetFullStateResponse,
    GetJointStateResponse,
    ImageFrame,
    JointState,
    ListEntitiesResponse,
    StepResponse,
    TelemetryFrame,
    ValidateTaskContractResponse,
)
from lucky_transport.messages.methods import METHODS, method
from lucky_transport_migration.compare.arrays import array_rule, first_difference, first_unequal_number, flatten
from lucky_transport_migration.compare.difference import AtCall, AtMove, Difference, LocatedDifference, shown
from lucky_transport_migration.compare.items import ItemPairs
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.compare.rules import ComparisonRules, Rule
from tests.support.fixtures.migration_evidence import seen
from tests.support.message_strategies import messages

#: Message classes without anything that a clock puts into them.
TIMELESS = (
    GetAgentSchemaResponse,
    CameraConfigResponse,
    GetFullStateResponse,
    ListEntitiesResponse,
    GetCapabilityManifestResponse,
    ValidateTaskContractResponse,
)


@given(data=st.data(), kind=st.sampled_from(TIMELESS))
def test_messages_are_equal_just_when_they_look_the_same(data: st.DataObject, kind: type[Any]) -> None:
    one, other = data.draw(messages(kind)), data.draw(messages(kind))
    assert first_unequal(kind, one, copy.deepcopy(one)) is None
    assert (first_unequal(kind, one, other) is None) == (repr(one) == repr(other))


@given(data=st.data(), kind=st.sampled_from(TIMELESS))
def test_a_tolerance_for_all_fields_counts_for_numbers_alone(data: st.DataObject, kind: type[Any]) -> None:
    one, rules = data.draw(messages(kind)), ComparisonRules({"*": Rule(abs=1e-300)})
    assert first_unequal(kind, one, copy.deepcopy(one), rules) is None
    left, right = (StepResponse(success=True, message=text) for text in ("left", "right"))
    assert first_unequal(StepResponse, left, right, rules) == Difference("item", "message", "left", "right")


@given(message=messages(StepResponse))
def test_what_crosses_a_wire_is_equal_to_what_was_sent(message: StepResponse) -> None:
    assert first_unequal(type(message), message, flatbuffers.decode(type(message), flatbuffers.encode(message))) is None


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        (FullState([0.0]), FullState([-0.0]), "qpos[0]"),
        (FullState(time=0.1), FullState(time=0.1 + 1e-16), "time"),
        (FullState([1.0]), FullState([1.0, 2.0]), "len(qpos)"),
        (StepResponse(info={"a": 1.0}), StepResponse(info={"b": 1.0}), "info['a']"),
        (ImageFrame(b"abc"), ImageFrame(b"abd"), "data[2]"),
        (StepResponse(), StepResponse(observation=AgentFrame()), "observation"),
        (TelemetryFrame(timestamp_ms=1), TelemetryFrame(), "timestamp_ms"),
        (StepResponse(message="a\0b"), StepResponse(message="a"), "message"),
        (JointState(["far"]), JointState([1.0]), ""),  # pyright: ignore[reportArgumentType]
    ],
)
def test_the_place_of_a_difference_is_told(left: Any, right: Any, path: str) -> None:
    found = first_unequal(type(left), left, right)
    assert found is not None
    assert found.where == path


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (FullState([0.1, math.nan]), FullState([0.10000000149011612, math.nan])),
        (StepResponse(info={"a": 1.0, "b": 2.0}), StepResponse(info={"b": 2.0, "a": 1.0})),
        (ImageFrame(bytearray(b"abc")), ImageFrame(memoryview(b"abc"))),
        (TelemetryFrame(timestamp_ms=1), TelemetryFrame(timestamp_ms=2)),
        (StepResponse(physics_step_duration_us=5), StepResponse()),
    ],
)
def test_what_is_the_same_on_a_wire_or_comes_from_a_clock_is_equal(left: Any, right: Any) -> None:
    assert first_unequal(type(left), left, right) is None


def test_numbers_of_pictures_count_outside_streams_only() -> None:
    one, other = ImageFrame(frame_number=1), ImageFrame(frame_number=2)
    assert first_unequal(ImageFrame, one, other) is not None
    assert first_unequal(ImageFrame, one, other, streamed=True) is None


def joints(*positions: float) -> GetJointStateResponse:
    return GetJointStateResponse(True, "", JointState(list(positions), [0.5]))


@pytest.mark.parametrize(
    ("rule", "near", "far"),
    [
        (Rule(abs=0.01), 1.01 - 1e-6, 1.02),
        (Rule(rel=0.1), 1.1, 1.2),
        (Rule(ulp=2), float(np.nextafter(np.float32(1), np.float32(2))), 1.00001),
    ],
)
def test_a_tolerance_pardons_what_is_near_and_nothing_else(rule: Rule, near: float, far: float) -> None:
    rules = ComparisonRules({"GetJointStateResponse.state.positions": rule})
    kind = GetJointStateResponse
    assert first_unequal(kind, joints(1.0), joints(near)) is not None
    assert first_unequal(kind, joints(1.0), joints(near), rules) is None
    found = first_unequal(kind, joints(1.0, 1.0), joints(1.0, far), rules)
    assert found is not None
    assert found.where == "state.positions[1]"


def test_a_tolerance_holds_for_whole_numbers_and_bytes_too() -> None:
    rules = ComparisonRules({"JointState.nq": Rule(abs=1), "ImageFrame.data": Rule(abs=2)})
    assert first_unequal(JointState, JointState(nq=3), JointState(nq=4), rules) is None
    assert first_unequal(JointState, JointState(nq=3), JointState(nq=5), rules) is not None
    assert first_unequal(ImageFrame, ImageFrame(b"\x00\xff"), ImageFrame(b"\x02\xfd"), rules) is None
    assert first_unequal(ImageFrame, ImageFrame(b"\x00\xff"), ImageFrame(b"\x02\xfc"), rules) is not None


def test_a_field_that_is_skipped_may_differ_with_all_below_it() -> None:
    rules = ComparisonRules({"GetJointStateResponse.state": Rule(skip="moves by itself")})
    assert first_unequal(GetJointStateResponse, joints(1.0), joints(2.0), rules) is None


FLOATS = st.floats(width=32, allow_subnormal=True)


@given(left=FLOATS, right=FLOATS)
def test_one_bit_is_a_difference_unless_both_are_nan(left: float, right: float) -> None:
    x, y = np.array([left], np.float32), np.array([right], np.float32)
    alike = x.tobytes() == y.tobytes() or (math.isnan(left) and math.isnan(right))
    assert (first_unequal_number(x, y) is None) == alike


@given(left=FLOATS, steps=st.integers(0, 5), ulp=st.integers(1, 5))
def test_ulp_counts_representable_numbers_also_across_zero(left: float, steps: int, ulp: int) -> None:
    x = y = np.array([left], np.float32)
    with np.errstate(over="ignore"):
        for _ in range(steps):
            y = np.nextafter(y, np.float32(math.inf))
    if np.isfinite(x[0]) and np.isfinite(y[0]):
        assert (first_unequal_number(x, y, Rule(ulp=ulp)) is None) == (steps <= ulp)


@given(
    left=FLOATS, right=FLOATS, rule=st.builds(Rule, abs=st.floats(0, 10), rel=st.floats(0, 2), ulp=st.integers(0, 9))
)
def test_a_tolerance_works_both_ways_and_never_pardons_infinity_or_nan(left: float, right: float, rule: Rule) -> None:
    x, y = np.array([left], np.float32), np.array([right], np.float32)
    found = first_unequal_number(x, y, rule)
    assert found == first_unequal_number(y, x, rule)
    if not (math.isfinite(left) and math.isfinite(right)):
        assert found == first_unequal_number(x, y)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 9))
def test_whole_numbers_are_compared_without_overflow(left: int, right: int, distance: int) -> None:
    x, y = np.array([left], np.uint64), np.array([right], np.uint64)
    assert (first_unequal_number(x, y, Rule(abs=distance)) is None) == (abs(left - right) <= distance)
    signed = np.array([left - 2**63], np.int64), np.array([right - 2**63], np.int64)
    assert (first_unequal_number(*signed, Rule(abs=distance)) is None) == (abs(left - right) <= distance)


def test_the_index_of_the_first_difference_has_every_dimension() -> None:
    x = np.zeros((4, 3), np.float32)
    y = x.copy()
    y[2, 1] = 1.0
    assert first_unequal_number(x, y) == (2, 1)


def load(folder: Path, text: str) -> ComparisonRules:
    (folder / "lucky_transport.toml").write_text(f"[parity.fields]\n{text}\n")
    return ComparisonRules.load(folder)


def test_without_a_file_only_clocks_are_left_out(tmp_path: Path) -> None:
    assert ComparisonRules.load(tmp_path).rows == ComparisonRules().rows


def test_a_rule_is_read_from_the_nearest_file(tmp_path: Path) -> None:
    rules = load(tmp_path, '"GetJointStateResponse.state.positions" = { abs = 1e-6, nan = "different" }')
    assert rules.rule("GetJointStateResponse.state.positions") == Rule(abs=1e-6, nan="different")
    assert ComparisonRules.load(tmp_path / "below").rows == rules.rows
    assert rules.rule("GetJointStateResponse.state.velocities") == Rule()


def test_the_most_exact_key_counts() -> None:
    patterns = {"*": Rule(abs=1), "*.positions": Rule(abs=2)}
    own = {"JointState.positions": Rule(abs=3)}
    path = {"GetJointStateResponse.state.positions": Rule(abs=4)}
    place, name = "GetJointStateResponse.state.positions", "JointState.positions"
    found = [
        ComparisonRules(rows).rule(place, name).abs for rows in ({}, patterns, patterns | own, patterns | own | path)
    ]
    assert found == [0, 2, 3, 4]
    assert ComparisonRules(patterns).rule("JointState.nq").abs == 1


def test_a_pattern_never_makes_a_clock_compared() -> None:
    assert ComparisonRules({"AgentFrame.*": Rule(abs=1e-9)}).left_out(AgentFrame) == ("AgentFrame.timestamp_ms",)
    assert ComparisonRules({"AgentFrame.timestamp_ms": Rule(abs=5)}).left_out(AgentFrame) == ()


def test_what_is_left_out_of_a_message_is_known_by_the_keys_of_the_rules() -> None:
    assert ComparisonRules().left_out(StepResponse) == (
        "AgentFrame.timestamp_ms",
        "StepResponse.physics_step_duration_us",
        "ImageFrame.timestamp_ms",
    )
    assert ComparisonRules().left_out(ImageFrame, streamed=True) == (
        "ImageFrame.timestamp_ms",
        "ImageFrame.frame_number",
    )
    skips = ComparisonRules({"GetJointStateResponse.state.*": Rule(skip="moves")})
    assert skips.left_out(GetJointStateResponse) == ("GetJointStateResponse.state.*",)


def test_every_field_that_is_left_out_exists_and_has_a_reason(tmp_path: Path) -> None:
    load(tmp_path, "\n".join(f'"{key}" = {{ skip = "moves" }}' for key in ComparisonRules().rows))
    assert all(ComparisonRules().skipped().values())
    assert "ImageFrame.frame_number of streams" in ComparisonRules().skipped()


def test_every_field_of_every_response_has_a_rule() -> None:
    rules = ComparisonRules()
    for row in METHODS:
        rules.left_out(row.response)  # walks all of it


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ('"JointState.positions" = { abs = -1 }', r"'JointState.positions': abs = -1; expected a number >= 0"),
        ('"JointState.positions" = { abs = nan }', r"abs = nan; expected a number"),
        ('"JointState.positions" = { abs = true }', r"abs = True; expected a number"),
        ('"JointState.positions" = { ulp = 1.5 }', r"ulp = 1.5; expected a whole number"),
        ('"JointState.positions" = { nan = "maybe" }', r"nan = 'maybe'; expected 'equal' or 'different'"),
        ('"JointState.positions" = { nan = [] }', r"nan = \[\]; expected 'equal' or 'different'"),
        ('"JointState.positions" = { skip = "" }', r"skip = ''; expected the reason"),
        ('"JointState.positions" = { skip = "x", abs = 1 }', r"skip beside abs; a field is left out or compared"),
        (
            '"JointState.positions" = { tolerance = 1 }',
            r"unknown key 'tolerance'; known keys: abs, rel, ulp, nan, skip",
        ),
        ('"JointState.positions" = 1e-6', r"'JointState.positions' = 1e-06; write a table"),
        ('"JointState.positons" = { abs = 1 }', r"no field 'positons'; did you mean 'positions'\?"),
        ('"JointStat.positions" = { abs = 1 }', r"begins with no known name; did you mean 'JointState'\?"),
        ('"JointState.positions.x" = { abs = 1 }', r"a number or text has no field 'x'"),
        ('"JointState" = { abs = 1 }', r"JointState has no field ''"),
        ('"spec.step_s" = { abs = 1 }', r"has a tolerance; spec is left out or equal; skip it"),
        ('"metadata.date" = { abs = 1 }', r"has a tolerance; metadata is left out or equal; skip it"),
        ('"GetJointStateResponse.message" = { abs = 1 }', r"is of kind str; only numbers have a tolerance"),
        ("JointState.positions = { abs = 1 }", r"unknown key 'positions'"),
    ],
)
def test_a_wrong_rule_is_one_error_with_source_key_value_and_remedy(tmp_path: Path, row: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(tmp_path, row)
    assert "lucky_transport.toml: [parity.fields]" in str(caught.value)


def test_arrays_of_a_step_metadata_and_patterns_can_be_named(tmp_path: Path) -> None:
    rules = load(
        tmp_path,
        '"observation" = { ulp = 2 }\n"info.final_obs" = { ulp = 2 }\n"metadata.date" = { skip = "a clock" }\n'
        '"*.name" = { skip = "x" }',
    )
    assert rules.rule("observation").ulp == 2
    assert rules.rule("metadata.date").skips(streamed=False)


def compare(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> LocatedDifference | None:
    found = first_difference(a, b)
    return None if found is None else LocatedDifference(found, ("shm", "grpc"), AtMove("next_step", 7, "step"))


def test_equal_answers_have_no_difference() -> None:
    answer = {"observation": np.array([[1.0, np.nan]], np.float32), "flag": np.array([True])}
    assert compare(answer, {name: array.copy() for name, array in answer.items()}) is None


@given(st.integers(0, 3), st.integers(0, 4))
def test_a_difference_names_env_index_and_both_values(env: int, column: int) -> None:
    a = np.zeros((4, 5), np.float32)
    b = a.copy()
    b[env, column] = 0.25
    found = compare({"observation": a}, {"observation": b})
    assert found is not None
    assert (found.difference.where, found.difference.env, found.difference.index) == ("observation", env, (column,))
    assert found.values == {"shm": 0.0, "grpc": 0.25}
    assert f"observation of env {env} at [{column}]" in found.sentence()


def test_dtype_and_shape_are_compared() -> None:
    a = np.zeros(3, np.float32)
    for b in (a.astype(np.float64), a[:2]):
        found = compare({"reward": a}, {"reward": b})
        assert found is not None
        assert found.difference.env is None
        assert "float" in found.values["grpc"]


@pytest.mark.parametrize("side", [0, 1])
def test_a_field_that_only_one_side_has_is_a_difference(side: int) -> None:
    answers: list[dict[str, NDArray[Any]]] = [{}, {}]
    answers[side]["info.extra"] = np.zeros(1)
    found = compare(*answers)
    assert found is not None
    assert sorted(found.values.values()) == ["absent", "present"]


def test_a_difference_of_infinite_values_is_valid_json() -> None:
    found = compare({"x": np.array([np.inf])}, {"x": np.array([np.nan])})
    assert found is not None
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["values"] == {
        "shm": "inf",
        "grpc": "nan (0x7ff8000000000000)",
    }


def test_nested_info_becomes_flat_names() -> None:
    table = flatten({"reward_terms": {"alive": np.ones(2, np.float32)}, "note": "text", "count": 3})
    assert sorted(table) == ["info.count", "info.note", "info.reward_terms.alive"]


def test_rows_that_the_mask_declares_invalid_do_not_count() -> None:
    mask = np.array([True, False])
    a = flatten({"final_obs": np.array([[1.0], [2.0]]), "_final_obs": mask})
    b = flatten({"final_obs": np.array([[1.0], [9.0]]), "_final_obs": mask})
    assert compare(a, b) is None
    c = flatten({"final_obs": np.array([[3.0], [2.0]]), "_final_obs": mask})
    assert compare(a, c) is not None


@pytest.mark.parametrize(
    ("rows", "field", "key"),
    [
        ({"signals": 1.0, "signals*": 2.0}, "signals.alive", "signals"),
        ({"signals.alive": 1.0, "signals": 2.0}, "signals.alive", "signals.alive"),
        ({"signals.*": 1.0}, "signals.alive", "signals.*"),
        ({"rewards": 1.0, "r*": 2.0}, "reward", "rewards"),
        ({"observations": 1.0}, "observation", "observations"),
        ({"observation": 1.0}, 'observation["camera"]["left"]', "observation"),
        ({"reward": 1.0}, "terminated", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_most_exact_rule_counts_for_an_array(rows: dict[str, float], field: str, key: str) -> None:
    rules = ComparisonRules({name: Rule(abs=distance) for name, distance in rows.items()})
    assert array_rule(rules, field) == (Rule(abs=rows[key]) if key else Rule())


LATEST, EVERY = method("TelemetryService/StreamTelemetry"), method("AgentService/StreamPolicySlotState")


def found(
    left: Sequence[int], right: Sequence[int], *, dropped: tuple[int, int] | None = (0, 0), left_early: bool = False
) -> Difference | None:
    """Return where two streams of the latest with items of these numbers differ."""
    ours, theirs = ([TelemetryFrame(frame_number=number) for number in side] for side in (left, right))
    return ItemPairs(LATEST, ours, theirs, ComparisonRules(), ended_early=left_early, dropped=dropped).differing()


@pytest.mark.parametrize("world", [[1, 2, 3, 4], [1, 1, 1, 1]], ids=["moving", "still"])
def test_one_wrong_item_is_named_with_its_value_whether_the_world_moves_or_not(world: list[int]) -> None:
    difference = found(world, [world[0], 9, *world[2:]])
    assert difference is not None
    assert (difference.aspect, difference.where) == ("item", "items[1].frame_number")
    assert (difference.left, difference.right) == (world[1], 9)


def test_items_that_a_reader_was_too_slow_for_are_no_difference() -> None:
    assert found([1, 2, 3, 4, 5, 6], [1, 2, 5, 6], dropped=(0, 2)) is None
    assert found([1, 4, 5, 6], [1, 2, 4, 5, 6], dropped=(1, 0)) is None
    assert found([1, 2, 3], [1, 2], dropped=(0, 1)) is None
    assert found([1, 2, 4, 5], [1, 3, 4, 5], dropped=(1, 1)) is None


def test_streams_that_were_left_before_they_showed_the_same_are_equal_within_what_they_skipped() -> None:
    assert found([1, 2, 3], [1, 7, 8], dropped=(0, 5), left_early=True) is None
    assert found([1, 2, 3], [1, 7, 8], dropped=(0, 1), left_early=True) is not None


def test_more_items_are_not_missing_than_were_skipped() -> None:
    difference = found([1, 2, 3, 4, 5, 6], [1, 2, 5, 6], dropped=(0, 1))
    assert difference is not None
    assert difference.aspect == "count"
    wrong = found([1, 2, 3, 4], [1, 3, 9, 4], dropped=(0, 1))
    assert wrong is not None


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("caf\u00e9 \u4e2d", "cafe\u0301 \u4e2d", ("caf<U+00E9> <U+4E2D>", "cafe<U+0301> <U+4E2D>")),
        ("5\u00a0m", "5 m", ("5<U+00A0>m", "5 m")),
        ("on\u200b", "on", ("on<U+200B>", "on")),
        ("\u4e2d", "\u65e5", ("\u4e2d", "\u65e5")),  # these do not print alike
        ("a", "b", ("a", "b")),
        (1, 1.5, (1, 1.5)),
        (float("nan"), 1.0, ("nan", 1.0)),
        (None, "x", (None, "x")),
    ],
)
def test_texts_that_print_alike_are_shown_by_their_code_points(
    left: Any, right: Any, expected: tuple[Any, Any]
) -> None:
    assert shown(left, right) == expected


@pytest.mark.parametrize("size", [0, 2_000])
@pytest.mark.parametrize("kind", [str, str.encode, list])
def test_of_long_values_the_part_that_differs_is_shown(kind: Any, size: int) -> None:
    left, right = shown(kind("x" * 2_000 + "left" + "x" * size), kind("x" * 2_000 + "right" + "x" * size))
    assert left != right
    assert "... from character" in left
    assert max(map(len, (left, right))) <= 300
    assert shown(left, right) == (left, right), "what is shown once more stays"


def test_a_line_end_in_a_value_a_place_or_a_request_does_not_tear_its_sentence() -> None:
    place = AtCall("/a.B/C", 0, "drawn", "text: a\nb")
    found = LocatedDifference(Difference("item", "labels['a\nb']", "a\nb", "a\r\nb"), ("grpc", "shm"), place)
    values = {"grpc": "a\nb", "shm": "a\r\nb"}
    evidence = seen("/a.B/C", "different", aspect="item", where="labels['a\nb']", values=values)
    for sentence in (found.sentence(), evidence.sentence):
        assert len(sentence.splitlines()) == 1
        assert "'a\\nb'" in sentence
